"""`onceflow resume`, `onceflow retry`, `onceflow pause` and `onceflow cancel`: what is done to runs, one or many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, run_selection, targets
from onceflow.cli.run import wait
from onceflow.cli.run_selection import Selection
from onceflow.cli.session import Session, as_text, common, only_results_on_stdout, output_option, title
from onceflow.cli.types import AGE
from onceflow.engine.statuses import ENDED
from onceflow.errors import NoSuchRun, OnceflowError
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo

FAILED = ("failed", "undone")
NOTES = "notes"
GOING_ON = ("pending", "running", "waiting", "undoing", "interrupted")


@click.command
@run_selection.selection
@output_option()
@common
def resume(session: Session, chosen: Selection, output: Any) -> int:
    """Go on with runs that were interrupted, have failed, were cancelled or undone, or are paused, and wait for them.
    One that has succeeded is not run again, and one that goes on elsewhere is waited for. With --all, or filters but no
    --status, those that were interrupted. The result of a single run is printed.
    """
    return _go_on(session, chosen, output, ("interrupted",), only=None)


@click.command
@run_selection.selection
@output_option()
@common
def retry(session: Session, chosen: Selection, output: Any) -> int:
    """Go on with runs that have failed: remove the cause first. What is saved is not done again; an undone run starts
    afresh. Any other run is refused. With --all, or filters, all failed and undone ones.
    """
    return _go_on(session, chosen, output, FAILED, only=FAILED)


@click.command
@run_selection.selection
@click.option("--undo", is_flag=True, help="Take back what its undoable tasks have done.")
@click.option(
    "--grace",
    type=AGE,
    metavar="AGE",
    help="How long irrevocable tasks that have begun may take to finish: 2s, 1m.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
def cancel(session: Session, chosen: Selection, undo: bool, grace: float | None, yes: bool) -> int:
    """Stop runs, wherever they are driven, and wait until nothing of them runs any more. With --all, or filters, all
    that go on or were interrupted. A run that has ended otherwise is refused.
    """
    options: dict[str, Any] = {"undo": undo} if grace is None else {"undo": undo, "grace": grace}
    return _stop(
        *(session, chosen, "Cancel", "cancelled", yes),
        lambda engine, runs: engine.ask_to_cancel(runs, **options),
        lambda engine, run: engine.cancel(run, **options),
    )


@click.command
@run_selection.selection
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
def pause(session: Session, chosen: Selection, yes: bool) -> int:
    """Let runs rest, wherever they are driven: nothing more of them starts. Waits until what was running has ended and
    is saved; resume goes on. With --all, or filters, all that go on or were interrupted. A run that has ended is
    refused.
    """
    return _stop(
        *(session, chosen, "Pause", "paused", yes),
        lambda engine, runs: engine.ask_to_pause(runs),
        lambda engine, run: engine.pause(run),
    )


def _stop(
    session: Session,
    chosen: Selection,
    verb: str,
    becomes: str,
    yes: bool,
    ask: Callable[[Engine, list[str]], None],
    stop: Callable[[Engine, str], str],
) -> int:
    """All are asked at once; then each is waited for."""
    targets.look_in_current_folder()
    told: list[dict[str, Any]] = []
    problems: list[Exception] = []
    with only_results_on_stdout(), session.engine_if_any() as engine:
        infos = chosen.find(engine, GOING_ON)
        if engine is not None and infos:
            if chosen.filtered:
                session.confirm(f"{verb} {_count(infos)}?", yes)
            ended = {info.id for info in infos if info.status in ENDED and info.status != becomes}
            ask(engine, [info.id for info in infos if info.id not in ended])
            for info in infos:
                if info.id in ended:
                    problems.append(exits.Refused(f"run {title(info)} has ended already: it is {info.status}"))
                    told.append(_told(info, info.status))
                    continue
                try:
                    status = stop(engine, info.id)
                except OnceflowError as problem:
                    problems.append(problem)
                    told.append(_told(info, _status(engine, info)))
                else:
                    told.append({**_told(info, status), **_left_behind(engine, info, status)})
    _print(session, told)
    return _end_with(problems)


def _go_on(
    session: Session, chosen: Selection, output: Any, usual: tuple[str, ...], *, only: tuple[str, ...] | None
) -> int:
    targets.look_in_current_folder()
    told: list[dict[str, Any]] = []
    problems: list[Exception] = []
    with only_results_on_stdout(), session.engine_if_any(output) as engine:
        infos = chosen.find(engine, usual)
        for info in infos:
            if only is not None and info.status not in only:
                raise exits.Refused(f"run {title(info)} is {info.status}, not {' or '.join(only)}")
        if engine is not None:
            told, problems = _resume(session, engine, infos)
    if session.json or len(told) != 1 or chosen.filtered:
        _print(session, told)
    elif not problems and told[0]["result"] is not None:
        click.echo(as_text(told[0]["result"]))
    return _end_with(problems)


def _end_with(problems: list[Exception]) -> int:
    if len(problems) == 1:
        raise problems[0]
    for problem in problems:
        click.echo(f"onceflow: {exits.line_of(problem)}", err=True)
    return max(map(exits.code_of, problems), default=exits.FINE)


def _resume(session: Session, engine: Engine, infos: list[RunInfo]) -> tuple[list[dict[str, Any]], list[Exception]]:
    """All at once; then each is waited for."""
    told, problems = [], []
    handles = [engine.resume_async(info.id) for info in infos]
    with session.shown(engine, [info.id for info in infos]):
        for info, handle in zip(infos, handles, strict=True):
            result = error = None
            try:
                result = wait(session, handle)
            except Exception as problem:
                problems.append(problem)
                error = exits.line_of(problem)
            told.append({**_told(info, _status(engine, info)), "result": result, "error": error})
    return told, problems


def _status(engine: Engine, info: RunInfo) -> str:
    try:
        return engine.status(info.id)
    except NoSuchRun:
        return "deleted"


def _told(info: RunInfo, status: str) -> dict[str, Any]:
    return {"id": info.id, "name": info.name, "status": status}


def _left_behind(engine: Engine, info: RunInfo, status: str) -> dict[str, Any]:
    """What a cancelled run has left in the world outside."""
    if status != "cancelled":
        return {}
    left = engine.left_behind(info.id)
    return {"kept": list(left.kept), "uncertain": list(left.uncertain), NOTES: left.notes}


def _count(infos: list[RunInfo]) -> str:
    return f"run {title(infos[0])}" if len(infos) == 1 else f"{len(infos)} runs"


def _print(session: Session, told: list[dict[str, Any]]) -> None:
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
