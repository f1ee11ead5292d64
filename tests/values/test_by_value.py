"""Pickling by value, and when the bytes may be used again."""

from __future__ import annotations

import collections
import dataclasses
import pickle
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow import RetryPolicy, task
from onceflow.values import by_value

PROGRAM = """
import dataclasses, json, logging, re, typing

LIMIT = 3
RATES = {"EUR": 1, "USD": [2, 3]}
PATTERN = re.compile("a+")
log = logging.getLogger("program")

@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
    factor = 1

    @property
    def double(self):
        return self.x * 2 * Point.factor

    @staticmethod
    def zero():
        return Point(0)

def helper(number, *, scale=1):
    return min(number, LIMIT) * scale

def closing(value):
    def inner():
        return value
    return inner

captured = closing([10])

def function(number: int = 2, names: "list[str] | None" = None) -> typing.Optional[int]:
    point = Point(helper(number), RATES["EUR"])
    nested = [point.double for _ in range(LIMIT)]
    return json.dumps([point.x, point.y, nested, RATES, captured(), Point.zero().y, bool(PATTERN.match("a"))])
"""

COMPILED = compile(PROGRAM, "program.py", "exec")


@pytest.fixture
def program() -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(COMPILED, scope)
    return scope


@pytest.fixture
def dumps(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every value that was really pickled."""
    pickled = []

    def dumps(value: Any, protocol: int) -> bytes:
        pickled.append(value)
        return cloudpickle.dumps(value, protocol)

    monkeypatch.setattr(
        by_value,
        "cloudpickle",
        types.SimpleNamespace(dumps=dumps, list_registry_pickle_by_value=cloudpickle.list_registry_pickle_by_value),
    )
    return pickled


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    by_value._remembered.clear()
    yield
    by_value._remembered.clear()


def again(value: Any) -> Any:
    return pickle.loads(by_value.dump(value).payload)


def test_the_bytes_are_used_again_while_nothing_has_changed(program: dict[str, Any], dumps: list[Any]) -> None:
    function = program["function"]
    first = by_value.dump(function)

    assert by_value.dump(function) is first
    assert dumps == [function]
    assert pickle.loads(first.payload)() == function()


def test_equal_payloads_have_equal_hashes(program: dict[str, Any]) -> None:
    assert by_value.dump(program["helper"]).hash == by_value.dump(program["helper"]).hash
    assert by_value.dump(program["helper"]).hash != by_value.dump(program["function"]).hash


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "another global": lambda scope: scope.update(LIMIT=scope["LIMIT"] + 1),
    "a global that goes": lambda scope: scope.update(captured=lambda: [0]),
    "an item of a dict": lambda scope: scope["RATES"].update(EUR=scope["RATES"]["EUR"] + 5),
    "a new item of a dict": lambda scope: scope["RATES"].update({f"new {len(scope['RATES'])}": 1}),
    "an element deep inside": lambda scope: scope["RATES"]["USD"].append(4),
    "an attribute of a class": lambda scope: setattr(scope["Point"], "factor", scope["Point"].factor + 1),
    "a method of a class": lambda scope: setattr(scope["Point"], "zero", staticmethod(lambda: scope["Point"](0, 9))),
    "a default": lambda scope: setattr(
        scope["function"], "__defaults__", (scope["function"].__defaults__[0] - 1, None)
    ),
    "a keyword's default": lambda scope: setattr(scope["helper"], "__kwdefaults__", {"scale": scope["LIMIT"] + 5}),
    "a keyword's default, in place": lambda scope: (scope["helper"].__kwdefaults__ or {}).update(scale=8),
    "another function": lambda scope: scope.update(helper=lambda number: number + 100),
    "other code": lambda scope: setattr(scope["helper"], "__code__", (lambda number, *, scale: number - 7).__code__),
    "the content of a cell": lambda scope: (
        setattr(scope["captured"].__closure__[0], "cell_contents", [scope["LIMIT"]])
        if scope["captured"].__closure__
        else None
    ),
    "a list in a cell": lambda scope: (
        scope["captured"].__closure__[0].cell_contents.append(1) if scope["captured"].__closure__ else None
    ),
    "another class": lambda scope: exec("class Point(Point):\n    factor = 3", scope),
    "nothing": lambda scope: None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_anything_it_refers_to_is_noticed(change: str, program: dict[str, Any]) -> None:
    function = program["function"]
    before, result = by_value.dump(function), function()
    CHANGES[change](program)

    assert by_value.dump(function).payload == cloudpickle.dumps(function, 5)
    assert (by_value.dump(function) is before) == (function() == result) == (change == "nothing")


@given(changes=st.lists(st.sampled_from(sorted(CHANGES)), max_size=12), asked=st.lists(st.booleans(), min_size=12))
def test_the_bytes_are_always_those_of_the_present_state(changes: list[str], asked: list[bool]) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(COMPILED, scope)
    for change, ask in zip(changes, asked, strict=False):
        CHANGES[change](scope)
        if ask:
            assert by_value.dump(scope["function"]).payload == cloudpickle.dumps(scope["function"], 5)
    assert by_value.dump(scope["function"]).payload == cloudpickle.dumps(scope["function"], 5)


class Changing:
    def __init__(self) -> None:
        self.value = 1


@pytest.mark.parametrize("make", [Changing, collections.OrderedDict, lambda: bytearray(1), lambda: iter([1])])
def test_what_refers_to_something_of_an_unknown_type_is_pickled_each_time(
    make: Callable[[], Any], dumps: list[Any]
) -> None:
    thing = make()

    def function() -> Any:
        return thing

    by_value.dump(function)
    by_value.dump(function)
    assert dumps == [function, function]


def test_what_refers_to_too_much_is_pickled_each_time(dumps: list[Any]) -> None:
    many = list(range(by_value.MOST_PARTS))
    large = "x" * 100_000
    functions: list[Any] = [lambda: many, lambda: large]
    for function in functions * 2:
        by_value.dump(function)
    assert dumps == functions * 2


def test_one_value_is_remembered_for_each_definition(dumps: list[Any]) -> None:
    def make(number: int) -> Callable[[], int]:
        return lambda: number

    functions = [make(number) for number in range(10)]
    assert [again(function)() for function in functions] == list(range(10))
    assert len(by_value._remembered) == 1
    by_value.dump(functions[-1])
    assert len(dumps) == 10


def test_a_function_that_refers_to_itself_is_remembered(dumps: list[Any]) -> None:
    def countdown(number: int) -> int:
        return number and countdown(number - 1)

    assert again(countdown)(5) == again(countdown)(3) == 0
    assert len(dumps) == 1


def test_a_submodule_that_is_imported_later_is_imported_where_the_function_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("package_of_two/__init__.py", "package_of_two/first.py", "package_of_two/second.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("VALUE = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    import package_of_two  # type: ignore[import-not-found]

    def function() -> Any:
        return package_of_two.second.VALUE

    before = by_value.dump(function)
    import package_of_two.first

    assert by_value.dump(function) is before, "it does not name that one"
    import package_of_two.second

    payload = by_value.dump(function).payload
    for name in [name for name in sys.modules if name.startswith("package_of_two")]:
        del sys.modules[name]
    assert pickle.loads(payload)() == 1


def test_a_module_that_was_registered_with_cloudpickle_is_not_taken_for_its_name(dumps: list[Any]) -> None:
    def function() -> Any:
        return Changing

    by_value.dump(function)
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        by_value.dump(function)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert len(dumps) == 2


@dataclasses.dataclass
class Named:
    value: int


def test_what_is_no_longer_found_by_its_name_goes_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Named

    def function() -> Any:
        return kind

    assert again(function)() is Named
    monkeypatch.setattr(sys.modules[__name__], "Named", None)
    with_value = by_value.dump(function).payload
    assert b"__dataclass_fields__" in with_value


def test_what_cannot_be_pickled_raises_each_time() -> None:
    lock = threading.Lock()
    for _ in range(2):
        with pytest.raises(TypeError, match="lock"):
            by_value.dump(lambda: lock)


def test_a_change_while_it_is_pickled_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [1]

    def function() -> Any:
        return values

    def dumps(value: Any, protocol: int) -> bytes:
        payload = cloudpickle.dumps(value, protocol)
        values.append(2)
        return payload

    stand_in = types.SimpleNamespace(dumps=dumps, list_registry_pickle_by_value=lambda: ())
    with monkeypatch.context() as patched:
        patched.setattr(by_value, "cloudpickle", stand_in)
        by_value.dump(function)
    assert again(function)() == [1, 2]


def test_tasks_are_remembered_with_all_their_options(dumps: list[Any]) -> None:
    scope: dict[str, Any] = {"__name__": "__main__", "task": task, "RetryPolicy": RetryPolicy}
    exec(
        "def undo(): return 1\n\n"
        "@task(rollback=undo)\ndef inner(): return 1\n\n"
        "@task(retry=RetryPolicy(2))\ndef outer(): return inner()",
        scope,
    )
    outer = scope["outer"]
    first = by_value.dump(outer)
    assert by_value.dump(outer) is first

    scope["undo"].__code__ = (lambda: 2).__code__
    second = by_value.dump(outer)
    assert second is not first

    scope["inner"] = scope["inner"].options(retry=3)
    assert by_value.dump(outer) is not second
    assert len(dumps) == 3
