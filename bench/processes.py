"""Processes as the kernel shows them: who started whom, who belongs to a session, who is alive, how much memory."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

PROCESSES = Path("/proc")
PATIENCE = 60.0
"""Seconds until a killed process that does not go away is an error."""


def fields(stat: Path) -> list[str]:
    """Those after the program's name, which may contain spaces: state, parent, group, session, …"""
    return stat.read_text().rpartition(")")[2].split()


def descendants(process: int) -> dict[int, int]:
    """The processes that this one has started, and those that they have: process id → its parent's."""
    parents = {other: int(stat[1]) for other, stat in _all().items()}
    found: dict[int, int] = {}
    generation = {process}
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation}
        found |= {child: parents[child] for child in generation}
    return found


def of_session(leader: int) -> set[int]:
    """The processes of a session that are alive, also those whose parents have ended."""
    return {process for process, stat in _all().items() if int(stat[3]) == leader and stat[0] not in "ZX"}


def processor_seconds(leader: int) -> float:
    """What the living processes of a session have used so far. Only on Linux: there each has a clock of its own, whose
    number is made of the process id (clock_getcpuclockid(3)). `stat` counts in hundredths."""
    used = 0.0
    for process in of_session(leader):
        with contextlib.suppress(OSError):
            used += time.clock_gettime(~process << 3 | 2)
    return used


def is_alive(process: int) -> bool:
    try:
        return fields(PROCESSES / str(process) / "stat")[0] not in "ZX"
    except OSError:
        return False


def kill(processes: set[int]) -> None:
    """Returns when all of them are gone. They must be of our making: nothing protects others."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while any(is_alive(process) for process in processes):
        if time.monotonic() > until:
            raise RuntimeError("a killed process does not go away")
        time.sleep(0.001)


def end_session(leader: int) -> None:
    """Nothing of it is left afterwards, whoever the parent is by now. Without /proc only the leader's group ends."""
    if not PROCESSES.is_dir():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        return
    while left := of_session(leader):
        kill(left)


def tells_memory() -> bool:
    return (PROCESSES / "self/smaps_rollup").exists()


def tells_processor() -> bool:
    return sys.platform == "linux"


def megabytes(process: int) -> float:
    """The proportional set size: a page that several processes share counts in parts."""
    for line in (PROCESSES / str(process) / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("smaps_rollup has no line Pss")


def _all() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for folder in PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found[int(folder.name)] = fields(folder / "stat")
    return found
