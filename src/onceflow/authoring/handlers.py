"""Handlers: responses to tasks that raise, defined once and used in many places.

A handler names exceptions and says what to do about them. It is in force for the tasks that it is given to
(`handlers=[...]`), for all that a workflow binds, and for everything in the graph that such a task returns. The
innermost handler that covers an exception decides; it is asked after the task's own retry policy has come to its end.

A decision is data. Asking for it is a matter of `handler_guards`; what follows from it, of `core`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, TypeVar, overload

import msgspec

from onceflow.authoring.function_wrapper import Wrapper, blank
from onceflow.authoring.retries import RetryPolicy
from onceflow.errors import InvalidOption

E = TypeVar("E", bound=BaseException)


class Decision(msgspec.Struct, frozen=True):
    """What shall become of a failure. Made by `retry`, `ignore`, `break_` and `terminate`."""

    kind: Literal["retry", "ignore", "break", "terminate"]
    value: Any = None
    policy: RetryPolicy | None = None

    def __repr__(self) -> str:
        match self.kind:
            case "retry":
                return f"<retry: {self.policy}>"
            case "ignore":
                return f"<ignore: {self.value!r}>"
            case kind:
                return f"<{kind}>"


def retry(
    count: int, *, delay: float = 1.0, backoff: float = 2.0, max_delay: float = 300.0, jitter: float = 0.1
) -> Decision:
    """Try again, if that has happened less than `count` times, whichever handler asked for it; otherwise the handlers
    further out are asked. The delays are those of `RetryPolicy`, and as durable; an undoable task is undone before each
    new attempt.

        flaky = handler(ConnectionError, retry(5, delay=0.5))
    """
    return Decision(
        "retry", policy=RetryPolicy(count, delay=delay, backoff=backoff, max_delay=max_delay, jitter=jitter)
    )


def ignore(value: Any = None) -> Decision:
    """The task counts as done, and this is what it returned. With `num_returns=n`, a tuple of n.

    optional = handler(KeyError, ignore(0))
    """
    return Decision("ignore", value)


def break_() -> Decision:
    """End the branch in which it happened, cleanly: the graph that the task is part of, if another task returned it,
    and otherwise the run. What has not started there is not started, what has begun outside is brought to an end, what
    is done stays; the result of the branch is None, and everything around it goes on."""
    return Decision("break")


def terminate() -> Decision:
    """End the run: it has failed, whatever handlers there are further out."""
    return Decision("terminate")


class FailedAttempt(msgspec.Struct, frozen=True):
    """What a handler's function learns about a failure beside the exception."""

    run: str
    """The run's id."""
    task: str
    """The task's id in its graph."""
    attempt: str
    """`epoch.number`"""
    key: str
    """The idempotency key of the attempt that failed."""
    failures: int
    """How often the task has failed by now."""


class Handler(Wrapper):
    """Which exceptions, and what to do about them. Made by `handler`."""

    def __init__(
        self, name: str, on: tuple[type[BaseException], ...], do: Decision | Callable[[Any, FailedAttempt], Any]
    ) -> None:
        self.name = name
        self.on = on
        """The exceptions that it covers."""
        self.do = do
        """The decision, or the function that decides."""
        if not isinstance(do, Decision):
            self._wrap(do)

    def covers(self, error: BaseException) -> bool:
        """Whether this handler has something to say about it."""
        return isinstance(error, self.on)

    def decide(self, error: BaseException, failure: FailedAttempt) -> Decision:
        """May raise what the user's function raises."""
        if isinstance(self.do, Decision):
            return self.do
        decision = self.do(error, failure)
        return decision if isinstance(decision, Decision) else ignore(decision)

    def __enter__(self) -> Self:
        """In a fiber: it is in force for what is awaited in this block."""
        from onceflow.authoring.fiber_tasks.state import state_here  # few programs have fibers

        state_here(f"`with {self.name}`").handlers.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        from onceflow.authoring.fiber_tasks.state import state_here

        state_here(f"`with {self.name}`").handlers.pop()

    def __reduce__(self) -> str | tuple[Any, ...]:
        if not isinstance(self.do, Decision) and self._found_by_name():
            return self.__qualname__
        return blank, (type(self),), {"name": self.name, "on": self.on, "do": self.do}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Handler.__init__(self, **state)

    def __repr__(self) -> str:
        return f"<handler {self.name} of {', '.join(error.__name__ for error in self.on)}>"


class _Made:
    """`handler(...)` between its exceptions and its function."""

    __slots__ = ("_name", "_on")

    def __init__(self, on: tuple[type[BaseException], ...], name: str | None) -> None:
        self._on = on
        self._name = name

    def __call__(self, function: Callable[[Any, FailedAttempt], Any], /) -> Handler:
        name = self._name or str(getattr(function, "__name__", "?"))
        if inspect.iscoroutinefunction(function):
            raise InvalidOption(name, f"it is made from an ordinary function, not from {function!r}", kind="handler")
        try:
            inspect.signature(function).bind(None, None)
        except TypeError:
            raise InvalidOption(
                name, "its function is called with two arguments, the exception and a FailedAttempt", kind="handler"
            ) from None
        return Handler(name, self._on, function)


Exceptions = type[BaseException] | Sequence[type[BaseException]]


@overload
def handler(on: Exceptions, do: Decision, *, name: str | None = None) -> Handler: ...
@overload
def handler(on: Exceptions, *, name: str | None = None) -> Callable[[Callable[[E, FailedAttempt], Any]], Handler]: ...
def handler(on: Any, do: Any = None, *, name: str | None = None) -> Any:
    """A handler of these exceptions: with a decision, or as the decorator of a function that decides.

    The function is called where the task was called, with the exception and a `FailedAttempt`. It returns a decision,
    or anything else, which counts as what the task returned (`ignore`); what it raises takes the place of the
    exception, and the handlers further out are asked. To leave the matter to them, raise the exception again.

        flaky = handler((ConnectionError, TimeoutError), retry(5))

        @handler(CardDeclined)
        def declined(error: CardDeclined, failure: FailedAttempt) -> object:
            return ignore("unpaid") if error.final else retry(3, delay=60)
    """
    errors = tuple(on) if isinstance(on, (list, tuple, set, frozenset)) else (on,)
    if not errors or not all(isinstance(error, type) and issubclass(error, BaseException) for error in errors):
        raise InvalidOption(name or "?", f"on must be one or more exception classes, not {on!r}", kind="handler")
    if do is None:
        return _Made(errors, name)
    if not isinstance(do, Decision):
        raise InvalidOption(
            name or "?", f"a decision is retry(…), ignore(…), break_() or terminate(), not {do!r}", kind="handler"
        )
    return Handler(name or f"{do.kind} {errors[0].__name__}", errors, do)


def checked(given: Any, name: str, kind: str = "task") -> tuple[Handler, ...]:
    """The handlers of an option. Raises `InvalidOption` for anything else."""
    handlers = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for one in handlers:
        if not isinstance(one, Handler):
            hint = "write `handler(SomeError, retry(3))`"
            raise InvalidOption(name, f"handlers must be a list of handlers, not {given!r}; {hint}", kind=kind)
    return handlers
