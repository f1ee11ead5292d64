"""What one workload said, as the harness keeps it."""

from __future__ import annotations

import dataclasses

from bench.rows import Comparison, Row


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    workload: str
    seconds: float
    """How long it took."""
    rows: list[Row]
    """Empty if it was compared."""
    comparisons: list[Comparison]
    """Empty if it was measured alone."""
    load: tuple[float, float]
    """How many processes wanted to run, before and after: the mean of the last minute."""

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)
