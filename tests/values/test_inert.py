"""Pickles that are looked at without running anything."""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any

from onceflow.values.inert import Made, Reader, name_of


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
