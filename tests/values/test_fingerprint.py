"""Fingerprints: equal for equal values, different for different ones, and never in the way."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import pathlib
import re
import types
import uuid
import zoneinfo
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.values.fingerprint import Walk
from onceflow.values.handles import Handle
from onceflow.values.snapshot import take

UTC = datetime.UTC


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Row:
    cells: Any
    cache: Any = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass
class Line:
    cells: Any


class Record(msgspec.Struct):
    cells: Any


Pair = collections.namedtuple("Pair", "left right")


class Opaque:
    def __init__(self, value: Any) -> None:
        self.value = value


class Text(str): ...


def print_of(value: Any) -> bytes:
    return Walk().encode(value)


# No two of these are the same; each is compared with all others, and with a copy of itself.
ALL_DIFFERENT: list[Any] = [
    None, True, False, 0, 1, -1, 2**70, 10**5000, 0.0, 1.0, float("nan"), 1j, "", "1", "x" * 100, "\ud800", b"", b"1",
    bytearray(b"1"), ..., [], (), {}, set(), frozenset(), [1], (1,), [[1]], [[], 1], [1, 2], [2, 1], ["12"], ["1", "2"],
    {1: 2}, {2: 1}, {"a": {"b": 1}}, {1, 2}, frozenset([1, 2]), frozenset([frozenset([1])]), {(1, "a"), (2, "b")},
    Colour.RED, Colour.BLUE, Level.LOW, Access(0), Access.READ, Access(3),
    Row([1]), Row([2]), Line([1]), Record([1]), Record([2]), Pair(1, 2), Pair(2, 1),
    datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=UTC), datetime.datetime(2024, 1, 1),  # noqa: DTZ001
    datetime.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Rome")), zoneinfo.ZoneInfo("Europe/Rome"),
    datetime.time(1), datetime.timedelta(1), datetime.timedelta(2), UTC, pathlib.PurePosixPath("a"),
    pathlib.PurePosixPath("b"), pathlib.Path("a"), decimal.Decimal(1), decimal.Decimal("1.5"),
    fractions.Fraction(1, 3), fractions.Fraction(2, 3), uuid.UUID(int=1), uuid.UUID(int=2), range(3), range(4),
    slice(1), slice(1, 2),
    re.compile("a"), re.compile("a", re.IGNORECASE), array.array("i", [1]), array.array("q", [1]),
    collections.deque([1]), collections.OrderedDict(a=1), collections.Counter("a"), collections.defaultdict(int, a=1),
    ipaddress.ip_address("1.2.3.4"), ipaddress.ip_network("10.0.0.0/8"), types.SimpleNamespace(a=1),
    types.SimpleNamespace(a=2), ValueError(1), ValueError(2), functools.partial(len, [1]), functools.partial(len, [2]),
    len, sorted, int, Opaque, Opaque(1), Text("a"), Text("b"), [1].append, b"x" * 70_000, b"y" * 70_000,
]  # fmt: skip


def test_values_that_differ_have_different_fingerprints() -> None:
    prints = collections.defaultdict(list)
    for value in ALL_DIFFERENT:
        prints[print_of(value)].append(value)
    assert [values for values in prints.values() if len(values) > 1] == []


@pytest.mark.parametrize("value", ALL_DIFFERENT, ids=lambda value: type(value).__name__)
def test_a_copy_has_the_same_fingerprint(value: Any) -> None:
    assert print_of(take([value]).load()) == print_of([value])


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
)


@given(plain)
def test_any_plain_value_has_the_fingerprint_of_its_copy(value: Any) -> None:
    assert print_of(take(value).load()) == print_of(value)


@given(st.dictionaries(st.integers() | st.text() | st.tuples(st.integers(), st.text()), plain))
def test_the_order_of_a_dict_does_not_count(value: dict[Any, Any]) -> None:
    assert print_of(dict(reversed(value.items()))) == print_of(value)


@given(st.lists(st.integers() | st.text()))
def test_the_order_in_which_a_set_was_filled_does_not_count(values: list[Any]) -> None:
    backwards = values[::-1]
    assert print_of(set(backwards)) == print_of(set(values))


def test_fields_that_are_not_compared_do_not_count() -> None:
    assert print_of(Row([1], cache=1)) == print_of(Row([1], cache=2))


def test_objects_that_cannot_be_compared_count_by_their_type() -> None:
    assert print_of(Opaque(1)) == print_of(Opaque(2))
    assert print_of(Opaque(1)) != print_of(object())


class Eager:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_an_object_that_resists_inspection_counts_by_its_type() -> None:
    assert print_of(Eager()) == print_of(Eager())


def test_functions_count_by_name_and_not_by_code() -> None:
    one = lambda: 1  # noqa: E731
    two = lambda: 2  # noqa: E731
    one.__qualname__ = two.__qualname__ = "same"
    assert print_of(one) == print_of(two)


def test_shared_objects_count_like_equal_ones() -> None:
    shared = [1]
    assert print_of([shared, shared]) == print_of([[1], [1]])


def test_a_cycle_ends() -> None:
    def ring(value: int) -> list[Any]:
        around: list[Any] = [value, {}]
        around[1]["back"] = around
        return around

    assert print_of(ring(1)) == print_of(ring(1))
    assert print_of(ring(1)) != print_of(ring(2))


def test_structure_that_is_shared_many_times_is_walked_once() -> None:
    value: Any = [0]
    for _ in range(90):
        value = [value, value]
    print_of(value)


def test_nested_frozensets_are_walked_in_reasonable_time() -> None:
    value: Any = frozenset([0])
    for level in range(80):
        value = frozenset([value, level])
    print_of(value)


def test_very_deep_values_are_compared_down_to_a_limit() -> None:
    value: Any = 0
    for _ in range(400):
        value = [value]
    assert print_of(value) == print_of([value])


class TestArrays:
    numpy = pytest.importorskip("numpy")

    def test_dtype_shape_and_content_count(self) -> None:
        np = self.numpy
        prints = [
            print_of(np.array(value, dtype))
            for value in ([1, 2, 3, 4], [[1, 2], [3, 4]], [1, 2, 3, 5])
            for dtype in ("i4", "i8", "f8")
        ]
        assert len(set(prints)) == 9
        assert print_of(np.float64(1)) != print_of(np.float32(1))
        assert print_of(np.dtype("i4")) != print_of(np.dtype("i8"))

    @pytest.mark.parametrize("side", [10, 300])
    def test_layout_in_memory_does_not_count(self, side: int) -> None:
        np = self.numpy
        rows = np.arange(side * side).reshape(side, side)
        assert print_of(np.asfortranarray(rows)) == print_of(rows)
        assert print_of([rows, rows.T]) == print_of([rows.copy(), rows.T.copy()])
        assert print_of(rows[::2, ::3]) == print_of(rows[::2, ::3].copy())

    def test_dates_and_objects_and_records_are_compared(self) -> None:
        np = self.numpy
        days = np.arange("2000-01-01", "2060-01-01", dtype="M8[D]")
        assert print_of(days) == print_of(days.copy())
        assert print_of(np.array([{}, "a"], object)) == print_of(np.array([{}, "a"], object))
        assert print_of(np.array([{}, "a"], object)) != print_of(np.array([{}, "b"], object))
        record = np.zeros(2, [("a", "i4"), ("b", "f8")])
        assert print_of(record) == print_of(record.copy())


class Numbered(Handle):
    def __init__(self, number: int) -> None:
        self.number = number

    def _place(self) -> tuple[int, int]:
        return self.number, 0


class TestHandles:
    def test_handles_are_numbered_as_they_are_met(self) -> None:
        a, b = Numbered(1), Numbered(2)
        walk = Walk()
        walk.encode([b, {"x": a, "y": b}])
        assert walk.handles == {b: 0, a: 1}

    def test_only_their_order_counts(self) -> None:
        a, b, c, d = map(Numbered, (5, 6, 70, 80))
        assert print_of([a, b, a]) == print_of([d, c, d])
        assert print_of([a, b, a]) != print_of([a, b, b])

    def test_in_a_set_they_are_met_in_the_order_in_which_they_were_made(self) -> None:
        handles = [Numbered(number) for number in range(50)]
        walk = Walk()
        walk.encode({("x", handle) for handle in handles})
        assert list(walk.handles) == handles
