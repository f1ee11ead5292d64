"""Texts that describe the progress of runs."""

from __future__ import annotations

from onceflow.engine.display.progress_view import View
from onceflow.engine.inspect.overview import Overview
from onceflow.engine.inspect.task_info import TaskInfo, TaskState
from onceflow.values.texts import one_line

ORDER: tuple[TaskState, ...] = ("running", "ready", "waiting", "retrying", "undoing", "failed")
"""In which states are counted."""

UNITS = (("h", 3600), ("min", 60), ("s", 1))
"""Of an estimate, with their seconds."""

MOST_NAMED = 3
"""Running tasks that are named in a line."""


def name(view: View) -> str:
    return one_line(view.info.name or view.info.id)


def done(overview: Overview) -> str:
    return f"{overview.counts.get('done', 0)} of {overview.total} done"


def counts(overview: Overview) -> list[str]:
    """Of what is not done."""
    return [f"{overview.counts[state]} {state}" for state in ORDER if overview.counts.get(state)]


def rate(view: View) -> str:
    if not view.rate:
        return ""
    return f"{view.rate:.0f}/s" if view.rate >= 10 else f"{view.rate:.1f}/s"


def eta(view: View) -> str:
    """How much longer it takes, as a range, and on how many samples that rests."""
    found = view.estimate
    if found is None:
        return ""
    unit, size = next(((unit, size) for unit, size in UNITS if found.high >= 1.5 * size), UNITS[-1])
    low, high = [_rounded(seconds / size) for seconds in (found.low, found.high)]
    told = f"ETA {low}–{high} {unit}" if low != high else f"ETA {high} {unit}"
    return f"{told} ({found.samples} sample{'s' * (found.samples != 1)})" if found.samples else told


def _rounded(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 10 else f"{number:.0f}"


def line(view: View) -> str:
    """The progress of a run in one line."""
    parts: list[str] = [view.info.status]
    if view.overview is not None:
        parts += [done(view.overview), *counts(view.overview)]
    parts += [rate(view), clock(view.elapsed), eta(view)]
    said = ", ".join([part for part in parts if part])
    if view.is_blind:
        return f"{said} (its engine does not answer, so what runs there is not known)"
    return said if view.overview is None or not view.overview.running else f"{said}: {named(view.overview.running)}"


def named(running: list[TaskInfo]) -> str:
    told = [f"{one_line(task.id)} {share(task)}".rstrip() for task in running[:MOST_NAMED]]
    return ", ".join(told) + (", …" if len(running) > MOST_NAMED else "")


def share(task: TaskInfo) -> str:
    """How far it is, as short as can be."""
    if task.progress is None:
        return ""
    known = task.progress.share
    return one_line(str(task.progress)) if known is None else f"{int(100 * known)} %"


def trouble(task: TaskInfo) -> str:
    """Of a task that raised, or is taken back."""
    raised = f"raised {one_line(task.error)}" if task.error else ""
    again = task.reason.partition(", ")[2] if task.state == "retrying" else task.reason
    return f"{one_line(task.id)}: {', '.join([part for part in (task.state, raised, again) if part])}"


def ending(view: View) -> str:
    """The last that is said of a run."""
    said = f"{view.info.status} after {duration(view.elapsed)}"
    if view.overview is None:
        return said
    if view.info.status == "succeeded":
        return f"{said}, {view.overview.total} task{'s' * (view.overview.total != 1)}"
    if view.overview.live:  # it was seen last before the end
        return f"{said}, at least {done(view.overview)}"
    return f"{said}, {', '.join([done(view.overview), *counts(view.overview)])}"


def clock(seconds: float) -> str:
    """Time that has passed: `0:07`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else clock(seconds)
