"""Why a task does not run, as a short text for users.

The law (design 2.3) is decided in `core`; here it is only read. A task that has all it reads and may not start for
the sake of exactly-once waits for one thing at a time, and that one is named: the row at the end of the chain of rows
that keep each other waiting.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from onceflow.storage.journal import NEVER

if TYPE_CHECKING:
    from onceflow.core.model.rows import Row
    from onceflow.core.run import Run
    from onceflow.engine.runtime.live_info import Insight, Look

MOST_NAMES = 3
"""Tasks that are named in one reason."""

MOST_STEPS = 1_000
"""Rows that are looked at to find the one that others wait for."""


def missing(row: Row) -> Iterator[str]:
    """The ids of the parents that have not given what is read of them."""
    return (parent.id for parent, mask in row.parents if not parent.gives(mask))


def of_waiting(row: Row, run: Run, insight: Insight | None) -> str:
    """Why core has not started this row."""
    if insight is not None and (outside := insight.why_not_begun()):
        return outside
    if row.missing:
        return "waits for " + _names(list(islice(missing(row), MOST_NAMES + 1)), row.missing)
    match run.status:
        case "stopping":
            return "does not start: the run is being stopped"
        case "undoing" | "parked":
            return "waits until others have been taken back"
    if row.asking:
        return ("" if insight is None else insight.why_not_admitted(row.id)) or "waits to be admitted"
    if row.queued and row.group is not None:
        return f"{row.group.limit} of {row.group.id} may be in flight at a time, and so many are"
    if row.effect != "none":
        return _of_effectful(row)
    return ""


def of_wait(key: str | None, deadline: float) -> str:
    """What a row waits for that no worker carries out."""
    moment = "" if deadline >= NEVER else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(deadline))
    if key is None:
        return f"waits until {moment}"
    return f"waits for event {key!r}" + (f", until {moment}" if moment else "")


def of_given(row: Row, look: Look | None) -> str:
    """Why a row that core has started is not run by a worker yet."""
    wait = getattr(getattr(row.node.call, "settings", None), "wait", None)
    if wait is not None:
        return f"waits for {wait}"
    if look is None:
        return "waits until the journal has its start" if row.effect != "none" else ""
    if look.started is not None:
        return ""
    return f"waits for {look.needs}" if look.needs else "waits for a worker"


def of_retry(row: Row, insight: Insight | None) -> str:
    times = "once" if row.failures == 1 else f"{row.failures} times"
    return f"raised {times}, {_again(row, insight)}"


def of_undo(row: Row, insight: Insight | None) -> str:
    undo = row.undo
    if undo is None:
        return "waits until others have been taken back"
    if undo.parked:
        return "its rollback keeps failing: the run waits for a person"
    if undo.waiting:
        return f"its rollback raised, {_again(row, insight)}"
    if undo.attempt:
        return ""
    return "waits until its last attempt has ended" if row.zombies else "waits for its turn to be taken back"


def _again(row: Row, insight: Insight | None) -> str:
    seconds = None if insight is None else insight.until_retry(row.id)
    return "is tried again" if seconds is None else f"is tried again in {as_duration(seconds)}"


def _of_effectful(row: Row) -> str:
    if row.expander is not None and not row.expander.fully_saved:
        return f"waits for the save of {row.expander.id}, which returned it"
    blocking = _irreproducible(row) if row.effect == "undoable" else _unquiet(row)
    if blocking is None:
        return ""
    return f"waits for the save of {blocking.id}" if blocking.state == "done" else f"waits until {blocking.id} is done"


def _irreproducible(row: Row) -> Row | None:
    """What has to be saved before the parents of this row are reproducible."""
    for _ in range(MOST_STEPS):
        found = next((parent for parent, _ in row.parents if not parent.reproducible), None)
        if found is None or not found.repeatable or found.checkpoint:
            return found
        row = found
    return None


def _unquiet(row: Row) -> Row | None:
    """What has to be saved, or done, before the parents of this row are quiet."""
    stack = _unquiet_parents(row)
    seen: set[str] = set()
    while stack and len(seen) < MOST_STEPS:
        found = stack.pop()
        if found.id in seen:
            continue
        if found.state != "done" or (found.checkpoint and not found.fully_saved):
            return found
        seen.add(found.id)
        if not found.fully_saved:  # settled only together with all that read it
            stack += [consumer for consumer, _, _ in found.consumers if not consumer.settled]
        stack += _unquiet_parents(found)
    return None


def _unquiet_parents(row: Row) -> list[Row]:
    return [parent for parent, _ in row.parents if not parent.quiet]


def _names(ids: list[str], count: int) -> str:
    """`ids` are some of so many."""
    named = ids if len(ids) == count else [*ids[:MOST_NAMES], f"{count - MOST_NAMES} others"]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def as_duration(seconds: float) -> str:
    """Roughly, as in conversation."""
    if seconds < 1:
        return "less than a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
