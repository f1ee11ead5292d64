"""What became of the runs that a command was given: as lines, as JSON, and as an exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits
from onceflow.cli.session import Session
from onceflow.errors import NoSuchRun
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo

NOTES = "notes"


def told_of(info: RunInfo, status: str) -> dict[str, Any]:
    return {"id": info.id, "name": info.name, "status": status}


def status_of(engine: Engine, info: RunInfo) -> str:
    try:
        return engine.status(info.id)
    except NoSuchRun:
        return "deleted"


def end_with(problems: list[Exception]) -> int:
    if len(problems) == 1:
        raise problems[0]
    for problem in problems:
        click.echo(f"onceflow: {exits.line_of(problem)}", err=True)
    return max(map(exits.code_of, problems), default=exits.FINE)


def say(session: Session, told: list[dict[str, Any]]) -> None:
    notes = [one.pop(NOTES, []) for one in told]
    if session.json:
        session.say_json(told)
        return
    for one, lines in zip(told, notes, strict=True):
        session.say(f"{one_line(one['name'] or one['id'])}: {one['status']}")
        for line in lines:
            session.say(f"  {one_line(line)}")
    if not told:
        session.note("there is no such run, so nothing was done")
