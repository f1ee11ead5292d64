"""`onceflow engines`: lists the engines that share the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onceflow.cli import exits
from onceflow.cli.session import Session, as_duration, as_time, common

if TYPE_CHECKING:
    from onceflow.engine.inspect.engines import EngineInfo


@click.command
@common
def engines(session: Session) -> int:
    """List the engines that share the journal, on all hosts, the oldest first: whether they live, how many runs they
    drive, and how many they take. This command itself is not listed.
    """
    found: list[EngineInfo] = []
    with session.engine_if_any() as engine:
        if engine is not None:
            found = [info for info in engine.list_engines() if info.id != engine.id]
    if session.json:
        session.say_json(found)
        return exits.FINE
    rows = [
        [
            info.id,
            "alive" if info.alive else "dead",
            str(info.runs),
            "" if info.capacity is None else str(info.capacity),
            info.host,
            str(info.pid),
            info.home,
            as_time(info.started),
            "" if info.lease is None else as_duration(max(0.0, info.lease)),
        ]
        for info in found
    ]
    session.table(["engine", "state", "runs", "takes", "host", "pid", "home", "started", "lease"], rows)
    return exits.FINE
