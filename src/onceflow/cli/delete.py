"""`onceflow delete` and `onceflow prune`: forgetting runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, run_selection
from onceflow.cli.run_selection import Selection
from onceflow.cli.session import Session, as_time, common, run_as_json, title
from onceflow.cli.types import AGE, SIZE, STATUS
from onceflow.engine.statuses import ENDED
from onceflow.values.texts import as_size

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo
    from onceflow.engine.retention import Condemned
    from onceflow.storage.journal import DamagedRun


@click.command
@run_selection.selection
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
def delete(session: Session, chosen: Selection, yes: bool) -> int:
    """Forget runs, with everything they saved. Their names are free again: whoever runs something under one of them
    does it once more. One that goes on is refused. With filters, those that have ended, unless --status says otherwise;
    runs whose own rows are damaged fit no filter, are named, and make it exit with 5.
    """
    gone: list[RunInfo] = []
    problem: Exception | None = None
    damaged: list[DamagedRun] = []
    with session.engine_if_any() as engine:
        infos = chosen.find(engine, sorted(ENDED))
        if engine is not None and infos:
            if chosen.filtered:
                session.confirm(f"Delete {len(infos)} run{'s' * (len(infos) != 1)} for good?", yes)
            gone, problem = _delete(engine, infos)
        if engine is not None and chosen.filtered:
            damaged = engine.damaged_runs()
    if session.json:
        session.say_json([run_as_json(info) for info in gone])
    elif not infos and not damaged:
        session.note("there is no such run, so nothing was deleted")
    else:
        for info in gone:
            session.say(f"{title(info)}: deleted")
    if damaged:
        raise _left_out(damaged)
    if problem is not None:
        raise problem
    return exits.FINE


def _delete(engine: Engine, infos: list[RunInfo]) -> tuple[list[RunInfo], Exception | None]:
    """Those that are gone, and what kept the first of the others, damage before all. One that another command deletes
    meanwhile is gone."""
    from onceflow.errors import NoSuchRun, RunActive, StorageDamaged

    gone = []
    problem: Exception | None = None
    for info in infos:
        try:
            engine.delete(info.id)
        except NoSuchRun:
            pass
        except RunActive as active:
            problem = problem or active
            continue
        except StorageDamaged as damage:
            problem = problem if isinstance(problem, StorageDamaged) else damage
            continue
        gone.append(info)
    return gone, problem


def _left_out(damaged: list[DamagedRun]) -> exits.Trouble:
    named = ", ".join([run.reason for run in damaged])
    runs = f"{len(damaged)} run{'s' * (len(damaged) != 1)}"
    return exits.Trouble(f"{runs} left out: {named}; `onceflow doctor --forget-damaged` forgets what is damaged")


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
            gone, problem = _delete(engine, [infos[one.run.id] for one in going])
            ids = {info.id for info in gone}
            going = [one for one in going if one.run.id in ids]
    _print(session, going, infos, damaged, dry_run)
    if damaged:
        raise _left_out(damaged)
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
