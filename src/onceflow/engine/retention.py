"""Retention: which runs may be forgotten. Pure functions over what is known about runs; nothing is deleted here.

Only runs that have ended ever go: succeeded, failed, undone or cancelled. One that is paused waits for a user, and an
interrupted one for the next engine.

A rule protects or condemns. `keep` protects the newest so many. Of the others go those that are too old
(`older_than`), and then, oldest first, as many as it takes until all runs together fit into `max_bytes`. If neither of
these two is given, all that are not protected go. `statuses` and `metadata` say of which runs the rules speak; the
others stay, but the room that they take counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from onceflow.engine.statuses import ENDED
from onceflow.values.metadata import fits

Reason = Literal["age", "bytes", "count"]


class Kept(msgspec.Struct, frozen=True):
    """What retention needs to know about a run."""

    id: str
    status: str
    updated: float
    """When it ended, if it has. Seconds since 1970."""
    bytes: int = 0
    metadata: Mapping[str, Any] = {}


class Rules(msgspec.Struct, frozen=True):
    older_than: float | None = None
    """Seconds."""
    keep: int | None = None
    max_bytes: int | None = None
    statuses: Collection[str] = ENDED
    metadata: Mapping[str, Any] = {}

    @property
    def empty(self) -> bool:
        """Whether they say nothing about what is to stay, so that everything would go."""
        return self.older_than is None and self.keep is None and self.max_bytes is None


class Condemned(msgspec.Struct, frozen=True):
    run: Kept
    reason: Reason


def condemned(runs: Iterable[Kept], rules: Rules, now: float) -> list[Condemned]:
    """The runs that go, oldest first, each with the rule that says so."""
    everything = list(runs)
    concerned = [
        run
        for run in everything
        if run.status in ENDED and run.status in rules.statuses and fits(run.metadata, rules.metadata)
    ]
    concerned.sort(key=lambda run: (run.updated, run.id))
    free = concerned[: max(0, len(concerned) - (rules.keep or 0))]
    if rules.older_than is None and rules.max_bytes is None:
        return [Condemned(run, "count") for run in free]
    going = [] if rules.older_than is None else _too_old(free, now - rules.older_than)
    if rules.max_bytes is not None:
        held = sum([run.bytes for run in everything]) - sum([one.run.bytes for one in going])
        going += _too_much(free[len(going) :], held - rules.max_bytes)
    return going


def _too_old(runs: Sequence[Kept], before: float) -> list[Condemned]:
    return [Condemned(run, "age") for run in runs if run.updated < before]


def _too_much(runs: Sequence[Kept], excess: int) -> list[Condemned]:
    """As many from the front as it takes."""
    going = []
    for run in runs:
        if excess <= 0:
            break
        going.append(Condemned(run, "bytes"))
        excess -= run.bytes
    return going
