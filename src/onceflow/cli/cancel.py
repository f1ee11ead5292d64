"""`onceflow cancel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, receipts, run_selection, targets
from onceflow.cli.run_selection import Selection
from onceflow.cli.session import Session, common, only_results_on_stdout, title
from onceflow.cli.types import AGE
from onceflow.engine.statuses import ENDED
from onceflow.errors import OnceflowError

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo

GOING_ON = ("pending", "running", "waiting", "undoing", "interrupted")


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
    return stop_runs(
        *(session, chosen, "Cancel", "cancelled", yes),
        lambda engine, runs: engine.ask_to_cancel(runs, **options),
        lambda engine, run: engine.cancel(run, **options),
    )


def stop_runs(
    session: Session,
    chosen: Selection,
    verb: str,
    becomes: str,
    yes: bool,
    ask: Callable[[Engine, list[str]], None],
    stop: Callable[[Engine, str], str],
) -> int:
    """Asks all runs at once, then waits for each. `onceflow pause` does the same."""
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
                    told.append(receipts.told_of(info, info.status))
                    continue
                try:
                    status = stop(engine, info.id)
                except OnceflowError as problem:
                    problems.append(problem)
                    told.append(receipts.told_of(info, receipts.status_of(engine, info)))
                else:
                    told.append({**receipts.told_of(info, status), **_left_behind(engine, info, status)})
    receipts.say(session, told)
    return receipts.end_with(problems)


def _left_behind(engine: Engine, info: RunInfo, status: str) -> dict[str, Any]:
    """What a cancelled run has left in the world outside."""
    if status != "cancelled":
        return {}
    left = engine.left_behind(info.id)
    return {"kept": list(left.kept), "uncertain": list(left.uncertain), receipts.NOTES: left.notes}


def _count(infos: list[RunInfo]) -> str:
    return f"run {title(infos[0])}" if len(infos) == 1 else f"{len(infos)} runs"
