"""Pickles that are looked at without running anything."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pickle
import tracemalloc
import uuid
import zoneinfo
from pathlib import Path
from typing import Any

import pytest

from onceflow.values import packed_outputs
from onceflow.values.inert import Made, Reader, name_of
from onceflow.values.previews import DEEPEST, LONGEST, MORE, MOST_ELEMENTS, shown


class Loud:
    def __reduce__(self) -> tuple[Any, ...]:
        return _shout, (self.__class__.__name__, [1, 2])


def _shout(*args: Any) -> None:
    raise AssertionError("user code was called")


def test_nothing_is_called_or_imported_and_plain_values_are_what_they_are() -> None:
    reader = Reader(pickle.dumps({"loud": Loud(), "plain": (1, "two", b"three")}))
    read = reader.load()
    assert read["plain"] == (1, "two", b"three")
    assert isinstance(read["loud"], Made)
    assert read["loud"].name == (__name__, "_shout")
    assert read["loud"].args == ("Loud", [1, 2])
    assert list(reader.names) == [(__name__, "_shout")]
    assert reader.is_at_end


def test_what_is_referred_to_by_name_has_one() -> None:
    read = Reader(pickle.dumps([Loud, Path, "text"])).load()
    assert [name_of(value) for value in read] == [(__name__, "Loud"), ("pathlib", "Path"), None]


def test_objects_of_all_shapes_can_be_read() -> None:
    values = [
        collections.OrderedDict(a=1),
        collections.deque([1, 2]),
        collections.Counter("aab"),
        {1, 2},
        Path("a/b"),
        ValueError("text"),
        range(3),
        1j,
    ]
    assert len(Reader(pickle.dumps(values)).load()) == len(values)


def test_only_what_has_a_maker_is_made() -> None:
    reader = Reader(pickle.dumps([1j, range(3)]), {("builtins", "complex"): complex})
    made, stand_in = reader.load()
    assert made == 1j
    assert isinstance(stand_in, Made)
    assert list(reader.names) == [("builtins", "range")]


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("value", "preview"),
    [
        ({"a": (1, 2.5), "b": [None, True], 3: b"x"}, {"a": [1, 2.5], "b": [None, True], 3: b"x"}),
        ({1}, [1]),
        (frozenset({"x"}), ["x"]),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.Counter("aa"), {"a": 2}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (collections.deque([1, 2]), [1, 2]),
        (range(1, 3), "range(1, 3, 1)"),
        (1 + 2j, "(1+2j)"),
        (datetime.datetime(2024, 5, 6, 7, tzinfo=UTC), datetime.datetime(2024, 5, 6, 7, tzinfo=UTC)),
        (datetime.datetime(2024, 5, 6, tzinfo=zoneinfo.ZoneInfo("UTC")), "2024-05-06T00:00:00 (UTC)"),
        (datetime.date(2024, 5, 6), datetime.date(2024, 5, 6)),
        (datetime.time(7, 8), datetime.time(7, 8)),
        (datetime.timedelta(days=2), datetime.timedelta(days=2)),
        (decimal.Decimal("1.50"), decimal.Decimal("1.50")),
        (fractions.Fraction(1, 3), "1/3"),
        (uuid.UUID(int=7), uuid.UUID(int=7)),
        (Path("/a/b"), "PosixPath('/a/b')"),
        (Path, "<pathlib.Path>"),
        ([ValueError("no")], ["<ValueError, 9 B, not loaded>"]),
        (Loud(), f"<{__name__}._shout, {len(packed_outputs.dump(Loud()))} B, not loaded>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_preview_shows_what_is_pythons_own_and_names_the_rest(value: object, preview: object) -> None:
    assert shown(packed_outputs.dump(value)) == preview


def test_arguments_that_the_class_would_not_have_pickled_are_not_used() -> None:
    for made in (
        (fractions.Fraction, ("1e999999999",)),
        (decimal.Decimal, ("9" * 10_000,)),
        (datetime.timedelta, (10**30,)),
        (datetime.datetime, (b"\0" * 10,)),
        (range, (10**100,)),
        (complex, ("1", "2")),
        (uuid.UUID, ()),
        (collections.deque, (5,)),
    ):
        preview = shown(pickle.dumps(_Pickled(*made)))
        assert isinstance(preview, str)
        assert len(preview) < 100


class _Pickled:
    def __init__(self, *told: Any) -> None:
        self._told = told

    def __reduce__(self) -> Any:
        return self._told


BOMBS = {
    "bytes by the billion": b"\x80\x04\x8c\x08builtins\x8c\x05bytes\x93(J\xff\xff\xff\x7ftR.",
    "a length that is not there": b"\x80\x04\x8e" + (2**40).to_bytes(8, "little") + b"x.",
    "a bytearray that is not there": b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b"x.",
    "a place in the memo by the billion": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "lists that double": b"\x80\x04]\x94" + b"".join(b"]\x94(h%ch%ce" % (n, n) for n in range(60)) + b".",
    "tuples that double": b"\x80\x04K\x01\x94" + b"".join(b"h%ch%c\x86\x94" % (n, n) for n in range(60)) + b".",
    "tuples that double, in a set": b"\x80\x04\x8f(K\x01\x94"
    + b"".join(b"h%ch%c\x86\x940" % (n, n) for n in range(60))
    + b"h\x3c\x90.",
    "tuples that double, as a key": b"\x80\x04}K\x01\x940"
    + b"".join(b"h%ch%c\x86\x940" % (n, n) for n in range(60))
    + b"h\x3cNs.",
    "a list that contains itself": b"\x80\x04]\x94h\x00a.",
    "a deep nest": b"\x80\x04" + b"]" * 50_000 + b"a" * 49_999 + b".",
    "a deep nest of tuples": b"\x80\x04)" + b"\x85" * 50_000 + b".",
    "a long number": b"\x80\x04\x8b" + (60_000).to_bytes(4, "little") + b"\x7f" * 60_000 + b".",
    "a long text": pickle.dumps("x" * 60_000),
    "many elements": pickle.dumps([0] * 30_000),
}


@pytest.mark.parametrize("bomb", list(BOMBS.values()), ids=list(BOMBS))
def test_a_small_pickle_takes_little_memory_and_has_a_small_preview(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        preview = shown(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000
    assert _elements(preview) <= 2 * MOST_ELEMENTS
    assert len(repr(preview)) < 10 * LONGEST


def _elements(preview: Any) -> int:
    if not isinstance(preview, (list, dict)):
        return 1
    return 1 + sum(map(_elements, preview.values() if isinstance(preview, dict) else preview))


def test_what_is_left_out_of_a_preview_is_marked() -> None:
    nested: list[Any] = []
    for _ in range(DEEPEST + 5):
        nested = [nested]
    assert repr(shown(pickle.dumps(nested))).count("[") == DEEPEST
    assert MORE in repr(shown(pickle.dumps(nested)))
    assert shown(pickle.dumps("x" * (LONGEST + 1))) == "x" * LONGEST + MORE
    assert shown(pickle.dumps(list(range(MOST_ELEMENTS + 5))))[-1] == MORE


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b".", b"\x80\x04.", b"nonsense", b"onceflow", b"\x80\x04h\x07.", b"]Nb."]
)
def test_what_is_no_pickle_is_an_error(data: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        Reader(data).load()
    assert "not loaded" in shown(data)
