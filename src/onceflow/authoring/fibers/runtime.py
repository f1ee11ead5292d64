"""The runtime library of generated code, which calls it as `_F_rt`.

Most of it are built-in functions under names that user code cannot shadow; they add no frames to tracebacks.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from types import CellType
from typing import Any

from onceflow.authoring.fibers import nodes


class Saved:
    """What a frame needs to be entered again. It is emptied as soon as it was, so that it keeps nothing alive."""

    __slots__ = ("awaited", "cells", "raised", "variables")

    def __init__(self) -> None:
        self.variables: dict[str, Any] = {}
        self.cells: dict[str, CellType] = {}
        """Of the captured variables."""
        self.awaited: Any = None
        self.raised: list[tuple[BaseException, Any, BaseException | None]] = []


class Runtime:
    assertion_error = AssertionError
    base_exception = BaseException
    generator_exit = GeneratorExit
    stop_async_iteration = StopAsyncIteration
    exc_info = staticmethod(sys.exc_info)
    iter = staticmethod(iter)
    set = set
    slice = slice
    append = staticmethod(list.append)
    add = staticmethod(set.add)
    put = staticmethod(dict.__setitem__)

    @staticmethod
    def take(saved: Saved, _: int) -> Any:
        """What was being awaited. The way there has ended."""
        awaited = saved.awaited
        saved.awaited = None
        saved.variables = {}
        saved.cells = {}
        return awaited

    @staticmethod
    def again(iterator: Iterator[Any], saved: Saved, name: str) -> Iterator[Any]:
        """The current item once more, then the rest."""
        return itertools.chain((saved.variables.get(name),), iterator)

    @staticmethod
    def raising(saved: Saved, error: BaseException) -> BaseException:
        saved.raised.append((error, error.__traceback__, error.__context__))
        return error

    @staticmethod
    def mend(saved: Saved, error: BaseException) -> None:
        """Undoes what raising it again has changed."""
        original, error.__traceback__, error.__context__ = saved.raised.pop()
        assert original is error

    @staticmethod
    def visible(variables: dict[str, Any]) -> dict[str, Any]:
        """What `locals()` shows of the user's own."""
        return {name: value for name, value in variables.items() if not name.startswith(nodes.PREFIX)}

    @staticmethod
    def visible_names(names: Iterable[str]) -> list[str]:
        return [name for name in names if not name.startswith(nodes.PREFIX)]

    @staticmethod
    def special(manager: Any, method: str) -> Any:
        """A method as the interpreter finds it: in the class, never in the instance."""
        for kind in type(manager).__mro__:
            if method in kind.__dict__:
                found = kind.__dict__[method]
                bind = getattr(type(found), "__get__", None)
                return found if bind is None else bind(found, manager, type(manager))
        raise AttributeError(method)

    @staticmethod
    def check_manager(manager: Any, enter: str, leave: str) -> None:
        kind = type(manager)
        protocol = "asynchronous context manager" if enter == "__aenter__" else "context manager"
        for method in (enter, leave):
            if not hasattr(kind, method):
                missed = f" (missed {method} method)" if method == leave else ""
                raise TypeError(f"{kind.__name__!r} object does not support the {protocol} protocol{missed}")

    @staticmethod
    def aiter(source: Any) -> Any:
        kind = type(source)
        if not hasattr(kind, "__aiter__"):
            raise TypeError(f"'async for' requires an object with __aiter__ method, got {kind.__name__}")
        iterator = kind.__aiter__(source)
        if not hasattr(type(iterator), "__anext__"):
            raise TypeError(
                "'async for' received an object from __aiter__ that does not implement __anext__: "
                f"{type(iterator).__name__}"
            )
        return iterator

    @staticmethod
    def anext(iterator: Any) -> Any:
        return type(iterator).__anext__(iterator)


RUNTIME = Runtime()
