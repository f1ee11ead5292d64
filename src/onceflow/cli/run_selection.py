"""Which runs are meant: by id, by name, by the beginning of either, or by filters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from onceflow.cli import completion
from onceflow.cli.exits import Wrong
from onceflow.cli.types import AGE, PAIR, STATUS, TEXT

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.inspect.run_info import RunInfo


class Selection:
    """What was typed: runs, or filters."""

    def __init__(
        self,
        runs: tuple[str, ...],
        statuses: tuple[tuple[str, ...], ...],
        name: str | None,
        workflow: str | None,
        older_than: float | None,
        meta: tuple[tuple[str, Any], ...],
        every: bool,
    ) -> None:
        self.runs = runs
        self.statuses = flat(statuses)
        self.name = name
        self.workflow = workflow
        self.older_than = older_than
        self.metadata = dict(meta)
        self.filtered = (
            every or bool(statuses) or bool(meta) or any(x is not None for x in (name, workflow, older_than))
        )
        """Whether runs are chosen by what they are, not by who they are."""
        if self.filtered and runs:
            raise Wrong("give either runs or filters, not both")
        if not self.filtered and not runs:
            raise Wrong("which runs? Give ids or names, or filters such as --status failed, or --all")

    def find(self, engine: Engine | None, usual: Sequence[str]) -> list[RunInfo]:
        """The runs, without repetition. `usual` are the statuses that a filter without `--status` means."""
        from onceflow.errors import NoSuchRun

        if engine is None:
            if self.runs:
                raise NoSuchRun(self.runs[0])
            return []
        if self.runs:
            return list({info.id: info for info in [engine.find(run) for run in self.runs]}.values())
        statuses: Any = self.statuses or tuple(usual)
        infos = engine.list_runs(
            status=statuses, name=self.name, workflow=self.workflow, metadata=self.metadata, limit=None
        )
        if self.older_than is not None:
            before = time.time() - self.older_than
            infos = [info for info in infos if info.updated < before]
        return infos[::-1]


def selection(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The parameters of a verb that does something to several runs. It is given a `Selection`."""

    def call(*args: Any, **given: Any) -> Any:
        filters = ("runs", "status", "name", "workflow", "older_than", "meta", "all")
        chosen = Selection(*[given.pop(name) for name in filters])
        return verb(*args, chosen=chosen, **given)

    call.__name__, call.__doc__ = verb.__name__, verb.__doc__
    call.__click_params__ = getattr(verb, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option("--all", is_flag=True, help="All that this can be done to."),
        click.option(
            "--older-than", type=AGE, metavar="AGE", help="Whose status changed last before so long: 12h, 7d."
        ),
        by_metadata(),
        click.option("--workflow", type=TEXT, metavar="W", help="Of this workflow."),
        click.option("--name", type=TEXT, metavar="PREFIX", help="Only runs whose name starts with PREFIX."),
        click.option("--status", type=STATUS, multiple=True, metavar="S", help="With one of these statuses."),
        runs_argument(nargs=-1),
    ):
        call = option(call)
    return call


def runs_argument(*, nargs: int = 1, required: bool = False) -> Callable[[Any], Any]:
    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(run, help=about) for run, about in completion.runs(context, incomplete)]

    name, shown = ("runs", "RUN...") if nargs == -1 else ("run", "RUN")
    return click.argument(name, type=TEXT, nargs=nargs, required=required, metavar=shown, shell_complete=complete)


def by_metadata() -> Callable[[Any], Any]:
    return click.option(
        "--meta",
        type=PAIR,
        multiple=True,
        metavar="NAME=VALUE",
        help="Whose metadata says so. The value is JSON or a text.",
    )


def flat(statuses: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([status for some in statuses for status in some]))


task_argument = click.argument(
    "task",
    type=TEXT,
    required=False,
    metavar="[TASK]",
    shell_complete=lambda context, _, incomplete: list(map(CompletionItem, completion.tasks(context, incomplete))),
)
