"""The estimated time left of a run: a range, from earlier durations of its tasks.

A run is played to its end many times. Each time the durations are drawn from one of the earlier runs (a slow day is
slow for all tasks; what that run did not have is drawn from all of them), and tasks start in the order of the graph as
soon as their inputs are there and a worker is free. The range is where most of these ends lie. Draws depend on
the names of the tasks and on nothing else, so an estimate does not jump when it is asked for again.

Ten thousand tasks are too many to simulate so often. A large rest is bounded instead, by what holds for any order of
starting: it takes at least as long as its longest path and as all work shared by the workers, and at most as long as
both together (R. L. Graham, 1969).

What is not known: delays between attempts, tasks that will fail, what other runs take of the workers, and what the
engine itself takes, some tenths of a millisecond a task. If tasks return graphs, most of a run may not even be there
yet. If earlier runs had more tasks than this one has, what is left of their whole durations counts as well.
"""

from __future__ import annotations

import heapq
import random
import zlib
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

import msgspec

from onceflow.planning.history import History, Samples

DRAWS = 40
"""How often a run is played to its end."""

LARGEST_PLAYED = 250
"""Tasks that are left. More are estimated as a whole."""

LOW, HIGH = 0.1, 0.9
"""The range: one end in ten is earlier, one in ten later."""


class Estimate(msgspec.Struct, frozen=True):
    """How many seconds a run will probably go on."""

    low: float
    high: float
    samples: int
    """On how many measured attempts this rests: of the task that is known least among those that are left. 0 if all
    that is left reports its progress itself, or nothing is left."""


class Step(msgspec.Struct, frozen=True, gc=False):
    """A task that is not done."""

    id: str
    task: str
    after: tuple[str, ...] = ()
    """Ids of what has to be done before. What is not a step is done."""
    elapsed: float | None = None
    """For how many seconds it has been running; None if it has not begun."""
    done: float = 0.0
    """How much of it is done, from 0 to 1, if it reports that."""

    @property
    def own_rest(self) -> float | None:
        """How much longer it takes, going by its own progress report."""
        if self.elapsed is None or not 0 < self.done <= 1:
            return None
        return self.elapsed * (1 - self.done) / self.done


def estimate(
    steps: Sequence[Step], history: History, workers: int, *, elapsed: float = 0.0, tasks: int | None = None
) -> Estimate | None:
    """For the steps of a run, in the order of its graph. It has been going on for `elapsed` seconds, and consists of
    so many tasks as far as it is known. None if there is a step about which nothing is known."""
    if not steps:
        return Estimate(0.0, 0.0, 0)
    is_small = len(steps) <= LARGEST_PLAYED
    known: dict[str, Samples] = {}
    for step in steps:
        if step.own_rest is None:
            found = history.samples(step.id, step.task) if is_small else history.of_task(step.task)
            if found is None:
                return None
            known[step.id] = found
    lows, highs = _played(steps, known, history, workers) if is_small else _bounded(steps, history, workers)
    low, high = _quantile(lows, LOW), _quantile(highs, HIGH)
    samples = min([found.count for found in known.values()], default=0)
    whole = [] if tasks is None else _rest_of_larger_runs(history, elapsed, tasks)
    if whole:
        low, high, samples = (
            max(low, _quantile(whole, LOW)),
            max(high, _quantile(whole, HIGH)),
            min(samples, len(whole)),
        )
    return Estimate(low, high, samples)


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def _runs_drawn(history: History) -> list[int]:
    """From which run each draw takes its durations: the more a run weighs, the more often."""
    if not history.runs:
        return [0] * DRAWS
    sums = list(accumulate(history.weights))
    return [bisect_left(sums, (draw + 0.5) / DRAWS * sums[-1]) for draw in range(DRAWS)]


def _rest_of_larger_runs(history: History, elapsed: float, tasks: int) -> list[float]:
    """What is left of earlier runs that had more tasks, if most had."""
    whole = [run for run in history.runs if run.seconds is not None]
    larger = [max(0.0, run.seconds - elapsed) for run in whole if run.seconds is not None and len(run.nodes) > tasks]
    return larger if 2 * len(larger) > len(whole) else []


# -- a few steps are played --------------------------------------------------------------------------------------------


def _played(
    steps: Sequence[Step], known: Mapping[str, Samples], history: History, workers: int
) -> tuple[list[float], list[float]]:
    numbers = {step.id: number for number, step in enumerate(steps)}
    parents = [[numbers[id] for id in step.after if id in numbers] for step in steps]
    without_slot = {number for number, step in enumerate(steps) if step.task in history.beside}
    running = {number for number, step in enumerate(steps) if step.elapsed is not None}
    runs = _runs_drawn(history)
    durations = [_drawn(step, known.get(step.id), runs) for step in steps]
    ends = [
        play([drawn[draw] for drawn in durations], parents, workers, running, without_slot) for draw in range(DRAWS)
    ]
    return ends, ends


def _drawn(step: Step, samples: Samples | None, runs: Sequence[int]) -> list[float]:
    """What the step takes from now on, in each draw."""
    if samples is None:
        assert step.own_rest is not None
        return [step.own_rest] * DRAWS
    chance = random.Random(zlib.crc32(step.id.encode()))
    if step.elapsed:
        return [samples.left(chance.random(), step.elapsed) for _ in runs]
    return [samples.draw(run, chance.random()) for run in runs]


def play(
    durations: Sequence[float],
    parents: Sequence[Sequence[int]],
    workers: int,
    running: Collection[int] = (),
    without_slot: Collection[int] = (),
) -> float:
    """When the last of these tasks has ended, if each starts as soon as its parents have ended and a worker is free;
    the task that has waited longest starts first. `running` are there already. `without_slot` do not keep a worker
    busy."""
    missing = [len(before) for before in parents]
    children: list[list[int]] = [[] for _ in parents]
    for task, before in enumerate(parents):
        for parent in before:
            children[parent].append(task)
    ready = deque(task for task, count in enumerate(missing) if not count and task not in running)
    ends = [(durations[task], task) for task in running]
    heapq.heapify(ends)
    free = workers - len([task for task in running if task not in without_slot])
    waiting: deque[int] = deque()
    now = 0.0
    while True:
        while ready:
            task = ready.popleft()
            if task in without_slot:
                heapq.heappush(ends, (now + durations[task], task))
            else:
                waiting.append(task)
        while waiting and free > 0:
            free -= 1
            task = waiting.popleft()
            heapq.heappush(ends, (now + durations[task], task))
        if not ends:
            return now
        now, task = heapq.heappop(ends)
        free += task not in without_slot
        for child in children[task]:
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)


# -- many are bounded --------------------------------------------------------------------------------------------------


def _bounded(steps: Sequence[Step], history: History, workers: int) -> tuple[list[float], list[float]]:
    own = sum([rest for step in steps if (rest := step.own_rest) is not None])
    spent = sum([step.elapsed for step in steps if step.elapsed is not None and step.own_rest is None])
    counts = Counter([step.task for step in steps if step.own_rest is None])
    busy = {task: count for task, count in counts.items() if task not in history.beside}
    means = {task: history.mean(task) for task in counts}
    usual = sum([count * means[task] for task, count in counts.items()])
    longest = _longest_path(steps, means)
    lows, highs = [], []
    for run in _runs_drawn(history):
        in_run = {task: history.mean(task, run) for task in counts}
        pace = sum([count * in_run[task] for task, count in counts.items()]) / usual if usual else 1.0
        path = longest * pace
        shared = max(0.0, own + sum([count * in_run[task] for task, count in busy.items()]) - spent) / workers
        lows.append(max(path, shared))
        highs.append(max(lows[-1], shared + path * (1 - 1 / workers)))
    return lows, highs


def _longest_path(steps: Sequence[Step], means: Mapping[str, float]) -> float:
    """Seconds from now to the end of the last step, if there were a worker for each."""
    by_id = {step.id: step for step in steps}
    ends: dict[str, float] = {}
    for step in steps:
        stack = [step.id]
        while stack:
            one = by_id[stack[-1]]
            if one.id not in ends:
                missing = [id for id in one.after if id in by_id and id not in ends]
                if missing:
                    stack += missing
                    continue
                rest = one.own_rest
                if rest is None:
                    rest = max(0.0, means[one.task] - (one.elapsed or 0.0))
                ends[one.id] = rest + max([ends[id] for id in one.after if id in by_id], default=0.0)
            stack.pop()
    return max(ends.values())
