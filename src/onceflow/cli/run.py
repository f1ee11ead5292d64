"""`onceflow run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, targets
from onceflow.cli.session import Session, as_text, common, only_results_on_stdout, output_option

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.handles import RunHandle


@click.command
@targets.arguments
@targets.run_options
@output_option()
@common
def run(
    session: Session,
    target: str,
    given: tuple[str, ...],
    input: str | None,
    output: Any,
    **options: Any,
) -> int:
    """Run a workflow or a task, and print its result.

    MODULE is a module that Python finds (the current folder counts), or a file: shop.trips:trip, shop/trips.py:trip.
    What tasks print goes to stderr, and `onceflow logs` shows it again. How the run gets on is shown there, too, if it
    takes longer than a moment. Ctrl-C stops the run and keeps what it has; `onceflow resume` goes on.
    """
    with only_results_on_stdout():
        node = targets.bind(target, given, input)
        with session.engine(output) as engine:
            handle = engine.run_async(node, **options)
            result = wait_shown(session, engine, handle)
    print_result(session, handle, result)
    return exits.FINE


def wait_shown(session: Session, engine: Engine, handle: RunHandle[Any]) -> Any:
    """The result. Shows meanwhile how the run gets on."""
    with session.shown(engine, [handle.id]):
        return wait(session, handle)


def wait(session: Session, handle: RunHandle[Any]) -> Any:
    """The result. Ctrl-C means what it means for `onceflow.run`."""
    try:
        handle.wait()
    except KeyboardInterrupt:
        name = handle.name or handle.id
        if handle.done():
            session.note(f"run {name} is stopped; onceflow resume {name} goes on")
        else:
            session.note(
                f"run {name} is driven by another process, and was not stopped: onceflow cancel {name} does so"
            )
        raise
    return handle.result()


def print_result(session: Session, handle: RunHandle[Any], result: Any) -> None:
    if session.json:
        session.say_json({"id": handle.id, "name": handle.name, "status": "succeeded", "result": result})
    elif result is not None:
        click.echo(as_text(result))
