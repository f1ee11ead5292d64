"""What a workload finds out: rows of its own, and lines that compare."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One measured number."""

    name: str
    """What was measured, for people: `chain, 10,000 nodes`."""
    value: float | None
    """None if it could not be measured: the note says why."""
    unit: str
    """Of the value: `events/s`, `ms`, `×`."""
    limit: str = ""
    """What was asked for, as text: `≥ 100,000`. Empty for a number that is only shown."""
    ok: bool = True
    """Whether the limit is held."""
    low: float | None = None
    """The lowest of the repeats, if there were any. The value is their median."""
    high: float | None = None
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """The median of several rounds, the lowest and the highest."""

    median: float
    low: float
    high: float
    rounds: tuple[float, ...] = dataclasses.field(default=(), compare=False)
    """All of them, in their order."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values), tuple(values))


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One contestant, or one physical limit."""

    name: str
    keeps: str
    """What survives a crash, in few words."""
    value: Spread | None
    """None if it could not be measured: the note says why."""
    ratios: dict[str, Spread]
    """Of a contestant: for each way of ours, how many times as much it needs. Of a limit: how many times as much as it
    each way of ours needs. Of one of ours there is none."""
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Several who do the same, in turns."""

    what: str
    unit: str
    rounds: int
    ours: list[Line]
    peers: list[Line]
    limits: list[Line]
