"""The porter: holds objects, saves them, moves them to disk."""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow.data.places import PAGE, Place
from onceflow.data.porter.client import Open
from onceflow.data.porter.messages import Failed, Fetched, Saved, Spilled
from onceflow.errors import StorageDamaged, StorageFull
from tests.data.common import AUTHOR, MB, Desk, descriptors

SIZES = [0, 1, PAGE, 100_001, 3 * MB, 20 * MB + 5]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Desk(tmp_path) as desk:
        yield desk


@pytest.mark.parametrize("size", SIZES)
def test_an_object_that_is_kept_can_be_fetched(desk: Desk, size: int) -> None:
    data = os.urandom(size)

    number, place = desk.keep(data)

    fetched = desk.fetch(number)
    assert isinstance(fetched, Fetched)
    assert fetched.place == place
    assert desk.segments.map(place) == data


def test_an_object_outlives_the_arena_that_made_it(desk: Desk) -> None:
    number, _ = desk.keep(b"x" * (4 * MB))
    desk.arena.close()
    desk.segments.close()

    assert desk.read(number) == b"x" * (4 * MB)


@pytest.mark.parametrize("size", SIZES)
def test_an_object_is_saved_as_it_is(desk: Desk, size: int) -> None:
    data = os.urandom(size)
    number, _ = desk.keep(data)

    saved = desk.save(number)

    assert saved == Saved(1, f"run/3.engine.{size}-{zlib.crc32(data):08x}.node")
    assert desk.blobs.read(saved.reference) == data


@pytest.mark.parametrize("size", SIZES)
def test_an_object_that_is_moved_to_disk_is_there(desk: Desk, size: int) -> None:
    data = os.urandom(size)
    number, place = desk.keep(data)

    spilled = desk.spill(number)

    assert isinstance(spilled, Spilled)
    assert spilled.place.segment == 1_000_000
    desk.arena.free(place)
    desk.keep(b"z" * size)
    assert desk.read(number) == data
    counted = desk.count()
    assert (counted.spilled, counted.spilled_size) == (1, size)


def test_an_object_on_disk_can_be_saved(desk: Desk) -> None:
    data = os.urandom(3 * MB + 1)
    number, _ = desk.keep(data)
    desk.spill(number)

    saved = desk.save(number)

    assert isinstance(saved, Saved)
    assert desk.blobs.read(saved.reference) == data


def test_an_object_on_disk_stays_where_it_is_if_asked_again(desk: Desk) -> None:
    number, _ = desk.keep(b"x" * MB)
    answers: list[Spilled | Failed] = []
    for _ in range(2):
        desk.porter.spill(number, lambda reply, _: answers.append(reply))

    desk.until(lambda: len(answers) == 2)

    third = desk.spill(number)
    assert [answer.place for answer in (*answers, third) if isinstance(answer, Spilled)] == [third.place] * 3
    assert desk.read(number) == b"x" * MB


def test_nothing_that_is_on_disk_has_a_name(desk: Desk) -> None:
    number, _ = desk.keep(b"x" * MB)

    desk.spill(number)

    assert list(desk.spill_folder.iterdir()) == []


def test_room_on_disk_is_used_again(desk: Desk) -> None:
    numbers = [desk.keep(bytes([number]) * MB)[0] for number in range(4)]
    places = [spilled.place for number in numbers if isinstance(spilled := desk.spill(number), Spilled)]

    desk.porter.free([numbers[1], numbers[2]])
    larger, _ = desk.keep(b"x" * (2 * MB))

    assert desk.spill(larger).place == Place(1_000_000, places[1].offset, 2 * MB)
    assert desk.read(larger) == b"x" * (2 * MB)
    assert desk.read(numbers[3]) == bytes([3]) * MB


def test_room_on_disk_that_is_not_needed_is_given_back(desk: Desk) -> None:
    numbers = [desk.keep(b"x" * (2 * MB))[0] for _ in range(3)]
    for number in numbers:
        desk.spill(number)
    _, descriptor = desk.answer(lambda done: desk.porter.fetch(numbers[2], done))
    assert descriptor is not None

    def blocks() -> int:
        desk.count()
        return os.fstat(descriptor).st_blocks * 512

    assert blocks() >= 6 * MB
    desk.porter.free([numbers[0]])
    assert blocks() < 5 * MB
    desk.porter.free(numbers[1:])
    assert blocks() == 0
    os.close(descriptor)


def test_the_file_on_disk_cannot_be_forgotten(desk: Desk) -> None:
    first, second = [desk.keep(b"x" * MB)[0] for _ in range(2)]
    desk.spill(first)
    desk.porter.free([first])

    desk.porter.forget([1_000_000])

    assert isinstance(desk.spill(second), Spilled)
    assert desk.read(second) == b"x" * MB


def test_a_reader_cannot_write_to_what_is_on_disk(desk: Desk) -> None:
    number, _ = desk.keep(b"x" * MB)
    desk.spill(number)
    _, descriptor = desk.answer(lambda done: desk.porter.fetch(number, done))
    assert descriptor is not None

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(descriptor, b"y", 0)
    os.close(descriptor)


def test_what_is_freed_is_not_there(desk: Desk) -> None:
    number, _ = desk.keep(b"x")
    desk.porter.free([number])

    for failed in (desk.fetch(number), desk.save(number), desk.spill(number)):
        assert isinstance(failed, Failed)
        assert failed.kind is None
        assert f"object {number}" in failed.reason


def test_what_is_freed_while_it_is_moved_leaves_nothing_on_disk(desk: Desk) -> None:
    number, _ = desk.keep(b"x" * (10 * MB))
    answers: list[Spilled | Failed] = []
    desk.porter.spill(number, lambda reply, _: answers.append(reply))
    desk.porter.free([number])

    desk.until(lambda: answers)

    assert isinstance(answers[0], Failed)
    other, _ = desk.keep(b"y" * MB)
    assert desk.spill(other).place == Place(1_000_000, 0, MB)


def test_what_is_kept_is_counted(desk: Desk) -> None:
    large, place = desk.keep(b"x" * (5 * MB))
    desk.keep(b"y" * 10)
    spilled, _ = desk.keep(b"z" * 20)
    desk.spill(spilled)

    counted = desk.count()

    assert (counted.objects, counted.size, counted.spilled, counted.spilled_size) == (2, 5 * MB + 10, 1, 20)
    assert (counted.saving, counted.saving_size, counted.segments) == (0, 0, 3)
    desk.porter.free([large])
    desk.porter.forget([place.segment])
    while desk.count().segments > 2:
        pass
    assert desk.count().objects == 1


def test_a_small_save_does_not_wait_for_large_ones(desk: Desk) -> None:
    order: list[str] = []
    large = [desk.keep(b"x" * (60 * MB))[0] for _ in range(6)]
    small, _ = desk.keep(b"y" * 1_000)

    for number in large:
        desk.porter.save(number, AUTHOR, f"large{number}", lambda *_: order.append("large"))
    desk.porter.save(small, AUTHOR, "small", lambda *_: order.append("small"))
    desk.until(lambda: len(order) == 7)

    assert "small" in order[:6]


def test_thousands_of_objects_come_and_go(desk: Desk) -> None:
    desk.count()
    before = descriptors()
    kept: list[tuple[int, Place]] = []
    saved: list[Saved | Failed] = []
    for step in range(3_000):
        kept.append(desk.keep(step.to_bytes(4, "big") * 5_000))
        if step % 100 == 0:
            desk.porter.save(kept[-1][0], AUTHOR, f"node{step}", lambda reply, _: saved.append(reply))
        if step % 50 == 49:
            desk.until(lambda step=step: len(saved) == step // 100 + 1)  # type: ignore[misc]
            desk.porter.free([number for number, _ in kept])
            for _, place in kept:
                desk.arena.free(place)
            kept.clear()

    counted = desk.count()

    assert (counted.objects, counted.segments) == (0, 1)
    assert descriptors() == before
    blobs = [desk.blobs.read(reply.reference) for reply in saved if isinstance(reply, Saved)]
    assert blobs == [step.to_bytes(4, "big") * 5_000 for step in range(0, 3_000, 100)]


def test_two_who_have_much_to_say_do_not_block_each_other(tmp_path: Path) -> None:
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))"
    fetched: list[Fetched | Failed] = []

    def take(reply: Fetched | Failed, descriptor: int | None) -> None:
        assert descriptor is not None
        os.close(descriptor)
        fetched.append(reply)

    with Desk(tmp_path, few) as desk:
        numbers = [desk.keep(b"x")[0] for _ in range(2_000)]
        for _ in range(10):
            for number in numbers:
                desk.porter.fetch(number, take)
        desk.until(lambda: len(fetched) == 20_000)


def test_a_segment_may_be_forgotten_while_its_descriptor_is_under_way(desk: Desk) -> None:
    number, place = desk.keep(b"x" * (3 * MB))
    fetched: list[int] = []

    def take(reply: Fetched | Failed, descriptor: int | None) -> None:
        assert descriptor is not None
        fetched.append(descriptor)

    for _ in range(1_000):
        desk.porter.fetch(number, take)
    desk.porter.forget([place.segment])
    desk.until(lambda: len(fetched) == 1_000)

    while desk.count().segments:
        pass
    assert isinstance(desk.fetch(number), Failed)
    assert all(os.pread(descriptor, 1, 0) == b"x" for descriptor in fetched)
    for descriptor in fetched:
        os.close(descriptor)


def test_a_full_disk_fails_the_save_and_leaves_nothing(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2_500_000, 2_500_000))"
    with Desk(tmp_path, limit) as desk:
        large, _ = desk.keep(b"x" * (5 * MB))
        small, _ = desk.keep(b"y" * MB)

        failed, saved = desk.save(large), desk.save(small)

        assert isinstance(failed, Failed)
        assert isinstance(failed.error(), StorageFull)
        assert isinstance(saved, Saved)
        assert [file.name for file in (tmp_path / "blobs" / "run").iterdir()] == [Path(saved.reference).name]
        assert desk.read(large) == b"x" * (5 * MB)


def test_a_full_disk_fails_the_move_and_the_object_stays(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2_500_000, 2_500_000))"
    with Desk(tmp_path, limit) as desk:
        large, place = desk.keep(b"x" * (5 * MB))
        small, _ = desk.keep(b"y" * MB)

        failed, spilled = desk.spill(large), desk.spill(small)

        assert isinstance(failed, Failed)
        assert isinstance(failed.error(), StorageFull)
        assert isinstance(spilled, Spilled)
        fetched = desk.fetch(large)
        assert isinstance(fetched, Fetched)
        assert fetched.place == place
        assert desk.read(small) == b"y" * MB


def test_a_folder_that_cannot_be_used_fails_the_move(desk: Desk) -> None:
    desk.spill_folder.write_text("in the way")
    number, _ = desk.keep(b"x")

    failed = desk.spill(number)

    assert isinstance(failed, Failed)
    assert str(desk.spill_folder) in str(failed.error())


def test_a_porter_without_descriptors_refuses_what_it_cannot_keep(tmp_path: Path) -> None:
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))"
    with Desk(tmp_path, few) as desk:
        numbers = [desk.keep(b"x" * (3 * MB))[0] for _ in range(50)]

        counted = desk.count()

        assert 0 < len(desk.refused) < 50
        assert counted.objects == 50 - len(desk.refused)
        kept = [number for number in numbers if number not in desk.refused]
        assert all(isinstance(desk.save(number, f"node{number}"), Saved) for number in kept)
        assert isinstance(desk.spill(kept[0]), Spilled)
        assert desk.read(kept[0]) == b"x" * (3 * MB)
        desk.porter.free(numbers)
        desk.porter.forget(range(100))
        while desk.count().segments > 1:
            pass
        again, _ = desk.keep(b"y" * (3 * MB))
        assert desk.read(again) == b"y" * (3 * MB)


def test_the_end_of_a_porter_is_told_with_what_was_open(desk: Desk) -> None:
    number, _ = desk.keep(b"x")
    desk.count()
    os.kill(desk.porter.pid or 0, signal.SIGSTOP)
    answers: list[object] = []
    for ask in (desk.porter.fetch, desk.porter.spill):
        ask(number, lambda *reply: answers.append(reply))
    desk.porter.save(number, AUTHOR, "node", lambda *reply: answers.append(reply))
    desk.porter.turn()

    desk.kill()
    while desk.porter.is_open:
        desk.turn()

    assert desk.lost == [Open(fetches=[number], saves=[number], spills=[number])]
    assert answers == []


@pytest.mark.parametrize("what", ["save", "spill"])
def test_a_porter_that_is_killed_leaves_nothing_half_done(tmp_path: Path, what: str) -> None:
    before = descriptors()
    with Desk(tmp_path) as desk:
        numbers = [desk.keep(b"x" * (30 * MB))[0] for _ in range(4)]
        desk.count()
        answers: list[object] = []
        for number in numbers:
            if what == "save":
                desk.porter.save(number, AUTHOR, f"node{number}", lambda *reply: answers.append(reply))
            else:
                desk.porter.spill(number, lambda *reply: answers.append(reply))
        desk.until(lambda: answers)

        desk.kill()
        while desk.porter.is_open:
            desk.turn()

        [lost] = desk.lost
        assert len(lost.saves) + len(lost.spills) == 4 - len(answers)
        if what == "spill":
            assert list(desk.spill_folder.iterdir()) == []
        else:
            whole = [file for file in desk.blobs.files("run") if "~" not in file.reference]
            assert all(desk.blobs.read(file.reference) == b"x" * (30 * MB) for file in whole)
            assert len(whole) >= len(answers)
    assert descriptors() == before


def test_a_porter_ends_with_its_engine(tmp_path: Path) -> None:
    before = descriptors()
    with Desk(tmp_path) as desk:
        desk.keep(b"x" * (5 * MB))
        desk.count()

        desk.porter.close()

        assert desk.wait() == 0
        assert desk.lost == []
    assert descriptors() == before


def test_whoever_gets_an_answer_may_close_the_porter(tmp_path: Path) -> None:
    before = descriptors()
    with Desk(tmp_path) as desk:
        number, _ = desk.keep(b"x")
        desk.count()
        answers: list[int | None] = []

        def take(reply: Fetched | Failed, descriptor: int | None) -> None:
            assert descriptor is not None
            os.close(descriptor)
            answers.append(descriptor)
            desk.porter.close()

        for _ in range(5):
            desk.porter.fetch(number, take)
        while desk.porter.is_open:
            desk.turn()

        assert len(answers) == 1
        assert desk.lost == []
    assert descriptors() == before


def test_an_object_that_cannot_be_mapped_is_not_saved(tmp_path: Path) -> None:
    little = "import resource; resource.setrlimit(resource.RLIMIT_AS, (300_000_000, 300_000_000))"
    with Desk(tmp_path, little) as desk:
        large, _ = desk.keep(b"x" * (320 * MB))

        for failed in (desk.save(large), desk.spill(large)):
            assert isinstance(failed, Failed)
            assert "Cannot allocate memory" in str(failed.error())

        assert isinstance(desk.fetch(large), Fetched)


def test_a_porter_that_never_came_to_life_is_lost(tmp_path: Path) -> None:
    with Desk(tmp_path, "sys.exit(3)") as desk:
        while desk.porter.is_open:
            desk.turn()

        assert desk.lost == [Open([], [], [])]
        assert desk.wait() == 3


def test_an_object_on_disk_that_is_not_what_was_written_is_not_saved(desk: Desk) -> None:
    number, _ = desk.keep(bytes(MB))
    spilled = desk.spill(number)
    assert isinstance(spilled, Spilled)
    for checksum, kind in ((spilled.checksum, Saved), (spilled.checksum ^ 1, Failed)):
        reply = desk.answer(lambda done, its=checksum: desk.porter.save(number, AUTHOR, f"n{its}", done, its))[0]
        assert isinstance(reply, kind)
    assert isinstance(reply, Failed)
    assert isinstance(reply.error(), StorageDamaged)
