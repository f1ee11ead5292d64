"""What a fiber has around it wherever it waits: the handlers, deadlines and children that its code has asked for.

It is part of the continuation. Functions of onceflow that the fiber calls find it in `around`, which is set while a
segment runs.
"""

from __future__ import annotations

from contextvars import ContextVar

import msgspec

from onceflow.authoring.handlers import Handler
from onceflow.errors import NotInFiber


class State(msgspec.Struct):
    """Of one fiber."""

    entered: int = 0
    """How many blocks (`with on(...)`, `async with timeout(...)`) it has entered so far: the number of the last one."""
    handlers: list[tuple[int, Handler]] = []
    """Number of the block → handler, the outermost first."""
    deadlines: list[tuple[int, float]] = []
    """Number of the block → when its time is over, in seconds since 1970."""

    def enter(self) -> int:
        """The number of a block that is entered now."""
        self.entered += 1
        return self.entered

    @property
    def deadline(self) -> float | None:
        """The next one."""
        return min([when for _, when in self.deadlines], default=None)

    @property
    def in_force(self) -> tuple[Handler, ...]:
        """The handlers, the innermost first."""
        return tuple([handler for _, handler in reversed(self.handlers)])

    def for_child(self) -> State:
        """What a fiber that is started in it has around it."""
        return State(self.entered, list(self.handlers), list(self.deadlines))


around: ContextVar[State | None] = ContextVar("onceflow_fiber", default=None)
"""Of the fiber of which a segment runs here."""


def state_here(what: str) -> State:
    """That of the fiber that calls this. Raises `NotInFiber`."""
    state = around.get()
    if state is None:
        raise NotInFiber(what)
    return state
