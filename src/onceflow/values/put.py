"""`onceflow.put`: a value that is kept, and a ref to it."""

from __future__ import annotations

import itertools
import os
from typing import Any, NoReturn, TypeVar

from onceflow.errors import InvalidRef
from onceflow.values.context import link
from onceflow.values.packed_outputs import Packed, pack, unpack
from onceflow.values.refs import Ref, ValueRef

T = TypeVar("T")

_numbers = itertools.count(1)


class GivenRef(ValueRef[T]):
    """What a program has put. It joins each run that it is bound into, with what it refers to."""

    __slots__ = ("__weakref__", "_packed")

    def __init__(self, packed: Packed) -> None:
        self._packed = packed.joined()
        super().__init__(f"put-{os.getpid()}-{next(_numbers)}", self.__load, "the program that put it")

    def __load(self) -> T:
        value: T = unpack(self._packed, ours=True)
        return value


def put(value: T) -> Ref[T]:
    """Keeps a value, as it is now, and returns a ref to it. To be passed to tasks, or returned from one: what reads it
    calls `get()`, and whatever only passes it on does not load it. Put in a program, it may be bound into any number of
    runs; put in a task, it belongs to that task's output and goes with it.

        table = onceflow.put(load_table())
        run(report.bind([summary.bind(table, city) for city in cities]))

    A value with refs in it cannot be put: return them beside each other.
    """
    packed = pack(value, _refuse)
    here = link()
    return GivenRef(packed) if here is None else here.put(packed)


def _refuse(ref: Ref[Any]) -> NoReturn:
    raise InvalidRef(f"a value that is put cannot hold refs, and this one holds {ref!r}. Put them beside each other")
