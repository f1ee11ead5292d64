"""`onceflow ls`: lists runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import run_selection
from onceflow.cli.session import Session, as_time, common, run_as_json
from onceflow.cli.types import STATUS, TEXT

if TYPE_CHECKING:
    from onceflow.engine.inspect.run_info import RunInfo


@click.command
@click.option(
    "--status", type=STATUS, multiple=True, metavar="S", help="Only those with one of these statuses: failed,cancelled."
)
@click.option("--name", type=TEXT, metavar="PREFIX", help="Only runs whose name starts with PREFIX.")
@click.option("--workflow", type=TEXT, metavar="W", help="Only runs of this workflow.")
@run_selection.by_metadata()
@click.option("--limit", type=click.IntRange(1, 2**31 - 1), default=50, show_default=True, help="How many at most.")
@click.option("--before", type=TEXT, metavar="RUN", help="Only runs older than this one: the next page.")
@common
def ls(
    session: Session,
    status: tuple[tuple[str, ...], ...],
    name: str | None,
    workflow: str | None,
    meta: tuple[tuple[str, Any], ...],
    limit: int,
    before: str | None,
) -> None:
    """List runs, newest first. With --quiet only their ids."""
    wanted: Any = run_selection.flat(status) or None
    with session.engine_if_any() as engine:
        if engine is None:
            infos = []
        else:
            last = None if before is None else engine.find(before).id
            infos = engine.list_runs(
                status=wanted, name=name, workflow=workflow, metadata=dict(meta), before=last, limit=limit
            )
    columns: dict[str, Callable[[RunInfo], str]] = {
        "id": lambda info: info.id,
        "name": lambda info: info.name or "",
        "workflow": lambda info: info.workflow,
        "status": lambda info: info.status,
        "created": lambda info: as_time(info.created),
        "updated": lambda info: as_time(info.updated),
    }
    session.say_list(infos, run_as_json, "id", columns)
