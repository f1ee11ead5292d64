"""`onceflow resume` and `onceflow retry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, receipts, run_selection, targets
from onceflow.cli.run import wait
from onceflow.cli.run_selection import Selection
from onceflow.cli.session import Session, as_text, common, only_results_on_stdout, output_option, title

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo

FAILED = ("failed", "undone")


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
        receipts.say(session, told)
    elif not problems and told[0]["result"] is not None:
        click.echo(as_text(told[0]["result"]))
    return receipts.end_with(problems)


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
            told.append({**receipts.told_of(info, receipts.status_of(engine, info)), "result": result, "error": error})
    return told, problems
