"""A schedule in the journal: its definition, which users write, and its state, which firings change.

Both are small and stand in one row. Only the state is written when it fires.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from onceflow.core.rules.state import OnFailure
from onceflow.engine.schedules.rules import Rule
from onceflow.storage.journal import StandingRow

CatchUp = Literal["none", "latest", "all"]
"""Which of the instants that passed while no engine was there are made up for."""

Overlap = Literal["skip", "queue", "allow"]
"""What happens at an instant that comes while a run of the schedule is in progress."""


class Definition(msgspec.Struct, frozen=True):
    rule: Rule
    zone: str
    """In which its workflow is given the time."""
    start: float | None
    end: float | None
    """Instants before the one, and from the other on, do not count."""
    delay: float
    """Seconds that each firing is late on purpose."""
    catch_up: CatchUp
    overlap: Overlap
    limit: int
    """Firings that are made up for, or wait, at the most."""
    workflow: str
    module: str
    qualname: str
    code: bytes
    """The workflow by value, if it cannot be imported."""
    interpreter: str
    """For which `code` was stored."""
    arguments: bytes
    """A pickle of positional arguments and keywords."""
    shown: str
    """The same for users."""
    on_failure: OnFailure
    timeout: float | None
    metadata: str | None
    queue: str | None = None
    priority: int = 0


class State(msgspec.Struct, frozen=True):
    created: float
    cursor: float
    """What is to become of the instants until here has been decided."""
    paused: bool = False
    queue: tuple[float, ...] = ()
    """Instants that wait until a run has ended."""
    open: tuple[str, ...] = ()
    """Its runs that may be going on."""
    fired: int = 0
    skipped: int = 0
    """Instants that came while a run was going on."""
    last: float | None = None
    """The instant that was fired last."""
    last_run: str | None = None
    problem: str | None = None
    """Why it could not be fired when that was last tried."""


class ScheduleInfo(msgspec.Struct, frozen=True):
    """Information about a schedule. Times are seconds since 1970."""

    id: str
    workflow: str
    """The name of the workflow, or of the task."""
    arguments: str
    """As Python shows them."""
    rule: str
    """The rule, as text for users."""
    zone: str
    """The time zone in which its workflow is given the time."""
    next: float | None
    """When it fires next; None if never, or while it is paused."""
    paused: bool
    last: float | None
    """The instant for which it fired last."""
    last_run: str | None
    """The run that was created then."""
    fired: int
    """How often it has fired."""
    skipped: int
    """How often it did not, because a run was still going on."""
    waiting: int
    """How many firings wait until a run has ended."""
    problem: str | None
    """Why it could not be fired when that was last tried: its code is not there, say."""
    start: float | None
    end: float | None
    jitter: float
    """Seconds that each firing is late, on purpose."""
    catch_up: CatchUp
    overlap: Overlap
    limit: int
    created: float
    metadata: dict[str, Any] = {}
    """That of its runs, besides the label of the schedule."""


_definition = msgspec.msgpack.Decoder(Definition)
_state = msgspec.msgpack.Decoder(State)
encode = msgspec.msgpack.Encoder().encode


def definition_of(row: StandingRow) -> Definition:
    return _definition.decode(row.definition)


def state_of(row: StandingRow) -> State:
    return _state.decode(row.state)
