"""`onceflow prune`: forgets ended runs by age, count and bytes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, run_selection
from onceflow.cli.delete import delete_runs, left_out
from onceflow.cli.session import Session, as_time, common, run_as_json
from onceflow.cli.types import AGE, SIZE, STATUS
from onceflow.engine.statuses import ENDED
from onceflow.values.texts import as_size

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo
    from onceflow.engine.retention import Condemned
    from onceflow.storage.journal import DamagedRun


@click.command
@click.option("--older-than", type=AGE, metavar="AGE", help="Those that ended before so long: 12h, 30d.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="The newest N stay, whatever else is said.")
@click.option("--max-bytes", type=SIZE, metavar="SIZE", help="The oldest go until all runs together take less: 1GB.")
@click.option("--status", type=STATUS, multiple=True, metavar="S", help="Only those with one of these statuses.")
@run_selection.by_metadata()
@click.option("-n", "--dry-run", is_flag=True, help="Only say which would go.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
def prune(
    session: Session,
    older_than: float | None,
    keep: int | None,
    max_bytes: int | None,
    status: tuple[tuple[str, ...], ...],
    meta: tuple[tuple[str, Any], ...],
    dry_run: bool,
    yes: bool,
) -> int:
    """Forget ended runs by age, count and bytes. At least one of --older-than, --keep and --max-bytes says what may go;
    only runs that have succeeded, failed, were undone or cancelled ever go. Runs whose own rows are damaged stay, are
    named, and make it exit with 5.
    """
    from onceflow.engine import retention
    from onceflow.errors import StorageDamaged

    statuses = run_selection.flat(status)
    strange = [name for name in statuses if name not in ENDED]
    if strange:
        raise exits.Wrong(f"runs that are {strange[0]} have not ended, and are never pruned")
    rules = retention.Rules(older_than, keep, max_bytes, statuses or ENDED, dict(meta))
    if rules.empty:
        raise exits.Wrong("what may go? Give --older-than, --keep or --max-bytes")
    with session.engine_if_any() as engine:
        infos = {} if engine is None else {info.id: info for info in engine.list_runs(limit=None)}
        kept = [
            retention.Kept(
                info.id, info.status, info.updated, _bytes_of(engine, info.id) if engine else 0, info.metadata
            )
            for info in infos.values()
        ]
        damaged = [] if engine is None else engine.damaged_runs()
        problem: Exception | None = None
        going = retention.condemned(kept, rules, time.time())
        if engine is not None and going and not dry_run:
            session.confirm(f"Delete {len(going)} run{'s' * (len(going) != 1)} for good?", yes)
            gone, problem = delete_runs(engine, [infos[one.run.id] for one in going])
            ids = {info.id for info in gone}
            going = [one for one in going if one.run.id in ids]
    _print(session, going, infos, damaged, dry_run)
    if damaged:
        raise left_out(damaged)
    if isinstance(problem, StorageDamaged):
        raise problem
    return exits.FINE


def _bytes_of(engine: Engine, run: str) -> int:
    from onceflow.errors import NoSuchRun

    try:
        return engine.size(run)
    except NoSuchRun:  # somebody else deleted it
        return 0


def _print(
    session: Session, going: list[Condemned], infos: dict[str, RunInfo], damaged: list[DamagedRun], dry_run: bool
) -> None:
    rows: list[dict[str, Any]] = [
        {**run_as_json(infos[one.run.id]), "bytes": one.run.bytes, "reason": one.reason} for one in going
    ]
    total = sum([one.run.bytes for one in going])
    if session.json:
        left_out = [{"id": run.run, "reason": run.reason} for run in damaged]
        session.say_json({"dry_run": dry_run, "runs": rows, "bytes": total, "damaged": left_out})
        return
    if rows:
        columns = ["id", "name", "status", "updated", "bytes", "reason"]
        texts = [{**row, "name": row["name"] or "", "updated": as_time(row["updated"])} for row in rows]
        session.table(columns, [[str(row[column]) for column in columns] for row in texts])
    what = "would go" if dry_run else "deleted"
    session.say(f"{len(rows)} run{'s' * (len(rows) != 1)} {what}, {as_size(total)}")
