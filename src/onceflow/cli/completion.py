"""Completion in the shell: of runs and tasks, and the script that turns it on.

To complete is to look, quickly and without a trace: the journal is opened for reading only, no engine is started, and
whatever goes wrong means that there is nothing to propose.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from onceflow.cli.session import Session, common

if TYPE_CHECKING:
    from onceflow.storage.journal import RunRow

MOST = 50
"""Runs that are proposed."""


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def completion(session: Session, shell: str) -> None:
    """Print the script that completes commands, options, runs and tasks in this shell. To turn it on:

    \b
      bash:  eval "$(onceflow completion bash)"      in ~/.bashrc
      zsh:   eval "$(onceflow completion zsh)"       in ~/.zshrc
      fish:  onceflow completion fish | source       in ~/.config/fish/config.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from onceflow.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None
    script = ShellComplete.source(kind(main, {}, "onceflow", "_ONCEFLOW_COMPLETE"))
    if session.json:
        session.say_json({"shell": shell, "script": script})
    else:
        click.echo(script)


def runs(context: click.Context, incomplete: str) -> list[tuple[str, str]]:
    """Names and ids that begin so, the newest first, each with what is said about it."""
    import sqlite3
    from functools import partial
    from urllib.parse import quote

    from onceflow.errors import OnceflowError
    from onceflow.storage import checksums, schema
    from onceflow.storage.home import JOURNAL
    from onceflow.storage.statements import after_prefix

    try:
        settings = Session(context.params.get("home"), False, True).find_settings()
        if settings.journal is not None:
            return _runs_in_database(settings.journal, incomplete)
        path = settings.home / JOURNAL
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=0.2)) as opened:
            wanted = {
                "prefix": incomplete,
                "name": incomplete,
                "end": after_prefix(incomplete),
                "workflow": None,
                "metadata": None,
                "before": None,
                "limit": MOST,
            }
            check = partial(checksums.check_run, str(path))
            named = [check(row) for row in opened.execute(schema.LIST_RUNS, wanted)]
            by_id = named
            if incomplete:
                by_id = [check(row) for row in opened.execute(schema.STATEMENTS.find_prefix, wanted)]
    except (OnceflowError, OSError, sqlite3.Error, ValueError):
        return []
    return _told(named, by_id, incomplete)


def _runs_in_database(url: str, incomplete: str) -> list[tuple[str, str]]:
    from onceflow.storage.postgres.journal import PostgresJournal

    with contextlib.closing(PostgresJournal(url)) as journal:
        named = journal.list_runs(name=incomplete, limit=MOST)
        by_id = journal.find_prefix(incomplete, MOST) if incomplete else journal.list_runs(limit=MOST)
    return _told(named, by_id, incomplete)


def _told(named: list[RunRow], by_id: list[RunRow], incomplete: str) -> list[tuple[str, str]]:
    found = {row.name: f"{row.workflow}, {row.status}" for row in named if row.name is not None}
    found |= {row.id: f"{row.workflow}, {row.status}" for row in by_id if incomplete or row.name is None}
    return list(found.items())


def tasks(context: click.Context, incomplete: str) -> list[str]:
    """Ids of the tasks of the run that was typed before."""
    from onceflow.cli import targets

    run = context.params.get("run")
    if not run:
        return []
    try:
        targets.look_in_current_folder()
        with Session(context.params.get("home"), False, True).engine_of([run]) as engine:
            listed = engine.list_tasks(engine.find(run).id)
    except Exception:
        return []
    return [task.id for task in listed if task.id.startswith(incomplete)]
