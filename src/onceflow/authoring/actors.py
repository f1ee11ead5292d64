"""Actors as users write them: `@actor`, `@const`, `Exclusive`, `create` and `later`.

A class of actors is an ordinary class. Made with `create` inside a task, an object of it lives in a process of its own,
and is passed from task to task; made anywhere else, it is an ordinary object, and so is every other thing here: tasks
that use actors can be called and tested as functions.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypeVar, overload

from onceflow.errors import InvalidActor
from onceflow.values.actors import (
    CONST,
    IDLE,
    MARK,
    ActorOptions,
    ActorRef,
    ActorStatistics,
    Answer,
    Finished,
    Method,
    options_of,
)
from onceflow.values.context import job_token, link
from onceflow.values.sizes import read_size

A = TypeVar("A")
C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class _Takes:
    def __repr__(self) -> str:
        return "takes"


TAKES = _Takes()

Exclusive = Annotated[A, TAKES]
"""Says of a task's parameter that the actors in it are for this task alone while it runs: it may call all their
methods, and returns them. Other parameters share the actors in them: they may call methods that are `@const`.

    @task(effect="none")
    def train(model: Exclusive[Model], batch: list[float]) -> Model:
        model.step(batch)
        return model
"""

_WRITTEN = re.compile(r"\bExclusive\[")


@overload
def actor(kind: C) -> C: ...
@overload
def actor(*, cpus: float = 0.0, memory: int | str = 0, idle: float = IDLE) -> Callable[[C], C]: ...
def actor(
    kind: C | None = None, *, cpus: float = 0.0, memory: int | str = 0, idle: float = IDLE
) -> C | Callable[[C], C]:
    """Declares a class whose objects can be actors (`create`).

    `cpus` and `memory` (bytes, or a text such as "2GiB") are what one counts for as long as it lives: it is started at
    once, and tasks that say what they need find so much less. One that is saved and has nothing to do for `idle`
    seconds is ended, and restored when it is needed again.

    What is saved of an actor is the pickled object; a class that knows better has a method `_checkpoint()`, which
    gives what has to be saved, and a class method `_restore(saved)`, which makes an object of that.
    """
    if cpus < 0 or idle < 0:
        raise InvalidActor("cpus and idle of an actor are not less than 0")
    try:
        options = ActorOptions(cpus, read_size(memory), idle)
    except ValueError as error:
        raise InvalidActor(f"memory of an actor must be {error}") from None

    def mark(kind: C) -> C:
        if not isinstance(kind, type):
            raise InvalidActor(f"`@actor` stands above a class, not above {kind!r}")
        if hasattr(kind, "_checkpoint") != hasattr(kind, "_restore"):
            raise InvalidActor(f"{kind.__qualname__} needs both `_checkpoint` and `_restore`, or neither")
        setattr(kind, MARK, options)
        return kind

    return mark if kind is None else mark(kind)


def const(method: F) -> F:
    """Declares that a method of an actor changes nothing, so that tasks which share the actor may call it."""
    setattr(method, CONST, True)
    return method


def create(kind: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> A:
    """Inside a task: an actor of this class, in a process of its own. Its `__init__` is called there with these
    arguments; what it raises is raised here when the actor is first used. Return it from the task: it ends with the
    attempt otherwise. Elsewhere: an ordinary object."""
    options_of(typing.cast("type", kind))
    here = link()
    if here is None or not job_token.get():
        return kind(*args, **kwargs)
    made: A = here.create(typing.cast("type", kind), args, kwargs)
    return made


def later(method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Answer[R]:
    """Calls a method of an actor without waiting for it. `result()` of what it returns waits, and so does `await`.
    All answers must be there when the task returns.

        answers = [later(worker.step, batch) for worker in workers]
        losses = [answer.result() for answer in answers]
    """
    if isinstance(method, Method):
        return method.later(*args, **kwargs)
    return Finished(method(*args, **kwargs))


def actor_statistics(actor: object) -> ActorStatistics:
    """How it is going with an actor that this task was given or has made."""
    if not isinstance(actor, ActorRef):
        raise InvalidActor(f"{actor!r} is not an actor")
    return actor._line.look()


def is_exclusive(annotation: Any) -> bool:
    """Whether a parameter is annotated with `Exclusive`, here or somewhere inside."""
    if isinstance(annotation, str):
        return _WRITTEN.search(annotation) is not None
    if TAKES in getattr(annotation, "__metadata__", ()):
        return True
    return any(is_exclusive(inner) for inner in typing.get_args(annotation) if not isinstance(inner, str))
