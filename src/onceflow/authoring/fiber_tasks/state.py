"""The context of a fiber wherever it waits: the handlers and deadlines that its code has set, and its children.

It is part of the continuation. Functions of onceflow that the fiber calls find it in `around`, which is set while a
segment runs. Blocks (`with`) end in the reverse order of their beginnings, so these are stacks.
"""

from __future__ import annotations

import math
import time
from contextvars import ContextVar
from typing import Any

import msgspec

from onceflow.authoring.handlers import Handler
from onceflow.authoring.tasks import AnyTask, _with_options
from onceflow.errors import NotInFiber
from onceflow.values.context import link


class State(msgspec.Struct):
    """Of one fiber."""

    handlers: list[Handler] = []
    """The outermost first."""
    deadlines: list[float | None] = []
    """Seconds since 1970, the outermost first; None for one that is over and has been reported."""
    told: bool = False
    """Whether it knows that the run is cancelled."""
    limits: list[int] = []
    """How many children it may have at a time, the outermost first."""
    forked: int = 0
    """How many children it has had."""
    children: list[str] = []
    """Ids of the outcomes of those that it has not joined."""
    ended: list[str] = []
    """Of these, those that are known to have come to their ends."""
    hidden: list[bytes] = []
    """Texts of secrets that stand in its variables: the process that continues it masks them."""
    inherited: int = 0
    """How many of the deadlines it began with: the others are those of blocks."""

    @property
    def deadline(self) -> float | None:
        """The next one."""
        if not self.deadlines:
            return None
        return min([when for when in self.deadlines if when is not None], default=None)

    @property
    def until(self) -> float | None:
        """When what it awaits must be done. Infinity if it has been notified of all its deadlines: then those of graphs
        around it do not concern what it awaits, either."""
        return math.inf if self.deadlines and self.deadline is None else self.deadline

    @property
    def left(self) -> float | None:
        """Seconds until the next one; None if there is none."""
        deadline = self.deadline
        return None if deadline is None else max(0.0, deadline - now())

    def expire(self) -> TimeoutError:
        """The next deadline is over: what that raises, once."""
        place = self.deadlines.index(self.deadline)
        self.deadlines[place] = None
        return TimeoutError("the time of an `async with timeout(…)` is over")

    @property
    def in_force(self) -> tuple[Handler, ...]:
        """The handlers, the innermost first."""
        return tuple(reversed(self.handlers))

    def for_child(self) -> State:
        """What a fiber that is started in it has around it."""
        deadlines: list[float | None] = [when for when in self.deadlines if when is not None]
        return State(list(self.handlers), deadlines, self.told, inherited=len(deadlines))

    def for_fork(self) -> State:
        """What is around a fiber that goes on beside it: the same, without the deadlines of blocks, which may have been
        left long before it ends."""
        return State(self.handlers, self.deadlines[: self.inherited], self.told, inherited=self.inherited)


def limited(task: AnyTask[..., Any], deadline: float) -> AnyTask[..., Any]:
    """The same that must be done at this moment, with the graph that it returns."""
    return _with_options(task, {**task._given, "until": deadline})


around: ContextVar[State | None] = ContextVar("onceflow_fiber", default=None)
"""Of the fiber of which a segment runs here."""


def state_here(what: str) -> State:
    """That of the fiber that calls this. Raises `NotInFiber`."""
    state = around.get()
    if state is None:
        raise NotInFiber(what)
    return state


def now() -> float:
    """Seconds since 1970, as whatever runs the fiber counts them."""
    here = link()
    return time.time() if here is None else here.now()
