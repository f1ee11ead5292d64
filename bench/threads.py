"""Where the time of a part of a workload goes: per thread of this process, and for the processes it has started.

    with threads.watched("saved, run_many", "task", 10_100):
        engine.run_many(...)

The kernel counts, so watching costs two looks at /proc and nothing in between. `--threads` shows it. A thread that runs
100 % of the time is what limits a part; if the threads of this process add up to about 100 %, it is the interpreter's
lock. Without /proc (not Linux) nothing is recorded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench import processes


@dataclasses.dataclass(slots=True)
class Usage:
    """Of a thread, or of several that do the same."""

    running: float = 0.0
    """Seconds on a core."""
    waiting: float = 0.0
    """Seconds that it could have run but had no core."""
    wakes: int = 0
    """How often it was put on a core."""
    user_ticks: int = 0
    kernel_ticks: int = 0

    @property
    def kernel(self) -> float:
        """The part of running that was spent in system calls."""
        return self.kernel_ticks / max(1, self.user_ticks + self.kernel_ticks)

    def add(self, other: Usage, sign: int = 1) -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + sign * getattr(other, field.name))


@dataclasses.dataclass(slots=True)
class Section:
    """One part of a workload, over all its repeats."""

    name: str
    unit: str
    count: int = 0
    """Units of work."""
    seconds: float = 0.0
    usages: dict[str, Usage] = dataclasses.field(default_factory=dict)


_sections: dict[str, Section] = {}


@contextlib.contextmanager
def watched(name: str, unit: str, count: int) -> Iterator[None]:
    """Counts what runs meanwhile. Of threads that end before the block does only the time is known, of processes
    nothing."""
    before = _look_at_others()
    before |= _look_at_own()  # next to the block: looking is work for this thread, too
    used = time.process_time()
    started = time.perf_counter()
    yield
    seconds = time.perf_counter() - started
    used = time.process_time() - used
    after = _look_at_own()
    ended = used - sum(usage.running - before.get(key, Usage()).running for key, usage in after.items())
    if before and ended > 0.01 * seconds:
        after[0, "ended threads"] = Usage(ended, wakes=1)
    after |= _look_at_others()
    section = _sections.setdefault(name, Section(name, unit))
    section.count += count
    section.seconds += seconds
    for key, usage in after.items():
        if key in before:
            usage.add(before[key], -1)
        if usage.wakes:
            section.usages.setdefault(key[1], Usage()).add(usage)


def taken() -> list[Section]:
    """What was watched since this was last asked."""
    sections = list(_sections.values())
    _sections.clear()
    return sections


Looked = dict[tuple[int, str], Usage]
"""(thread, what it is) → what it has used so far."""


def _look_at_own() -> Looked:
    looked: Looked = {}
    for thread in threading.enumerate():
        with contextlib.suppress(OSError):
            identity = thread.native_id or 0
            looked[identity, _role(thread)] = _usage(processes.PROCESSES / "self/task" / str(identity))
    return looked


def _look_at_others() -> Looked:
    own = os.getpid()
    looked: Looked = {}
    for process, parent in processes.descendants(own).items():
        for task in (processes.PROCESSES / str(process) / "task").glob("*"):
            with contextlib.suppress(OSError):
                looked[int(task.name), "fork servers" if parent == own else "workers"] = _usage(task)
    return looked


def _role(thread: threading.Thread) -> str:
    words = thread.name.split()
    if words[0] == "onceflow":
        return f"{words[1]} thread"
    return "calling threads"


def _usage(task: Path) -> Usage:
    running, waiting, wakes = map(int, (task / "schedstat").read_text().split())
    fields = processes.fields(task / "stat")
    return Usage(running / 1e9, waiting / 1e9, wakes, int(fields[11]), int(fields[12]))
