"""`onceflow stats`: how many runs there are, what they take, and how long their tasks took."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onceflow.cli.session import Session, as_duration, common
from onceflow.cli.types import TEXT
from onceflow.values.texts import as_size

if TYPE_CHECKING:
    from onceflow.planning.tasks import TaskStatistics


@click.command
@click.argument("workflow", type=TEXT, required=False)
@common
def stats(session: Session, workflow: str | None) -> None:
    """Show how many runs there are, how long each task took in the last runs that ended, and how many bytes the home
    directory takes. With WORKFLOW only its runs and tasks count.
    """
    path = session.find_home()
    runs: Counter[str] = Counter()
    tasks: list[TaskStatistics] = []
    with session.engine_if_any() as engine:
        if engine is not None:
            runs = Counter([info.status for info in engine.list_runs(workflow=workflow, limit=None)])
            tasks = engine.statistics(workflow).tasks
    sizes = _sizes(path)
    if session.json:
        session.say_json({"workflow": workflow, "runs": dict(runs), "bytes": sizes, "tasks": tasks})
        return
    counted = sorted(runs.items(), key=lambda item: (-item[1], item[0]))
    session.say(f"{'runs':<10}{', '.join([f'{count} {status}' for status, count in counted]) or 'none'}")
    for name, size in sizes.items():
        session.say(f"{name:<10}{as_size(size)}")
    if tasks:
        session.say("")
        session.table(["task", "runs", "attempts", "failed", "lost", "p50", "p90", "output"], list(map(_row, tasks)))


def _row(found: TaskStatistics) -> list[str]:
    attempts = found.finished + found.failed + found.lost
    return [
        found.task,
        str(found.runs),
        str(attempts),
        str(found.failed or ""),
        str(found.lost or ""),
        "" if found.p50 is None else as_duration(found.p50),
        "" if found.p90 is None else as_duration(found.p90),
        as_size(found.bytes),
    ]


def _sizes(home: Path) -> dict[str, int]:
    """What lies in the home directory → bytes."""
    sizes = {"journal": 0, "blobs": 0, "logs": 0}
    for folder, _, files in os.walk(home):
        place = Path(folder).relative_to(home).parts
        for file in files:
            name = place[0] if place else "journal" if file.startswith("journal.") else "other"
            if name in sizes:
                with contextlib.suppress(FileNotFoundError):  # somebody else deletes
                    sizes[name] += os.stat(os.path.join(folder, file)).st_size
    return sizes
