"""`onceflow send`: an event for a run that waits for it, now or later."""

from __future__ import annotations

import click

from onceflow.cli import exits, run_selection, targets
from onceflow.cli.session import Session, common, only_results_on_stdout
from onceflow.cli.types import TEXT, as_value


@click.command
@run_selection.runs_argument(required=True)
@click.argument("key", type=TEXT)
@click.argument("payload", type=TEXT, required=False)
@click.option("--id", type=TEXT, metavar="ID", help="Under one id an event is there once, however often it is sent.")
@common
def send(session: Session, run: str, key: str, payload: str | None, id: str | None) -> None:
    """Send an event to a run: wait_event(KEY) in its graph takes it, whether it waits already or not yet. PAYLOAD is
    JSON, or else a text; null by default. When this returns, the event is durable, and is taken once.
    """
    targets.look_in_current_folder()
    with only_results_on_stdout(), session.engine_of([run]) as engine:
        info = engine.find(run)
        from onceflow.errors import EventRefused

        try:
            engine.send_event(info.id, key, None if payload is None else as_value(payload), id=id)
        except EventRefused as error:
            raise exits.Refused(str(error)) from error
    if session.json:
        session.say_json({"id": info.id, "name": info.name, "key": key})
