"""Values that are of a type, or can be made so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import cloudpickle
import pytest

from onceflow.values.type_fit import fit


@dataclass
class Name:
    first: str


@dataclass
class Person:
    name: Name
    age: int = 0


class Named(Protocol):
    name: str


@pytest.mark.parametrize(
    ("value", "wanted", "made"),
    [
        (1, int, 1),
        ("x", object, "x"),
        ("x", Any, "x"),
        ("x", Named, "x"),
        ([1], list[int], [1]),
        (None, int | None, None),
        ({"name": {"first": "ann"}}, Person, Person(Name("ann"))),
        ([{"first": "ann"}], list[Name], [Name("ann")]),
    ],
)
def test_what_fits_is_given_as_it_is_wanted(value: object, wanted: Any, made: object) -> None:
    assert fit(value, wanted) == made


@pytest.mark.parametrize(("value", "wanted"), [("1", int), ([1, "2"], list[int]), ({"age": 1}, Person), (3, Name)])
def test_what_does_not_fit_is_told(value: object, wanted: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected|missing"):
        fit(value, wanted)


def test_a_class_can_still_be_pickled_by_value() -> None:
    cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["Name"]))
    try:
        fit([{"name": {"first": "ann"}}], list[Person])
        assert cloudpickle.loads(cloudpickle.dumps(Person(Name("ann")))).name.first == "ann"
    finally:
        cloudpickle.unregister_pickle_by_value(__import__(__name__, fromlist=["Name"]))
