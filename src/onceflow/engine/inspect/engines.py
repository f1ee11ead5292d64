"""The engines that share a journal, at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from onceflow.engine.statuses import ACTIVE

if TYPE_CHECKING:
    from onceflow.storage.run_stores import Place


class EngineInfo(msgspec.Struct, frozen=True):
    """Information about an engine."""

    id: str
    alive: bool
    """False if it ended without saying so; the engine that continues its runs records its end."""
    runs: int
    """That it drives; or drove, if it is dead."""
    capacity: int | None
    """How many runs without a driver it takes (`onceflow serve`); None if it takes none."""
    host: str
    pid: int
    home: str
    """Its home directory."""
    onceflow: str
    """Its version."""
    started: float
    """Seconds since 1970."""
    lease: float | None
    """Seconds that are left of its lease, if the journal is in a database and it has written something."""


def list_engines(home: Place) -> list[EngineInfo]:
    """All of them, the oldest first."""
    runs = home.journal.owners(sorted(ACTIVE))
    found = [
        EngineInfo(
            row.id,
            row.alive,
            runs.get(row.id, 0),
            row.about.capacity,
            row.about.host,
            row.about.pid,
            row.about.home,
            row.about.onceflow,
            row.about.started,
            row.left,
        )
        for row in home.engines.members()
    ]
    return sorted(found, key=lambda info: (info.started, info.id))
