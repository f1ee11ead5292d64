"""Segments of a reader: what is mapped, and until when."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from onceflow.data.arena import SLAB, Arena
from onceflow.data.mapping import Segments, Statistics
from onceflow.data.places import PAGE, Place

MB = 1024 * 1024


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Arena(0)
    yield arena
    arena.close()


@pytest.fixture
def segments() -> Iterator[Segments]:
    segments = Segments()
    yield segments
    segments.close()


def put(arena: Arena, segments: Segments, data: bytes) -> Place:
    place = arena.put([data])
    for segment, descriptor in arena.new():
        segments.add(segment, descriptor)
    return place


def test_what_is_mapped_lingers_until_its_last_view_is_gone(arena: Arena, segments: Segments) -> None:
    place = put(arena, segments, b"abc" * PAGE)
    spot = (place.segment, place.offset)

    view = segments.map(place)
    array = numpy.frombuffer(view, "u1")[5:]
    del view
    gc.collect()

    assert segments.lingering() == {spot}
    assert segments.dropped() == []
    assert not array.flags.writeable
    del array
    assert segments.lingering() == set()
    assert segments.dropped() == [spot]
    assert segments.dropped() == []


def test_an_object_that_is_mapped_twice_is_dropped_once(arena: Arena, segments: Segments) -> None:
    place = put(arena, segments, b"x" * PAGE)

    first, second = segments.map(place), segments.map(place)
    del first
    assert segments.dropped() == []
    assert segments.statistics() == Statistics(segments=1, mapped=SLAB, views=1)
    del second

    assert segments.dropped() == [(place.segment, place.offset)]


def test_an_object_that_is_mapped_again_at_once_was_not_dropped(arena: Arena, segments: Segments) -> None:
    place = put(arena, segments, b"x" * PAGE)

    segments.map(place)
    view = segments.map(place)

    assert segments.dropped() == []
    assert segments.lingering() == {(place.segment, place.offset)}
    assert view[0] == ord("x")


def test_views_outlive_the_segment(arena: Arena, segments: Segments) -> None:
    place = put(arena, segments, b"x" * (3 * MB))
    view = segments.map(place)

    segments.forget([place.segment, 12345])
    arena.close()

    assert place.segment not in segments
    assert view == b"x" * (3 * MB)
    with pytest.raises(KeyError):
        segments.map(place)


def test_what_is_not_within_its_segment_cannot_be_mapped(arena: Arena, segments: Segments) -> None:
    place = put(arena, segments, b"x" * (3 * MB))

    with pytest.raises(ValueError, match="not within"):
        segments.map(Place(place.segment, 3 * MB, 3 * MB))


def test_neither_segments_nor_views_need_descriptors(arena: Arena, segments: Segments) -> None:
    before = len(os.listdir("/proc/self/fd"))
    places = [put(arena, segments, bytes([number]) * (3 * MB)) for number in range(20)]

    views = [segments.map(place) for place in places]

    assert len(os.listdir("/proc/self/fd")) == before
    assert [view[0] for view in views] == list(range(20))


def test_a_segment_that_is_known_already_stays_as_it_is(arena: Arena, segments: Segments) -> None:
    place = arena.put([b"x" * PAGE])
    [(segment, descriptor)] = arena.new()
    before = len(os.listdir("/proc/self/fd"))

    segments.add(segment, os.dup(descriptor))
    segments.add(segment, os.dup(descriptor))

    assert segments.map(place)[0] == ord("x")
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(descriptor)


def test_the_next_object_in_the_same_memory_is_seen(arena: Arena, segments: Segments) -> None:
    first = put(arena, segments, b"x" * (3 * MB))
    segments.map(first)
    arena.free(first)

    second = put(arena, segments, b"y" * (2 * MB))

    assert second.segment == first.segment
    assert segments.map(second) == b"y" * (2 * MB)
    assert segments.statistics().segments == 1


def test_what_is_forgotten_is_unmapped_when_its_last_view_is_gone(arena: Arena, segments: Segments) -> None:
    place = put(arena, segments, b"x" * (3 * MB))
    view = segments.map(place)
    slice = view[10:20]
    arena.close()
    assert mappings() == 1
    segments.forget([place.segment])
    del view
    assert mappings() == 1
    assert slice == b"x" * 10

    del slice

    assert mappings() == 0
    assert segments.statistics() == Statistics(segments=0, mapped=0, views=0)


def mappings() -> int:
    """Of large objects, in this process."""
    with open("/proc/self/maps") as file:
        return sum("onceflow-object" in line for line in file)


def test_objects_in_a_file_are_mapped_one_by_one(tmp_path: Path, segments: Segments) -> None:
    path = tmp_path / "spilled"
    path.write_bytes(b"a" * PAGE + b"b" * PAGE)
    segments.add(7, os.open(path, os.O_RDONLY))
    first = segments.map(Place(7, 0, PAGE))
    with path.open("ab") as file:
        file.write(b"c" * 100)

    assert first == b"a" * PAGE
    assert segments.map(Place(7, 2 * PAGE, 100)) == b"c" * 100
    assert segments.statistics() == Statistics(segments=1, mapped=PAGE, views=1)


def test_views_may_be_alive_when_the_interpreter_ends() -> None:
    script = """
import builtins, numpy
from onceflow.data.arena import Arena
from onceflow.data.mapping import Segments
arena, segments = Arena(0), Segments()
place = arena.put([b"x" * 5_000_000])
for segment, descriptor in arena.new():
    segments.add(segment, descriptor)
kept = builtins.kept = numpy.frombuffer(segments.map(place), "u1")
segments.forget([place.segment])
del arena, segments
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_memory_does_not_grow_with_the_number_of_objects(arena: Arena, segments: Segments) -> None:
    for step in range(400):
        place = put(arena, segments, bytes([step % 256]) * (MB + step % 7 * 100_000))
        assert segments.map(place)[MB - 1] == step % 256
        assert segments.dropped() == [(place.segment, place.offset)]
        arena.free(place)

    assert arena.statistics().spare < 8 * MB
    assert segments.statistics().mapped < 8 * MB
