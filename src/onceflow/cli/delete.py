"""`onceflow delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onceflow.cli import exits, run_selection
from onceflow.cli.run_selection import Selection
from onceflow.cli.session import Session, common, run_as_json, title
from onceflow.engine.statuses import ENDED

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo
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
            gone, problem = delete_runs(engine, infos)
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
        raise left_out(damaged)
    if problem is not None:
        raise problem
    return exits.FINE


def delete_runs(engine: Engine, infos: list[RunInfo]) -> tuple[list[RunInfo], Exception | None]:
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


def left_out(damaged: list[DamagedRun]) -> exits.Trouble:
    named = ", ".join([run.reason for run in damaged])
    runs = f"{len(damaged)} run{'s' * (len(damaged) != 1)}"
    return exits.Trouble(f"{runs} left out: {named}; `onceflow doctor --forget-damaged` forgets what is damaged")
