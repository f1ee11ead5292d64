"""Snapshots: values as bytes, with handles and large buffers set aside."""

from __future__ import annotations

import dataclasses
import enum
import pickle
import subprocess
import sys
import textwrap
from types import ModuleType
from typing import Any

import pytest

from onceflow.values import functions, snapshot
from onceflow.values.handles import Handle


class Stand(Handle):
    """A handle for tests."""


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Row:
    cells: list[Any]


VALUES: list[Any] = [
    None,
    [1, 2.5, "three", b"four", {5, 6}, {"seven": (8, 9)}],
    Colour.RED,
    Row([1, Row([2])]),
    int,
    len,
    "x" * 200_000,
    list(range(100_000)),
    [b"x" * 70_000, bytearray(b"y" * 70_000)],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_is_loaded_equals_what_was_taken(value: Any) -> None:
    assert snapshot.take(value).load() == value


def test_a_handle_becomes_a_numbered_placeholder() -> None:
    first, second = Stand(), Stand()
    taken = snapshot.take({"a": [first, second], "b": first})
    assert taken.handles == (first, second)
    assert taken.load(["one", "two"]) == {"a": ["one", "two"], "b": "one"}


def test_a_handle_used_twice_is_filled_with_one_object() -> None:
    handle = Stand()
    one, other = snapshot.take([handle, (handle,)]).load([["value"]])
    assert one is other[0]


def test_by_default_the_handles_stand_in_the_copy() -> None:
    handle = Stand()
    assert snapshot.take([handle]).load() == [handle]


def test_a_handle_inside_a_closure_is_found() -> None:
    handle = Stand()
    taken = snapshot.take(lambda: handle)
    assert taken.load(["value"])() == "value"


def test_plain_unpickling_does_not_fill_placeholders() -> None:
    with pytest.raises(pickle.UnpicklingError, match="placeholder 0"):
        pickle.loads(snapshot.take([Stand()]).payload)


def test_cycles_survive() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    copy = snapshot.take(ring).load()
    assert copy[1] is copy


@pytest.mark.parametrize(("size", "held"), [(snapshot.LARGE, 0), (snapshot.LARGE + 1, 1)])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_only_buffers_above_the_limit_are_held(kind: Any, size: int, held: int) -> None:
    value = kind(size)
    taken = snapshot.take([value])
    assert [memoryview(buffer).obj is value for buffer in taken.buffers] == [True] * held
    assert taken.load() == [value]


def test_large_bytes_that_stand_twice_are_held_once_and_stay_one_object() -> None:
    value = bytearray(70_000)
    taken = snapshot.take([value, {"again": value}])
    assert len(taken.buffers) == 1
    copy = taken.load()
    assert copy[0] is copy[1]["again"]


def test_a_loaded_bytearray_is_not_the_original() -> None:
    value = bytearray(70_000)
    snapshot.take(value).load()[0] = 1
    assert value[0] == 0


def test_arrays_and_large_bytes_go_together() -> None:
    numpy = pytest.importorskip("numpy")
    rows = numpy.arange(50_000)
    value = [b"a" * 70_000, rows, bytearray(b"b" * 70_000), rows * 2]
    taken = snapshot.take(value)
    assert len(taken.buffers) == 4
    copy = taken.load()
    assert copy[0] == value[0]
    assert copy[2] == value[2]
    assert (copy[1] == rows).all()
    assert (copy[3] == rows * 2).all()


def test_what_cannot_be_pickled_raises() -> None:
    with pytest.raises(TypeError):
        snapshot.take(number for number in [1])


def test_a_module_registered_for_pickling_by_value_is_pickled_by_value() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    module = sys.modules[__name__]
    by_name = snapshot.take(Row([])).payload
    cloudpickle.register_pickle_by_value(module)
    try:
        assert len(snapshot.take(Row([])).payload) > len(by_name) + 200
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def test_a_class_of_the_users_script_can_be_loaded_where_the_script_does_not_run() -> None:
    script = """
        import sys
        from dataclasses import dataclass
        from onceflow.values import snapshot

        @dataclass
        class Point:
            x: int

            def double(self):
                return self.x * 2

        sys.stdout.buffer.write(snapshot.take([Point(4), lambda: 5]).payload)
    """
    payload = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True).stdout
    point, function = snapshot.load(payload, [])
    assert (point.double(), function()) == (8, 5)


def test_importing_onceflow_does_not_import_cloudpickle_or_numpy() -> None:
    script = (
        "import onceflow, sys; print([name for name in ('cloudpickle', 'numpy', 'asyncio') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "[]"


def test_a_cloudpickle_that_another_thread_is_importing_has_been_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", ModuleType("cloudpickle"))
    assert snapshot.take([1, 2]).load() == [1, 2]
    assert functions.ship(snapshot.take).module == "onceflow.values.snapshot"
