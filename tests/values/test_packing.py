"""Outputs as bytes that others can map."""

from __future__ import annotations

import array
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.values.packed_outputs import ALIGNMENT, MAGIC, Packed, pack, unpack
from onceflow.values.refs import Ref

plain_values = st.recursive(
    st.none() | st.integers() | st.text() | st.binary(max_size=200_000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


class Buffered:
    """Pickles as a buffer with whatever it was given."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Buffered, (pickle.PickleBuffer(self.data),)


class Thing(Ref[Any]):
    @property
    def _id(self) -> str:
        return str(id(self))


@given(plain_values)
def test_a_value_without_buffers_is_a_plain_pickle(value: Any) -> None:
    packed = pack(value)
    assert packed.size == len(packed.joined())
    assert pickle.loads(packed.joined()) == value
    assert unpack(packed.joined()) == value


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=6), plain_values)
def test_buffers_come_back_aligned_and_in_their_places(sizes: list[int], beside: Any) -> None:
    value = {"beside": beside, "arrays": [numpy.arange(size, dtype=numpy.int16) for size in sizes]}
    packed = pack(value)
    joined = numpy.frombuffer(packed.joined(), numpy.uint8)  # aligned itself
    found = unpack(memoryview(joined))
    assert len(joined) == packed.size
    assert found["beside"] == beside
    for array_, size in zip(found["arrays"], sizes, strict=True):
        assert array_.tolist() == list(range(size))
        if size:
            assert (array_.ctypes.data - joined.ctypes.data) % ALIGNMENT == 0


def test_the_memory_of_a_value_is_not_copied_while_it_is_packed() -> None:
    big = numpy.zeros(1_000_000, numpy.uint8)
    packed = pack([big])
    big[7] = 42
    assert unpack(packed.joined())[0][7] == 42


def test_large_bytes_are_not_copied_while_they_are_packed() -> None:
    big = bytes(1_000_000)
    assert any(piece is big for piece in pack({"big": big}).pieces)


def test_what_is_unpacked_shares_the_memory_it_was_unpacked_from() -> None:
    memory = bytearray(pack(numpy.zeros(100_000, numpy.uint8)).joined())
    found = unpack(memoryview(memory))
    memory[-1] = 9
    assert found[-1] == 9


@pytest.mark.parametrize("size", [3, 1_000_000])
def test_others_cannot_be_disturbed_by_a_change(size: int) -> None:
    found = unpack(pack(numpy.zeros(size)).joined())
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


@pytest.mark.parametrize("size", [3, 1_000_000])
def test_what_is_ours_may_be_changed(size: int) -> None:
    packed = pack(numpy.zeros(size)).joined()
    found = unpack(packed, ours=True)
    found[0] = 1
    assert unpack(packed)[0] == 0


def test_anything_with_a_buffer_is_set_aside() -> None:
    value = [Buffered(b"bytes"), Buffered(bytearray(b"more")), Buffered(array.array("d", [1.5])), Buffered(b"")]
    joined = pack(value).joined()
    assert joined.startswith(MAGIC)
    assert [bytes(found.data) for found in unpack(joined)] == [
        b"bytes",
        b"more",
        array.array("d", [1.5]).tobytes(),
        b"",
    ]


def test_arrays_of_any_order_come_back_equal() -> None:
    straight = numpy.arange(60.0).reshape(3, 4, 5)
    for value in (straight, numpy.asfortranarray(straight), straight[::2, :, 1:3], straight.T, numpy.array(7)):
        found = unpack(pack(value).joined())
        assert found.shape == value.shape
        assert (found == value).all()


def test_the_same_array_twice_is_one_array() -> None:
    value = numpy.arange(10)
    first, second = unpack(pack([value, value]).joined())
    assert first is second


def test_refs_are_set_aside_and_filled_in() -> None:
    things: list[Ref[Any]] = []

    def set_aside(thing: Ref[Any]) -> int:
        if thing not in things:
            things.append(thing)
        return things.index(thing)

    one, two = Thing(), Thing()
    for value in ([one, {"two": two}, one], [one, {"two": two}, one, lambda: 3], [one, two, one, numpy.arange(3)]):
        joined = pack(value, set_aside).joined()
        assert things == [one, two]
        found = unpack(joined, ["first", "second"])
        assert found[0] == found[2] == "first"
        assert found[1] in ("second", {"two": "second"})


def test_what_cannot_be_pickled_raises() -> None:
    with pytest.raises(TypeError, match="lock"):
        pack([numpy.arange(3), threading.Lock()])


def test_a_file_of_pieces_is_what_joined_gives(tmp_path: Path) -> None:
    packed: Packed = pack([numpy.arange(1000), b"x" * 100_000, "text"])
    with (tmp_path / "file").open("wb") as file:
        for piece in packed.pieces:
            file.write(piece)
    assert (tmp_path / "file").read_bytes() == packed.joined()
