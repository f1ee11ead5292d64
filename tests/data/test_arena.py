"""The arena: objects are whole, sealed, and their memory is used again."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import resource
import threading
from collections.abc import Iterator

import pytest

from onceflow.data import arena as arenas
from onceflow.data.arena import FEW, LARGE, MEDIUM, SLAB, Arena, NoRoom
from onceflow.data.mapping import Segments
from onceflow.data.places import PAGE, Place

MB = 1024 * 1024


class Pair:
    """An arena, and a reader who knows its segments."""

    def __init__(self, spare: int = arenas.SPARE) -> None:
        self.arena = Arena(1_000, spare=spare)
        self.segments = Segments()

    def put(self, *pieces: bytes) -> Place:
        place = self.arena.put(pieces)
        self.tell()
        return place

    def tell(self) -> None:
        for segment, descriptor in self.arena.new():
            self.segments.add(segment, descriptor)
        self.segments.forget(self.arena.closed())


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.segments.close()
    made.arena.close()


@pytest.mark.parametrize("size", [0, 1, PAGE, PAGE + 1, 100_000, LARGE - 1, LARGE, LARGE + 1, 5 * MB + 17])
def test_an_object_is_read_as_it_was_put(pair: Pair, size: int) -> None:
    data = os.urandom(size)

    place = pair.put(data[: size // 3], b"", data[size // 3 : size // 2], data[size // 2 :])

    assert place.size == size
    assert place.offset % PAGE == 0
    assert pair.segments.map(place) == data


def test_more_pieces_than_one_system_call_takes_are_written(pair: Pair) -> None:
    pieces = [os.urandom(1_000) for _ in range(3_000)]

    assert pair.segments.map(pair.put(*pieces)) == b"".join(pieces)


@pytest.mark.parametrize("size", [PAGE, 2 * MB])
def test_what_was_put_cannot_be_changed_by_others(pair: Pair, size: int) -> None:
    place = pair.arena.put([b"x" * size])
    [(segment, descriptor)] = pair.arena.new()
    pair.segments.add(segment, os.dup(descriptor))

    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"y", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, PAGE)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    with pytest.raises(PermissionError):
        os.posix_fallocate(descriptor, 0, 2 * SLAB)
    reopened = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
    with pytest.raises(PermissionError):
        os.pwrite(reopened, b"y", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(reopened, PAGE)
    os.close(reopened)
    with pytest.raises(PermissionError):
        fcntl.fcntl(descriptor, 1033, 0)
    with pytest.raises(TypeError):
        pair.segments.map(place)[0] = 1
    assert pair.segments.map(place) == b"x" * size
    os.close(descriptor)


def test_small_objects_share_a_segment(pair: Pair) -> None:
    places = [pair.put(bytes([number]) * 50_000) for number in range(200)]

    assert len({place.segment for place in places}) == 1
    assert len({place.offset for place in places}) == 200
    for number, place in enumerate(places):
        assert pair.segments.map(place) == bytes([number]) * 50_000


def test_when_a_slab_is_full_another_one_is_made(pair: Pair) -> None:
    places = [pair.put(b"x" * (MEDIUM - 1)) for _ in range(SLAB // MEDIUM + 1)]

    assert len({place.segment for place in places}) == 2


def test_medium_objects_share_slabs_when_they_are_many(pair: Pair) -> None:
    places = [pair.put(bytes([number]) * MEDIUM) for number in range(FEW + 20)]

    assert len({place.segment for place in places}) == FEW + 1
    for number, place in enumerate(places):
        assert pair.segments.map(place) == bytes([number]) * MEDIUM


def test_of_equal_memory_that_which_was_freed_last_is_used_again(pair: Pair) -> None:
    places = [pair.put(b"x" * (4 * MB)) for _ in range(3)]
    for place in places:
        pair.arena.free(place)

    assert pair.put(b"y" * (4 * MB)).segment == places[2].segment


def test_memory_of_a_small_object_is_used_again(pair: Pair) -> None:
    first = pair.put(b"a" * 100_000)
    second = pair.put(b"b" * 100_000)

    pair.arena.free(first)
    third = pair.put(b"c" * 90_000)

    assert (third.segment, third.offset) == (first.segment, first.offset)
    assert pair.segments.map(third) == b"c" * 90_000
    assert pair.segments.map(second) == b"b" * 100_000


def test_memory_of_a_large_object_is_used_again_if_not_too_much_is_wasted(pair: Pair) -> None:
    first = pair.put(b"a" * (8 * MB))
    pair.arena.free(first)

    small = pair.put(b"b" * (3 * MB))
    fitting = pair.put(b"c" * (5 * MB))

    assert small.segment != first.segment
    assert fitting.segment == first.segment
    assert pair.segments.map(small) == b"b" * (3 * MB)
    assert pair.segments.map(fitting) == b"c" * (5 * MB)


def test_a_large_object_that_is_a_little_larger_finds_room_in_the_memory_of_another(pair: Pair) -> None:
    first = pair.put(b"a" * (8 * MB))
    pair.arena.free(first)

    larger = pair.put(b"b" * (9 * MB))

    assert larger.segment == first.segment
    assert pair.segments.map(larger) == b"b" * (9 * MB)
    assert pair.arena.statistics().used == 9 * MB


def test_what_was_freed_last_is_kept_even_if_it_is_beyond_the_limit() -> None:
    pair = Pair(spare=MB)
    first = pair.put(b"a" * (8 * MB))
    pair.arena.free(first)
    pair.arena.trim(now=0.0)

    assert pair.put(b"b" * (8 * MB)).segment == first.segment

    pair.arena.free(first)
    pair.arena.put([b"b" * (20 * MB)])
    assert pair.arena.closed() == [first.segment]
    pair.segments.close()
    pair.arena.close()


def test_segments_have_numbers_from_the_base_on(pair: Pair) -> None:
    assert [pair.put(b"x" * (4 * MB)).segment for _ in range(3)] == [1_000, 1_001, 1_002]


def test_memory_beyond_the_limit_is_given_back() -> None:
    pair = Pair(spare=9 * MB)
    places = [pair.put(b"x" * (4 * MB)) for _ in range(4)]
    for place in places:
        pair.arena.free(place)

    pair.arena.trim(now=0.0)

    assert pair.arena.closed() == [place.segment for place in places[:2]]
    assert pair.arena.statistics().spare == 8 * MB
    pair.segments.close()
    pair.arena.close()


def test_memory_that_nobody_wants_is_given_back_after_a_while(pair: Pair) -> None:
    large, small, kept = pair.put(b"x" * (4 * MB)), pair.put(b"x"), pair.put(b"y" * (4 * MB))
    pair.arena.free(large)
    pair.arena.free(small)

    pair.arena.trim(now=100.0)
    assert pair.arena.closed() == []
    pair.arena.trim(now=100.0 + arenas.IDLE)

    assert sorted(pair.arena.closed()) == [large.segment, small.segment]
    assert pair.arena.statistics().spare == 0
    assert pair.segments.map(kept) == b"y" * (4 * MB)


def test_a_segment_that_nobody_was_told_of_leaves_without_a_word() -> None:
    arena = Arena(0)
    before = len(os.listdir("/proc/self/fd"))
    arena.free(arena.put([b"x" * (4 * MB)]))

    arena.trim(0.0)
    arena.trim(arenas.IDLE)
    arena.close()

    assert arena.new() == arena.closed() == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_arena_keeps_no_descriptors_but_those_it_was_not_asked_for() -> None:
    arena = Arena(0)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        arena.put([b"x" * LARGE])
    new = arena.new()
    for _, descriptor in new:
        os.close(descriptor)

    assert len(new) == 20
    assert len(os.listdir("/proc/self/fd")) == before
    arena.close()


def test_without_descriptors_there_is_no_room_and_then_there_is(pair: Pair) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    descriptors = [os.dup(0) for _ in range(highest)]  # so that no lower one is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(descriptors) + 1, limits[1]))
    try:
        with pytest.raises(NoRoom) as caught:
            pair.put(b"x" * LARGE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in descriptors:
            os.close(descriptor)

    assert caught.value.errno == errno.EMFILE
    assert f"{LARGE} bytes" in str(caught.value)
    assert pair.segments.map(pair.put(b"x" * LARGE)) == b"x" * LARGE


def test_threads_do_not_get_in_each_others_way(pair: Pair) -> None:
    problems: list[str] = []

    def work(number: int) -> None:
        mine: list[tuple[Place, bytes]] = []
        for step in range(150):
            data = bytes([number, step]) * (30_000 if step % 10 else LARGE)
            mine.append((pair.arena.put([data]), data))
            if step % 3 == 0:
                pair.tell()
                place, expected = mine.pop(0)
                with told:
                    pair.tell()
                    if pair.segments.map(place) != expected:
                        problems.append(f"{number} {step}")
                pair.arena.free(place)

    told = threading.Lock()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []
