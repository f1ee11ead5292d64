"""The decorator `fiber`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, overload

from onceflow.authoring.fibers import definitions, sources
from onceflow.authoring.fibers.definitions import Migrate, OnChange, Policy
from onceflow.authoring.fibers.points import Version
from onceflow.errors import DurableSyntaxError, InvalidOption

F = TypeVar("F", bound=Callable[..., Any])


@overload
def fiber(function: F, /) -> F: ...


@overload
def fiber(
    *, name: str | None = None, on_change: OnChange = "pin", migrate: Migrate | None = None
) -> Callable[[F], F]: ...


def fiber(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    on_change: OnChange = "pin",
    migrate: Migrate | None = None,
) -> Any:
    """Makes an async function (or a generator function) durable: wherever it waits, it can be saved as bytes, and go on
    in another process.

        @fiber
        async def fulfil(order: Order, *, retries: int = 3) -> Receipt: ...

    It stays an ordinary function with the same signature, docstring and types. `@fiber` must be the innermost decorator
    of a function of a module or class. `name` is under which saved fibers find it, its qualified name by default.
    `on_change` says what becomes of fibers that are parked in it when its code changes: "pin" finishes them in the code
    in which they began, "move" lets them go on in the new code if it has a place that corresponds, "fail" refuses.
    `migrate` is for "move": it is given the saved variables and returns those that only the new code has.
    """
    if on_change not in ("pin", "move", "fail"):
        raise InvalidOption(
            name or str(getattr(function, "__qualname__", "?")),
            f"on_change must be 'pin', 'move' or 'fail', not {on_change!r}",
            kind="fiber",
        )

    def decorate(plain: Callable[..., Any]) -> FunctionType:
        return _durable(plain, name, Policy(on_change, migrate))

    return decorate if function is None else decorate(function)


def version_of(function: Callable[..., Any]) -> Version:
    """What is known of a durable function, to be stored beside its snapshots."""
    definition = definitions.of_code(getattr(inspect.unwrap(function), "__code__", _nothing.__code__))
    if definition is None:
        raise TypeError(f"{function!r} is not a durable function: decorate it with @fiber")
    return definition.version


def _nothing() -> None: ...


def _durable(function: Any, name: str | None, policy: Policy) -> FunctionType:
    if not isinstance(function, FunctionType):
        raise TypeError(f"@fiber takes a function and must be the innermost decorator; it was given {function!r}")
    code = function.__code__
    qualname = function.__qualname__

    def refuse(problem: str) -> None:
        raise DurableSyntaxError(code.co_filename, code.co_firstlineno, f"durable function {qualname} {problem}")

    if code.co_qualname != qualname:
        refuse("is wrapped by another decorator; @fiber must be the innermost one")
    if not inspect.iscoroutinefunction(function) and not inspect.isgeneratorfunction(function):
        if inspect.isasyncgenfunction(function):
            refuse(
                "contains yield (async generator), which cannot be saved; return a list, or make a class with a "
                "durable __anext__"
            )
        refuse("is neither async nor a generator: there is nothing it could wait for")
    outer = [free for free in code.co_freevars if free != "__class__"]
    if outer and "<locals>" not in qualname:
        refuse(f"uses its type parameters ({', '.join(outer)}) in its body, which is not supported")
    if outer:
        refuse(
            f"uses variables of an enclosing function ({', '.join(outer)}); it could not be found again in another "
            "process. Move it to module level and pass them as arguments."
        )
    if "<locals>" in qualname:
        refuse("is defined inside a function; it could not be found again in another process. Move it to module level.")
    ref = f"{sources.module_name(function)}:{name or qualname}"
    return definitions.define(sources.locate(function), function, ref, policy).function
