"""The envelope: header, signature, what may be loaded."""

from __future__ import annotations

import collections
import json
import os
import pickle
from decimal import Decimal
from typing import Any

import pytest

from onceflow.authoring.fibers import Fiber, FrameInfo, Op, describe_snapshot, fiber, header_of
from onceflow.errors import BadSnapshot

KEY = b"k" * 32


class Order:
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __repr__(self) -> str:
        raise AssertionError("no user code is run to describe a fiber")


@fiber
async def fulfil(order: Order, *, note: str = "x" * 100) -> list[Any]:
    """Prices."""
    prices = []
    for item in order.items:
        prices.append(await priced(item))  # noqa: PERF401
    return prices


@fiber
async def priced(item: Any) -> Any:
    return await Op("price", item, label="price")


def test_a_fiber_is_described_while_it_waits() -> None:
    waiting = Fiber.start(fulfil(Order([1, 2])))

    outer, inner = waiting.describe()

    assert outer.function == "fulfil"
    assert outer.file == __file__
    assert outer.locals == {"item": "1", "note": f"'{'x' * 60}'…", "order": "<Order>", "prices": "[]"}
    assert inner == FrameInfo("priced", __file__, inner.line, "price", {"item": "1"})


def test_a_snapshot_is_described_without_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Fiber.start(fulfil(Order([1, 2])))
    saved = waiting.dumps(key=KEY)

    monkeypatch.setattr(pickle, "Unpickler", None)

    assert describe_snapshot(saved) == waiting.describe()
    header = header_of(saved)
    assert header["abi"] == 1
    assert header["op"] == "Op('price', 1)"
    assert [frame["ref"].partition(":")[2] for frame in header["frames"]] == ["fulfil", "priced"]
    assert json.dumps(header)


def test_a_signed_snapshot_is_loaded_with_its_key() -> None:
    saved = Fiber.start(fulfil(Order([1]))).dumps(key=KEY, bound_to=b"fiber 7, save 3")

    loaded = Fiber.loads(saved, key=KEY, bound_to=b"fiber 7, save 3")
    loaded.send(5)

    assert loaded.result == [5]


REFUSED = {
    "another key": ({"key": b"other", "bound_to": b"7"}, "was changed, belongs to another fiber"),
    "another fiber": ({"key": KEY, "bound_to": b"8"}, "was changed, belongs to another fiber"),
    "no key": ({"bound_to": b"7"}, "the snapshot is signed: loading it takes the key"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_signed_snapshot_is_refused_with(what: str) -> None:
    saved = Fiber.start(fulfil(Order([1]))).dumps(key=KEY, bound_to=b"7")
    arguments: Any
    arguments, problem = REFUSED[what]

    with pytest.raises(BadSnapshot, match=problem):
        Fiber.loads(saved, **arguments)


def test_every_byte_is_signed() -> None:
    saved = Fiber.start(fulfil(Order([1]))).dumps(key=KEY)

    for place in range(0, len(saved), 7):
        changed = bytearray(saved)
        changed[place] ^= 1
        with pytest.raises(BadSnapshot):
            Fiber.loads(bytes(changed), key=KEY)


def test_an_unsigned_snapshot_is_refused_where_a_key_is_given() -> None:
    with pytest.raises(BadSnapshot, match="is not signed"):
        Fiber.loads(Fiber.start(fulfil(Order([1]))).dumps(), key=KEY)


@pytest.mark.parametrize(
    "data", [b"", b"FBR1", b"FBR1\0\1\0", b"FBR1\0\1\0\0\0\0", b"PK\3\4whatever", b"FBR1\0\x63\0\0\0\0"]
)
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(BadSnapshot):
        Fiber.loads(data)


def test_plain_values_and_classes_of_modules_with_fibers_are_allowed() -> None:
    items = [1, "a", Decimal(2), collections.OrderedDict(a=1), {1}, [b"x"], None, ValueError("v")]
    saved = Fiber.start(fulfil(Order(items))).dumps()

    loaded = Fiber.loads(saved, allow=())
    for _ in items:
        loaded.send(0)

    assert loaded.result == [0] * len(items)


class _Evil:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


class _Sneaky:
    def __reduce__(self) -> Any:
        return getattr, (os, "system")


@pytest.mark.parametrize(("item", "name"), [(_Evil(), "posix.system"), (_Sneaky(), "builtins.getattr")])
def test_everything_else_is_refused(item: object, name: str) -> None:
    saved = Fiber.start(fulfil(Order([item]))).dumps()

    with pytest.raises(BadSnapshot) as caught:
        Fiber.loads(saved, allow=())

    assert str(caught.value) == f"snapshot refers to {name}, which is not allowed here"


def test_a_class_is_loaded_if_it_is_allowed() -> None:
    saved = Fiber.start(fulfil(Order([collections.namedtuple]))).dumps()
    with pytest.raises(BadSnapshot, match=r"json\.decoder\.JSONDecoder, which is not allowed here"):
        Fiber.loads(Fiber.start(fulfil(Order([json.JSONDecoder]))).dumps(), allow=())

    assert Fiber.loads(Fiber.start(fulfil(Order([json.JSONDecoder]))).dumps(), allow=[json.JSONDecoder]).op
    assert saved


def test_a_large_snapshot_holds_only_what_is_needed() -> None:
    waiting = Fiber.start(large())

    assert len(waiting.dumps()) < 2_000
    assert Fiber.loads(waiting.dumps()).op is not None


@fiber
async def large() -> int:
    dead = "x" * 20_000
    count = len(dead)
    await Op("x")
    return count


def test_a_small_snapshot_holds_everything() -> None:
    waiting = Fiber.start(small())

    assert Fiber.loads(waiting.dumps()).describe()[0].locals == {"count": "3", "dead": "'abc'"}
    assert Fiber.loads(waiting.dumps(full=False)).describe()[0].locals == {"count": "3"}


@fiber
async def small() -> int:
    dead = "abc"
    count = len(dead)
    await Op("x")
    return count


def test_the_decorator_keeps_what_people_and_tools_see() -> None:
    import inspect

    assert inspect.iscoroutinefunction(fulfil)
    assert str(inspect.signature(fulfil)) == f"(order: 'Order', *, note: 'str' = '{'x' * 100}') -> 'list[Any]'"
    assert fulfil.__doc__ == "Prices."
    assert (fulfil.__name__, fulfil.__module__) == ("fulfil", __name__)
    assert fulfil.__kwdefaults__ == {"note": "x" * 100}
    assert pickle.loads(pickle.dumps(fulfil)) is fulfil
