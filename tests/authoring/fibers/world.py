"""The world in which the functions of the corpus live: twice, so that two runs of the same source can be compared.

In the durable world `@fiber` is the real one, and `op(...)` is an operation that the driver carries out. In the native
world `@fiber` does nothing, and `op(...)` is an ordinary awaitable under asyncio. What either does is logged.
"""

from __future__ import annotations

import asyncio
from typing import Any

from onceflow.authoring.fibers import Fiber, Op
from onceflow.authoring.fibers import fiber as _durable

entries: list[str] = []
"""What happened."""

MOST = 1_000
"""Entries. A generated program may not end by itself in reasonable time."""

_native = False


class Boom(Exception):
    """What an operation fails with."""


class Stop(BaseException):
    """What cancels: no `Exception`."""


def log(*what: Any) -> None:
    entries.append(repr(what[0] if len(what) == 1 else what))


def fiber(function: Any) -> Any:
    return function if _native else _durable(function)


def op(kind: str, value: Any = None, *, label: str | None = None) -> Any:
    """`echo` gives its value back, `fail` raises Boom with it, `stop` raises Stop."""
    return _NativeOp(kind, value) if _native else Op(kind, value, label=label)


def echo(value: Any = None) -> Any:
    return op("echo", value)


def fail(value: Any = None) -> Any:
    return op("fail", value)


def carry_out(kind: str, value: Any) -> Any:
    log(f"{kind} {value!r}" if not callable(value) else kind)
    if len(entries) > MOST:
        raise Stop("too much")
    if kind == "fail":
        raise Boom(value)
    if kind == "stop":
        raise Stop(value)
    return value


class _NativeOp:
    def __init__(self, kind: str, value: Any) -> None:
        self.kind = kind
        self.args = (value,)

    def __await__(self) -> Any:
        return self._carried_out().__await__()

    async def _carried_out(self) -> Any:
        await asyncio.sleep(0)
        return carry_out(self.kind, *self.args)


def set_native(native: bool) -> None:
    global _native
    _native = native


def answer(fiber: Fiber) -> None:
    """Carries out what a fiber waits for."""
    assert fiber.op is not None
    try:
        value, failure = carry_out(fiber.op.name, *fiber.op.args), None
    except (Boom, Stop) as error:
        value, failure = None, error
        failure.__traceback__ = None
    if failure is None:
        fiber.send(value)
    else:
        fiber.throw(failure)
