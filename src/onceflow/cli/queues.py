"""`onceflow queue`: how many tasks and runs go on at the same time, and how fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli.common_verbs import Kind, add_verbs
from onceflow.cli.session import Session, as_time, common
from onceflow.cli.types import TEXT
from onceflow.errors import NoSuchQueue
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.queues.management import QueueInfo

NONE = "none"
"""Takes a limit away."""


@click.group
def queue() -> None:
    """See and change queues: how many of their tasks and runs go on at the same time, and how fast, counted over all
    engines. What is changed holds at once, wherever tasks wait; nobody who has a place is stopped.
    """


def _say(session: Session, info: QueueInfo) -> None:
    session.say(f"{one_line(info.name)}: {_limits(info)}; {len(info.places)} going on, {info.waiting} waiting")


def _limits(info: QueueInfo) -> str:
    told = {
        "at a time": info.concurrency,
        "per key": info.per_key,
        "per host": info.per_host,
        "may wait": info.max_pending,
    }
    limits = [f"{limit} {what}" for what, limit in told.items() if limit is not None]
    if info.rate is not None:
        limits.append(info.rate)
    return ("paused, " if info.paused else "") + (", ".join(limits) or "no limits")


def _as_json(info: QueueInfo) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(info)
    return found


QUEUES = Kind(
    word="queue",
    key="name",
    missing=NoSuchQueue,
    list=lambda engine: engine.list_queues(),
    get=lambda engine, name: engine.get_queue(name),
    delete=lambda engine, name: engine.delete_queue(name),
    changes={
        "pause": lambda engine, name: engine.pause_queue(name),
        "resume": lambda engine, name: engine.resume_queue(name),
    },
    making=frozenset({"pause"}),
    columns={
        "queue": lambda info: info.name,
        "limits": _limits,
        "going on": lambda info: str(len(info.places)),
        "waiting": lambda info: str(info.waiting),
    },
    as_json=_as_json,
    say=_say,
)

add_verbs(
    queue,
    QUEUES,
    {
        "list": "List queues: their limits, how many have a place, and how many wait. With --quiet only their names.",
        "pause": "Let nobody into a queue until `resume`. Who has a place keeps it.",
        "resume": "End the pause of a queue.",
        "delete": "Forget the limits of a queue. What names it waits for nothing any more.",
    },
)


@queue.command
@QUEUES.argument
@common
def show(session: Session, name: str) -> None:
    """Show a queue, and who has a place in it."""
    with QUEUES.engine(session, name) as engine:
        info = engine.get_queue(name)
    QUEUES.print(session, info)
    if info.places and not session.json:
        session.say("")
        session.table(
            ["run", "task", "key", "since", "engine"],
            [[place.run, place.task or "", place.key, as_time(place.since), place.engine] for place in info.places],
        )


def _count_option(name: str, help: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", type=TEXT, metavar="N", help=f"{help} `none` takes the limit away.")


@queue.command("set")
@QUEUES.argument
@_count_option("concurrency", "So many at a time.")
@_count_option("per-key", "So many of one key at a time.")
@_count_option("per-host", "So many on one host at a time.")
@click.option("--rate", type=TEXT, metavar="RATE", help="So many in a stretch of time: 10/s, 100/m, 5/10s, or `none`.")
@_count_option("max-pending", "So many runs may wait.")
@common
def set_(session: Session, name: str, **given: str | None) -> None:
    """Change limits of a queue, or make one. Those that are not given stay."""
    limits: Any = {option: _read(option, value) for option, value in given.items() if value is not None}
    with session.engine() as engine:
        info = engine.set_queue(name, **limits)
    QUEUES.print(session, info)


def _read(option: str, value: str) -> int | str | None:
    if value == NONE:
        return None
    if option == "rate":
        return value
    if not value.isdecimal():
        hint = f"--{option.replace('_', '-')}"
        raise click.BadParameter(f"{value!r} is neither a number nor `none`", param_hint=hint)
    return int(value)
