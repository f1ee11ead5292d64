"""Overview of a run's progress: counts, running tasks, and some of the waiting ones. For displays that poll graphs of
any size: costly counts are repeated only when something has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from onceflow.core.model.rows import Row
from onceflow.core.rules import starting
from onceflow.engine.inspect import task_info
from onceflow.engine.inspect.task_info import TaskInfo, TaskState
from onceflow.engine.runtime.live_info import Insight

if TYPE_CHECKING:
    from onceflow.core.run import Run
    from onceflow.driver.driver import Driver

MOST_RUNNING = 100
"""Running tasks that are described."""

MOST_OTHERS = 12
"""Tasks of each other state that are described."""

MOST_WAITED_FOR = 10
"""Tasks that are listed in `TaskInfo.waits_for`."""

TROUBLED: tuple[TaskState, ...] = ("failed", "retrying", "undoing")
"""States that need a user's attention. They come first."""


MOST_LOOPS = 12
"""Loops that are reported."""


class Loop(msgspec.Struct, frozen=True):
    """A loop in progress."""

    id: str
    done: int
    total: int
    """Items."""


class Overview(msgspec.Struct, frozen=True):
    counts: dict[TaskState, int]
    """How many tasks are in each state."""
    running: list[TaskInfo]
    """Running tasks, the longest first. Not all if there are very many."""
    others: list[TaskInfo]
    """Some that do not run and are not done: those in trouble, then those that could run, then those that wait."""
    finished: int = 0
    """Attempts that have returned since this engine drives the run."""
    live: bool = False
    """As in `TaskInfo`."""
    loops: list[Loop] = []
    """Loops that go on, the outer ones first. Not all if there are very many."""

    @property
    def total(self) -> int:
        """How many tasks there are, as far as that is known: a task may return more."""
        return sum(self.counts.values())


def of(tasks: list[TaskInfo]) -> Overview:
    """Of a run that cannot be looked into."""
    counts = Counter([task.state for task in tasks])
    chosen: list[TaskInfo] = []
    for state in (*TROUBLED, "ready", "waiting"):
        chosen += [task for task in tasks if task.state == state][:MOST_OTHERS]
    return Overview(dict(counts), [], chosen)


class Counted(msgspec.Struct, frozen=True):
    """What was found when all rows of a run were last gone through."""

    changes: int
    """`Driver.changes` at that time."""
    counts: Counter[TaskState]
    started: int
    """Rows that core has started. Whether workers run them is another question."""
    chosen: list[Row]
    loops: list[Loop] = []


def count(driver: Driver) -> Counted:
    run = driver.run
    counts: Counter[TaskState] = Counter()
    found: dict[TaskState, list[Row]] = {state: [] for state in (*TROUBLED, "running", "ready", "waiting")}
    started = present = 0
    left: Counter[str] = Counter()
    for row in run.rows.values():
        present += row.id in run.graph.index
        state = _state(row)
        if state == "done":
            counts["done"] += 1
            continue
        if row.group is not None and row.node.turn is not None:
            left[row.group.id] += row.node.turn.items
        if state == "running":
            started += 1
        else:
            counts[state] += 1
        if len(rows := found[state]) < MOST_OTHERS:
            rows.append(row)
    counts["done"] += len(run.graph.nodes) - present  # the others have been forgotten, because they are done for good
    chosen = [row for rows in found.values() for row in rows]
    return Counted(driver.changes, counts, started, chosen, _loops(run, left))


def _loops(run: Run, left: Counter[str]) -> list[Loop]:
    """`left` are the items of each loop that are not done."""
    found = [Loop(id, group.items - left[id], group.items) for id, group in starting.groups_of(run).items() if left[id]]
    return sorted(found, key=lambda loop: (loop.id.count("/"), loop.id))[:MOST_LOOPS]


def survey(insight: Insight, counted: Counted) -> Overview:
    driver, works = insight.driver, insight.running()
    run = driver.run
    running = [
        task_info.describe_row(run.rows[work.node], run, driver.raised_last, insight, MOST_WAITED_FOR)
        for work in works[:MOST_RUNNING]
    ]
    counts: dict[TaskState, int] = {**counted.counts, "running": len(works)}
    counts["ready"] = counts.get("ready", 0) + max(0, counted.started - len(works))
    others = [task_info.describe_row(row, run, driver.raised_last, insight, MOST_WAITED_FOR) for row in counted.chosen]
    return Overview(
        {state: number for state, number in counts.items() if number},
        sorted([task for task in running if task.started is not None], key=lambda task: task.started or 0.0),
        _ordered([task for task in others if task.state not in ("running", "done")]),
        driver.finished_attempts,
        live=True,
        loops=counted.loops,
    )


def _ordered(tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    """Graph order within each state."""
    order = {state: place for place, state in enumerate((*TROUBLED, "ready", "waiting"))}
    return sorted(tasks, key=lambda task: order[task.state])


def _state(row: Row) -> TaskState:
    """Without asking the workers."""
    if row.undo is not None or row.doomed:
        return "undoing"
    match row.state:
        case "waiting":
            return "waiting" if row.missing else "ready"
        case "backoff":
            return "retrying"
        case "handled":
            return "failed"
        case state:
            return state
