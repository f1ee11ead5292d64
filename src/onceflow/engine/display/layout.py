"""The live display: a head for each run, its running tasks with their bars, and the waiting tasks with reasons."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from onceflow.engine.display import wording
from onceflow.engine.display.progress_view import View
from onceflow.engine.inspect.overview import TROUBLED, Overview
from onceflow.engine.inspect.task_info import TaskInfo
from onceflow.values.texts import one_line

BAR, SHORT_BAR = 24, 8
"""Columns of a bar; of one on a narrow terminal."""

NARROW = 80
"""A terminal with fewer columns is narrow."""

LEAST_ROWS = 3
"""Rows of tasks for each run, however small the terminal is."""

LEAST_NAME = 16
"""Columns that a name has on a terminal that is too narrow for everything."""

COLOURS = {"failed": "red", "retrying": "yellow", "undoing": "yellow", "running": "cyan"}


def draw(views: Sequence[View], hidden: int, width: int, height: int) -> RenderableType:
    """For a terminal of this size. No higher than that, if that can be. So many runs are hidden."""
    bar = SHORT_BAR if width < NARROW else BAR
    budget = max(LEAST_ROWS, (height - 1 - len(views)) // max(1, len(views)))
    parts: list[RenderableType] = []
    for view in views:
        parts.append(_head(view, bar))
        if view.overview is not None:
            parts.append(_rows(view.overview, bar, budget))
    if hidden:
        parts.append(_line(f"and {hidden} more run{'s' * (hidden != 1)}", "dim"))
    return Group(*parts)


def _head(view: View, bar: int) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    cells: list[RenderableType] = [_line(wording.name(view), "bold")]
    if view.info.workflow != view.info.name:
        cells.append(_line(one_line(view.info.workflow)))
    told: list[str] = [view.info.status]
    counts: list[str] = []
    if view.overview is not None:
        cells.append(ProgressBar(max(1, view.overview.total), view.overview.counts.get("done", 0), width=bar))
        told.append(wording.done(view.overview))
        counts = wording.counts(view.overview)
    if view.is_blind:
        told.append("its engine does not answer: what runs there is not known")
    told += [wording.clock(view.elapsed), wording.eta(view), wording.rate(view), *counts]
    cells.append(_line(" · ".join([part for part in told if part])))
    grid.add_row(*cells)
    return grid


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _rows(overview: Overview, bar: int, budget: int) -> RenderableType:
    """Tasks in trouble must not be crowded out by running ones, nor these by waiting ones."""
    trouble = [task for task in overview.others if task.state in TROUBLED]
    waiting = [task for task in overview.others if task.state not in TROUBLED]
    shown_trouble = trouble[: max(1, budget // 3)]
    left = max(1, budget - len(shown_trouble) - min(len(overview.loops), max(1, budget // 3)))
    shown_running = overview.running[: max(1, left * 2 // 3) if waiting else left]
    shown_waiting = waiting[: max(0, left - len(shown_running) - 1)]
    grid = Table.grid(padding=(0, 1))
    names = [len(task.id) + 2 for task in (*shown_running, *shown_trouble, *shown_waiting)]
    least = min(LEAST_NAME, max(names, default=0))
    grid.add_column(no_wrap=True, min_width=least, max_width=40, overflow="ellipsis")
    grid.add_column(width=bar)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    now = time.time()
    for loop in overview.loops[: max(1, budget // 3)]:
        done = ProgressBar(max(1, loop.total), loop.done, width=bar)
        grid.add_row(Text(f"  {one_line(loop.id)}", style="cyan"), done, Text(f"{loop.done:,}/{loop.total:,} items"))
    for task in shown_running:
        grid.add_row(_name(task), _bar(task, bar), _how_far(task, now))
    for task in (*shown_trouble, *shown_waiting):
        grid.add_row(_name(task), Text(task.state, style=COLOURS.get(task.state, "dim")), _why(task))
    counts = overview.counts
    hidden = counts.get("running", 0) - len(shown_running)
    others = overview.total - counts.get("done", 0) - counts.get("running", 0)
    hidden += others - len(shown_trouble) - len(shown_waiting)
    if hidden > 0:
        grid.add_row(Text(f"  and {hidden} more", style="dim"), "", "")
    return grid


def _name(task: TaskInfo) -> Text:
    return Text(f"  {one_line(task.id)}", style=COLOURS.get(task.state, "dim"))


def _bar(task: TaskInfo, width: int) -> Any:
    share = None if task.progress is None else task.progress.share
    return Text("running", style="cyan") if share is None else ProgressBar(1.0, share, width=width)


def _how_far(task: TaskInfo, now: float) -> Text:
    elapsed = "" if task.started is None else wording.clock(max(0.0, now - task.started))
    told = "" if task.progress is None else one_line(str(task.progress))
    return Text("  ".join([part for part in (elapsed, told) if part]))


def _why(task: TaskInfo) -> Text:
    if task.state in TROUBLED:
        return Text(wording.trouble(task).partition(": ")[2].partition(", ")[2], style=COLOURS.get(task.state, ""))
    return Text(one_line(task.reason), style="dim")
