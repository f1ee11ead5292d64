"""Whether memory is nobody else's."""

from __future__ import annotations

import array
import mmap
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from onceflow.values.ownership import is_alone, may_be_alone
from onceflow.values.packed_outputs import Packed, pack


def fresh() -> Any:
    return np.ones(1000)


def packed(make: Callable[[], Any]) -> Packed:
    return pack(make())


@pytest.mark.parametrize(
    "make",
    [
        fresh,
        lambda: fresh().reshape(10, 100),
        lambda: fresh().reshape(10, 100).T,
        lambda: np.asfortranarray(fresh().reshape(10, 100)),
        lambda: [fresh(), {"other": fresh()}],
        lambda: pickle.PickleBuffer(bytearray(1000)),
        lambda: pickle.PickleBuffer(bytes(1000)),
        lambda: pickle.PickleBuffer(array.array("d", [1.0] * 1000)),
    ],
)
def test_what_was_made_and_returned_is_alone(make: Callable[[], Any]):
    views = packed(make).views
    assert views
    assert all(map(may_be_alone, views))
    assert all(map(is_alone, views))


def test_what_a_variable_refers_to_is_not():
    kept = [fresh()]
    (view,) = packed(lambda: kept[0]).views
    assert may_be_alone(view)
    assert not is_alone(view)
    kept.clear()
    assert is_alone(view)


def test_a_part_of_what_a_variable_refers_to_is_not():
    kept = fresh()
    (view,) = packed(lambda: kept[100:]).views
    assert not is_alone(view)


def test_two_parts_of_one_array_are_not():
    def halves() -> Any:
        whole = fresh()
        return whole[:500], whole[500:]

    assert not any(map(is_alone, packed(halves).views))


def test_what_can_be_reached_through_a_weak_reference_is_not():
    kept = [fresh()]
    reference = weakref.ref(kept[0])
    (view,) = packed(lambda: kept[0]).views
    kept.clear()
    assert not is_alone(view)
    assert reference() is not None


def test_the_same_array_in_two_outputs_is_not():
    kept = [fresh()]
    one, other = packed(lambda: kept[0]), packed(lambda: kept[0])
    kept.clear()
    assert not is_alone(one.views[0])
    assert not is_alone(other.views[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.frombuffer(mmap.mmap(-1, 8000)),
        lambda: np.frombuffer(bytearray(8000)),
    ],
)
def test_what_we_do_not_know_cannot_be_told_to_be_alone(make: Callable[[], Any]):
    (view,) = packed(make).views
    assert not is_alone(view)


def test_a_live_value_is_built_upon_the_same_memory_and_read_only():
    value = pack({"array": fresh(), "list": [1]})
    one, other = value.unpack(), value.unpack()
    assert one["array"].ctypes.data == other["array"].ctypes.data
    assert not one["array"].flags.writeable
    assert one["list"] is not other["list"]
    assert one["list"] == other["list"] == [1]
