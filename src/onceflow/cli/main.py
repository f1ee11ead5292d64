"""The root of the command. A verb lives in the file of its group, and imports what it needs when it is called:
`onceflow --help` does not wait for an engine, and imports no verb either.

Whatever happens, the command ends with one of the codes in `exits`, and says what went wrong in one line.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from onceflow.cli import exits
from onceflow.version import VERSION

VERBS = {
    "run": ("run", "Run a workflow or a task, and print its result."),
    "rerun": ("rerun", "Run a run again from a task on, and reuse the rest."),
    "submit": ("submit", "Leave a workflow or a task to an engine that serves."),
    "serve": ("serve", "Drive runs that no engine drives, until stopped."),
    "engines": ("engines", "List the engines that share the journal."),
    "check": ("check", "Say whether a graph is safe, without running it."),
    "ls": ("ls", "List runs, newest first."),
    "show": ("show", "Show a run, its tasks, and what waits for what."),
    "why": ("why", "Say what a run, or a task of it, waits for."),
    "deploy-check": ("deploy_check", "Say which parked fibers the code on disk can resume."),
    "output": ("output", "Print the saved output of a run or a task."),
    "stats": ("stats", "Count runs and bytes, and tell how long tasks took."),
    "logs": ("logs", "Print what tasks printed and logged, and what engines did."),
    "watch": ("watch", "Follow a run, or all that go on, until they end."),
    "resume": ("resume", "Go on with runs that were interrupted, failed or cancelled."),
    "retry": ("resume", "Go on with runs that failed."),
    "send": ("send", "Send an event to a run that waits for it."),
    "set-result": ("set_result", "Give the result of a failed task by hand."),
    "pause": ("pause", "Let runs rest, wherever they are driven."),
    "limit": ("limit", "Say how many chunks of a loop may be in flight."),
    "cancel": ("cancel", "Stop runs, wherever they are driven."),
    "delete": ("delete", "Forget runs, with everything they saved."),
    "prune": ("prune", "Forget ended runs by age, count and bytes."),
    "queue": ("queues", "See and change how many tasks and runs go on at a time."),
    "schedule": ("schedules", "Have workflows run by the clock."),
    "doctor": ("doctor", "Look whether the home directory and this machine are well."),
    "demo": ("demo", "See what it does: two trips, many kills, each effect once."),
    "completion": ("completion", "Print the script that completes commands in a shell."),
}
"""Verb → its file in this folder, and what it does."""


class Verbs(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        import importlib

        file, help = VERBS[name]
        command = getattr(importlib.import_module(f"onceflow.cli.{file}"), name.replace("-", "_"))
        assert isinstance(command, click.Command)
        command.short_help = help
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in VERBS.items()])

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            click.echo("onceflow: interrupted", err=True)
            return exits.INTERRUPTED
        except BrokenPipeError:
            _write_nowhere()
            return exits.FINE

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        sys.exit(self._end(arguments, prog_name or "onceflow", complete_var, extra))

    def _end(self, arguments: list[str], prog_name: str, complete_var: str | None, extra: dict[str, Any]) -> int:
        try:
            code = super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
            return code if isinstance(code, int) else exits.FINE
        except BrokenPipeError:
            _write_nowhere()
            return exits.FINE
        except click.exceptions.Abort:
            click.echo("onceflow: interrupted", err=True)
            return exits.INTERRUPTED
        except Exception as error:
            if "--debug" in arguments:
                import traceback

                traceback.print_exception(error)
            with contextlib.suppress(BrokenPipeError):
                click.echo(f"onceflow: {exits.line_of(error)}", err=True)
            return exits.code_of(error)


def _write_nowhere() -> None:
    """Whoever read our output is gone. Nothing more is to be said, not even when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"onceflow {VERSION}")
        context.exit()


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version, help="Show the version."
)
@click.pass_context
def main(context: click.Context) -> None:
    """Run graphs of ordinary Python functions exactly once."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
