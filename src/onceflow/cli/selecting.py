"""Which runs are meant: by id, by name, by the beginning of either, or by filters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from onceflow.cli import completing
from onceflow.cli.exits import Unknown, Wrong
from onceflow.cli.kinds import AGE, STATUS, TEXT

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine, RunInfo

MOST_SHOWN = 5
"""Runs that are named when a text could mean several."""

ALL = 2**31 - 1


class Selection:
    """What was typed: runs, or filters."""

    def __init__(
        self,
        runs: tuple[str, ...],
        statuses: tuple[tuple[str, ...], ...],
        name: str | None,
        workflow: str | None,
        older_than: float | None,
        every: bool,
    ) -> None:
        self.runs = runs
        self.statuses = flat(statuses)
        self.name = name
        self.workflow = workflow
        self.older_than = older_than
        self.filtered = every or bool(statuses) or any(x is not None for x in (name, workflow, older_than))
        """Whether runs are chosen by what they are, not by who they are."""
        if self.filtered and runs:
            raise Wrong("give either runs or filters, not both")
        if not self.filtered and not runs:
            raise Wrong("which runs? Give ids or names, or filters such as --status failed, or --all")

    def find(self, engine: Engine | None, usual: Sequence[str]) -> list[RunInfo]:
        """The runs, without repetition. `usual` are the statuses that a filter without `--status` means."""
        if engine is None:
            if self.runs:
                raise Unknown(f"there is no run {self.runs[0]!r}")
            return []
        if self.runs:
            return list({info.id: info for info in [find(engine, run) for run in self.runs]}.values())
        statuses: Any = self.statuses or tuple(usual)
        infos = engine.list_runs(status=statuses, name=self.name, workflow=self.workflow, limit=ALL)
        if self.older_than is not None:
            before = time.time() - self.older_than
            infos = [info for info in infos if info.updated < before]
        return infos[::-1]


def selection(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The parameters of a verb that does something to several runs. It is given a `Selection`."""

    def call(*args: Any, **given: Any) -> Any:
        chosen = Selection(*[given.pop(name) for name in ("runs", "status", "name", "workflow", "older_than", "all")])
        return verb(*args, chosen=chosen, **given)

    call.__name__, call.__doc__ = verb.__name__, verb.__doc__
    call.__click_params__ = getattr(verb, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--all", is_flag=True, help="All that this can be done to."),
        click.option(
            "--older-than", type=AGE, metavar="AGE", help="Whose status changed last before so long: 12h, 7d."
        ),
        click.option("--workflow", type=TEXT, metavar="W", help="Of this workflow."),
        click.option("--name", type=TEXT, metavar="PREFIX", help="Whose name begins so."),
        click.option("--status", type=STATUS, multiple=True, metavar="S", help="With one of these statuses."),
        runs_argument(nargs=-1),
    ):
        call = option(call)
    return call


def runs_argument(*, nargs: int = 1, required: bool = False) -> Callable[[Any], Any]:
    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(run, help=about) for run, about in completing.runs(context, incomplete)]

    name, shown = ("runs", "RUN...") if nargs == -1 else ("run", "RUN")
    return click.argument(name, type=TEXT, nargs=nargs, required=required, metavar=shown, shell_complete=complete)


def flat(statuses: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([status for some in statuses for status in some]))


def find(engine: Engine, run: str) -> RunInfo:
    """By id or name, or by the beginning of either if that can only mean one. Raises `Unknown`."""
    from onceflow.engine.engine import RunInfo

    journal = engine._home.journal
    row = journal.get_run(run) or journal.find_name(run)
    if row is None:
        if not run:
            raise Unknown("there is no run ''")
        rows = [*journal.find_prefix(run, MOST_SHOWN + 1), *journal.list_runs(name=run, limit=MOST_SHOWN + 1)]
        found = list({row.id: row for row in rows}.values())
        if not found:
            raise Unknown(f"there is no run {run!r}")
        if len(found) > 1:
            names = [row.name if row.name is not None and row.name.startswith(run) else row.id for row in found]
            more = ", …" if len(names) > MOST_SHOWN else ""
            raise Unknown(f"{run!r} could be {', '.join(names[:MOST_SHOWN])}{more}")
        row = found[0]
    return RunInfo(row.id, row.name, row.workflow, engine.status(row.id), row.created, row.updated)
