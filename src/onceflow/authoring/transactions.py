"""Transactions: parts of a run that are done as a whole, or undone.

A transaction is a task that returns a graph (design 2.9): so it has an inside, and one result. What makes it a
transaction is what happens when something inside fails for good (2.8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

from onceflow.authoring.handlers import Handler
from onceflow.authoring.retries import RetryPolicy
from onceflow.authoring.tasks import Task, make_task
from onceflow.errors import InvalidOption

P = ParamSpec("P")
R = TypeVar("R")


class TransactionOptions(TypedDict, total=False):
    """Options of `@transaction`."""

    handlers: Sequence[Handler]
    metadata: Mapping[str, Any]
    name: str
    num_returns: int
    retry: int | RetryPolicy


_DEFAULTS: dict[str, Any] = {"effect": "none", "transaction": True}


class _WithOptions:
    """`@transaction(...)` between its options and its function."""

    __slots__ = ("_given",)

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def __call__(self, function: Callable[P, R], /) -> Task[P, R]:
        made: Task[P, R] = _make(function, self._given)
        return made


@overload
def transaction(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def transaction(**given: Unpack[TransactionOptions]) -> _WithOptions: ...
def transaction(*function: Any, **given: Any) -> Any:
    """Makes a transaction of a function that binds tasks and returns a node. Use it as `@transaction` or
    `@transaction(...)`, and bind it like a task.

    If a task inside fails for good, every undoable task that has begun inside is undone, in reverse order, except for
    those that something irrevocable stands on. Then the transaction has failed as a whole: it is tried again as `retry`
    says; then `handlers`, those around it and `catch=True` have a say; and if none of them takes it, the run fails. The
    function is called when the run gets there, so its arguments are values.

        @transaction(retry=2)
        def booking(user: str, city: str) -> str:
            room = book_room.bind(city)
            return confirm.bind(user, room, book_flight.bind(city))

        receipt, error = booking.options(catch=True).bind("ann", "Rome")
    """
    if not function:
        return _WithOptions(given)
    if len(function) > 1:
        raise InvalidOption(getattr(function[0], "__name__", "?"), "options have names: `@transaction(retry=2)`")
    return _make(function[0], given)


def _make(function: Any, given: Mapping[str, Any]) -> Any:
    return make_task(function, given, TransactionOptions, _DEFAULTS)
