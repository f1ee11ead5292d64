"""Durations of earlier runs: the measurements of the last runs of a workflow, by task and by node.

Recent runs count more: a run weighs `FADING` times as much as the next newer one. A task that was called ten thousand
times in a run is represented by some of its durations, evenly spread from the shortest to the longest.

However long the past is, reading it is bounded: a few runs, looked for among the newest; of each its last entries; and
so many attempts in all.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from onceflow.driver import measurements
from onceflow.driver.measurements import Measurement
from onceflow.storage.journal import Journal, RunRow

RUNS = 20
"""That are read at most."""

NEWEST = 10_000
"""Runs, of any kind, among which they are looked for."""

ENTRIES = 20_000
"""Of each run, from its end."""

ATTEMPTS = 100_000
"""After which no older run is read."""

FADING = 0.85
"""The weight of a run, if the next newer one has 1."""

MOST_DURATIONS = 200
"""That are kept for a task of a run."""

ENOUGH = 5
"""Runs in which a node must have been measured, for its own durations to say more than those of its task."""

ALIKE = 0.5
"""They must also lie closer together: within this share of what most durations of the task spread over."""

MOST_REMEMBERED = 100
"""Runs."""

_OVERLAP = 0.001
"""Seconds. Clocks and rounding may let attempts overlap that did not."""


class PastTask(msgspec.Struct, gc=False):
    """A task in one run."""

    seconds: list[float] = msgspec.field(default_factory=list)
    """Of attempts that finished, sorted; not all of them if they are many."""
    finished: int = 0
    raised: int = 0
    lost: int = 0
    bytes: int = 0
    """Of all outputs together."""
    mean: float = 0.0
    """Seconds of those that finished."""


class PastRun(msgspec.Struct):
    """One run, according to its measurements."""

    tasks: dict[str, PastTask]
    nodes: dict[tuple[str, str], float]
    """(node, task) → seconds of the attempt that finished last."""
    attempts: int = 0
    """That were measured."""
    beside: frozenset[str] = frozenset()
    """Tasks of which a worker ran several at once: async ones, and those in threads."""
    seconds: float | None = None
    """From its creation to its end, if it succeeded."""


class Samples:
    """How long something took, in several runs."""

    def __init__(self, by_run: Mapping[int, Sequence[float]], weights: Sequence[float], count: int) -> None:
        self.count = count
        """Attempts behind this."""
        self._by_run = by_run
        weighted = sorted([(one, weights[run] / len(found)) for run, found in by_run.items() for one in found])
        self._seconds = [seconds for seconds, _ in weighted]
        self._sums = list(itertools.accumulate([weight for _, weight in weighted]))

    def quantile(self, share: float) -> float:
        """The shortest duration that as much as this share of all does not exceed."""
        return self._seconds[min(bisect_left(self._sums, share * self._sums[-1]), len(self._seconds) - 1)]

    def draw(self, run: int, share: float) -> float:
        """A duration of this run, or if it has none of any: the one at this share, from 0 to 1."""
        found = self._by_run.get(run)
        return self.quantile(share) if found is None else found[min(int(share * len(found)), len(found) - 1)]

    def left(self, share: float, elapsed: float) -> float:
        """How much longer it takes if it has taken so long already. If it has never taken longer, the estimate is any
        time up to as long again."""
        place = bisect_right(self._seconds, elapsed)
        if place == len(self._seconds):
            return share * elapsed
        before = self._sums[place - 1] / self._sums[-1] if place else 0.0
        return max(0.0, self.quantile(before + share * (1 - before)) - elapsed)


class History:
    """What is known from runs, newest first."""

    def __init__(self, runs: Sequence[PastRun] = ()) -> None:
        self.runs = tuple(runs)
        self.weights = [FADING**age for age in range(len(self.runs))]
        self.beside = frozenset().union(*[run.beside for run in self.runs])
        self._tasks: dict[str, Samples | None] = {}

    def samples(self, node: str, task: str) -> Samples | None:
        """The durations of a node, if they distinguish it from others of its task, or else of the task. None if none
        are known."""
        found = self.of_task(task)
        own = {n: [run.nodes[node, task]] for n, run in enumerate(self.runs) if (node, task) in run.nodes}
        if found is None or len(own) < ENOUGH:
            return found
        alone = Samples(own, self.weights, len(own))
        width = alone.quantile(1.0) - alone.quantile(0.0)
        return alone if width <= ALIKE * (found.quantile(0.9) - found.quantile(0.1)) else found

    def of_task(self, task: str) -> Samples | None:
        if task not in self._tasks:
            found = {n: run.tasks[task] for n, run in enumerate(self.runs) if task in run.tasks}
            seconds = {n: past.seconds for n, past in found.items() if past.seconds}
            count = sum([past.finished for past in found.values()])
            self._tasks[task] = Samples(seconds, self.weights, count) if seconds else None
        return self._tasks[task]

    def mean(self, task: str, run: int | None = None) -> float:
        """Seconds that a known task takes, in this run if it was there, or on average."""
        if run is not None and task in self.runs[run].tasks and self.runs[run].tasks[task].finished:
            return self.runs[run].tasks[task].mean
        known = [
            (run.tasks[task].mean, weight)
            for run, weight in zip(self.runs, self.weights, strict=True)
            if task in run.tasks and run.tasks[task].finished
        ]
        return sum([mean * weight for mean, weight in known]) / sum([weight for _, weight in known])

    def before(self, present: PastRun) -> History:
        """The same with what a run that is going on has shown so far."""
        return History([present, *self.runs])


class Reader:
    """Reads the past of workflows. What it has read of a run that succeeded, which never changes any more, it remembers
    for a while: a display asks every moment."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, PastRun] = {}

    def read(self, workflow: str | None, statuses: Sequence[str] = ("succeeded",)) -> History:
        """The last runs of a workflow (of any, for None) that ended so."""
        runs: list[PastRun] = []
        left = ATTEMPTS
        for row in self._journal.last_runs(statuses, workflow=workflow, limit=RUNS, among=NEWEST):
            runs.append(self._read(row))
            left -= runs[-1].attempts
            if left <= 0:
                break
        return History(runs)

    def _read(self, row: RunRow) -> PastRun:
        if row.status != "succeeded":
            return summary(attempts(self._journal, row.id))
        found = self._known.get(row.id)
        if found is None:
            found = summary(attempts(self._journal, row.id), row.updated - row.created)
            if len(self._known) >= MOST_REMEMBERED:
                self._known = {}
            self._known[row.id] = found
        return found


def attempts(journal: Journal, run: str) -> list[Measurement]:
    """What was measured in a run, in the order in which it came to its end."""
    return list(measurements.read(journal.last_entries(run, measurements.KINDS, ENTRIES)))


def summary(measured: Iterable[Measurement], seconds: float | None = None) -> PastRun:
    tasks: dict[str, PastTask] = {}
    nodes: dict[tuple[str, str], float] = {}
    forward = [one for one in measured if not one.undo]
    for one in forward:
        task = tasks.setdefault(one.task, PastTask())
        match one.outcome:
            case "finished":
                task.finished += 1
                task.seconds.append(one.seconds)
                task.bytes += one.bytes
                nodes[one.node, one.task] = one.seconds
            case "raised":
                task.raised += 1
            case "lost":
                task.lost += 1
    for task in tasks.values():
        if task.finished:
            task.mean = sum(task.seconds) / task.finished
            task.seconds = spread(sorted(task.seconds), MOST_DURATIONS)
    return PastRun(tasks, nodes, len(forward), _beside(forward), None if seconds is None else max(0.0, seconds))


def spread(values: Sequence[float], count: int) -> list[float]:
    """So many of sorted values at the most, the first and the last among them."""
    if len(values) <= count:
        return list(values)
    step = (len(values) - 1) / (count - 1)
    return [values[round(place * step)] for place in range(count)]


def _beside(measured: Iterable[Measurement]) -> frozenset[str]:
    """Tasks of which one worker ran several attempts at the same time."""
    until: dict[tuple[int, str], float] = {}
    found: set[str] = set()
    for one in sorted(measured, key=lambda one: one.started):
        if one.started and one.worker:
            before = until.get((one.worker, one.task), 0.0)
            if one.started < before - _OVERLAP:
                found.add(one.task)
            until[one.worker, one.task] = max(before, one.ended)
    return frozenset(found)
