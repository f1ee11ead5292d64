"""Physical limits, for comparison with everything else: see bench/limits.py. None of these numbers is onceflow's."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench import limits
from bench.rows import Row
from bench.workloads import _measuring

ROUNDS = 15


def measure() -> list[Row]:
    rows: list[Row] = []
    for limit in (limits.SYNC, limits.COMMIT, limits.SOCKET, limits.WAKE, limits.COPY):
        with tempfile.TemporaryDirectory() as folder, limit.opened(Path(folder)) as once:
            seconds = [once() for _ in range(ROUNDS)]
        if limit is limits.COPY:
            rows.append(_measuring.least(limit.name, [1 / each for each in seconds], "GB/s"))
        else:
            rows.append(_measuring.most(limit.name, [each * 1e6 for each in seconds], "µs"))
    return rows
