"""What generated programs can use."""

from __future__ import annotations

import reprlib
from typing import Any

from tests.authoring.fibers.world import Boom, Stop, echo, fail, fiber, log, op

__all__ = [
    "AsyncManager",
    "Boom",
    "Box",
    "Manager",
    "Steps",
    "Stop",
    "collect",
    "drive",
    "echo",
    "fail",
    "fiber",
    "log",
    "note",
    "op",
]


def note(value: Any) -> Any:
    log("note", value)
    return value


def collect(*args: Any, **kwargs: Any) -> Any:
    log("collect", "drive", len(args), sorted(kwargs))
    return (*args, *kwargs.values())


@fiber
async def drive(source: Any) -> Any:
    """Gives a generator what it asks for: `("echo", value)` or `("fail", value)`."""
    sent, error = None, None
    while True:
        try:
            kind, value = source.send(sent) if error is None else source.throw(error)
        except StopIteration as end:
            return end.value
        sent, error = None, None
        try:
            sent = await op(kind, value)
        except Boom as failure:
            error = failure


class Box:
    """Tells of everything that is done to it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getitem__(self, index: Any) -> Any:
        log("get", index)
        return self.value

    def __setitem__(self, index: Any, value: Any) -> None:
        log("set", index, value)
        self.value = value

    def __bool__(self) -> bool:
        log("bool", self.value)
        return self.value is not False and self.value != 0

    def __lt__(self, other: Any) -> bool:
        log("less", self.value)
        return repr(self.value) < repr(other)

    def __add__(self, other: Any) -> Any:
        log("add", self.value, other)
        return self

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        return f"Box({self.value!r})"

    def call(self, *args: Any, **kwargs: Any) -> Any:
        log("call", self.value, args, kwargs)
        return self


class Manager:
    def __init__(self, name: Any, swallow: bool) -> None:
        self.name, self.swallow = name, swallow

    def __enter__(self) -> Manager:
        log("enter", self.name)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        log("exit", self.name, repr(error))
        return self.swallow


class AsyncManager:
    def __init__(self, name: Any, swallow: bool) -> None:
        self.name, self.swallow = name, swallow

    @fiber
    async def __aenter__(self) -> AsyncManager:
        log("aenter", await echo(self.name))
        return self

    @fiber
    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool:
        log("aexit", await echo(self.name), repr(error))
        return self.swallow


class Steps:
    """An async iterator."""

    def __init__(self, end: int) -> None:
        self.now, self.end = 0, end

    def __aiter__(self) -> Steps:
        return self

    @fiber
    async def __anext__(self) -> int:
        self.now += 1
        if self.now > self.end:
            raise StopAsyncIteration
        return await echo(self.now)
