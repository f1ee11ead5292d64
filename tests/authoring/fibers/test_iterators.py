"""Which iterators a `for` may stand on while a fiber is saved. The same on every Python."""

from __future__ import annotations

import array
import collections
import csv
import io
import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest

from onceflow.authoring.fibers import Fiber, Op, fiber
from onceflow.errors import NotPersistable

FINE: dict[str, Callable[[], Any]] = {
    "list": lambda: [1, 2, 3],
    "tuple": lambda: (1, 2, 3),
    "range": lambda: range(3),
    "large range": lambda: range(2**70, 2**70 + 3),
    "str": lambda: "abc",
    "bytes": lambda: b"abc",
    "bytearray": lambda: bytearray(b"abc"),
    "array": lambda: array.array("i", [1, 2, 3]),
    "dict": lambda: {"a": 1, "b": 2},
    "keys": lambda: {"a": 1, "b": 2}.keys(),
    "values": lambda: {"a": 1, "b": 2}.values(),
    "items": lambda: {"a": 1, "b": 2}.items(),
    "set": lambda: {1, 2, 3},
    "frozenset": lambda: frozenset({1, 2, 3}),
    "deque": lambda: collections.deque([1, 2, 3]),
    "OrderedDict": lambda: collections.OrderedDict(a=1, b=2),
    "reversed": lambda: reversed([1, 2, 3]),
    "reversed dict": lambda: reversed({"a": 1, "b": 2}),
    "enumerate": lambda: enumerate("abc"),
    "zip": lambda: zip("abc", [1, 2, 3], strict=False),
    "strict zip": lambda: zip("abc", [1, 2, 3], strict=True),
    "map": lambda: map(str, [1, 2, 3]),
    "filter": lambda: filter(None, [1, 0, 2]),
    "iterator": lambda: iter([1, 2, 3]),
    "callable": lambda: iter([3, 2, 1].pop, 3),
    "nested": lambda: enumerate(zip(map(str, [1, 2]), reversed("ab"), strict=True)),
}

REFUSED: dict[str, Callable[[], Any]] = {
    "generator": lambda: (n for n in range(3)),
    "chain": lambda: itertools.chain([1], [2]),
    "islice": lambda: itertools.islice([1, 2], 2),
    "count": lambda: itertools.count(),
    "product": lambda: itertools.product([1], [2, 3]),
    "groupby": lambda: itertools.groupby([1, 2]),
    "zip over a generator": lambda: zip([1, 2], (n for n in range(3)), strict=False),
    "file": lambda: io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a\nb\n"))),  # type: ignore[arg-type]
    "csv": lambda: csv.reader(["a,b", "c,d"]),
    "memoryview": lambda: memoryview(b"ab"),
    "scandir": lambda: opened(os.scandir("/")),
}


OPEN: list[Any] = []


def opened(thing: Any) -> Any:
    OPEN.append(thing)
    return thing


@fiber
async def over(kind: str) -> list[Any]:
    seen = []
    for item in (FINE.get(kind) or REFUSED[kind])():
        seen.append(item)
        await Op("next", len(seen))
    return seen


@pytest.mark.parametrize("kind", FINE)
def test_an_iterator_goes_on_where_it_was(kind: str) -> None:
    going = Fiber.start(over(kind))
    while not going.done:
        going = Fiber.loads(going.dumps())
        going.send(None)

    assert going.error is None
    assert going.result == list(FINE[kind]())


@pytest.mark.parametrize("kind", REFUSED)
def test_an_iterator_that_later_pythons_could_not_save_is_refused(kind: str) -> None:
    with pytest.raises(NotPersistable, match="the iterator of an enclosing `for` is a"):
        Fiber.start(over(kind)).dumps()
    while OPEN:
        OPEN.pop().close()
