"""`onceflow queue`: how many tasks and runs go on at the same time, and how fast."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli.session import Session, as_time, common
from onceflow.cli.types import TEXT
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine
    from onceflow.engine.queues.management import QueueInfo

NONE = "none"
"""Takes a limit away."""


@click.group
def queue() -> None:
    """See and change queues: how many of their tasks and runs go on at the same time, and how fast, counted over all
    engines. What is changed holds at once, wherever tasks wait; nobody who has a place is stopped.
    """


def _name_argument() -> Callable[[Any], Any]:
    return click.argument("name", type=TEXT, metavar="NAME")


@contextlib.contextmanager
def _engine_of(session: Session, name: str) -> Iterator[Engine]:
    """To look at a queue must not make a home directory."""
    from onceflow.errors import NoSuchQueue

    with session.engine_if_any() as engine:
        if engine is None:
            raise NoSuchQueue(name)
        yield engine


@queue.command("list")
@common
def list_(session: Session) -> None:
    """List queues: their limits, how many have a place, and how many wait. With --quiet only their names."""
    with session.engine_if_any() as engine:
        infos = [] if engine is None else engine.list_queues()
    if session.json:
        session.say_json([_as_json(info) for info in infos])
    elif session.quiet:
        for info in infos:
            click.echo(info.name)
    elif infos:
        session.table(
            ["queue", "limits", "going on", "waiting"],
            [[info.name, _limits(info), str(len(info.places)), str(info.waiting)] for info in infos],
        )


@queue.command
@_name_argument()
@common
def show(session: Session, name: str) -> None:
    """Show a queue, and who has a place in it."""
    with _engine_of(session, name) as engine:
        info = engine.get_queue(name)
    _print(session, info)
    if info.places and not session.json:
        session.say("")
        session.table(
            ["run", "task", "key", "since", "engine"],
            [[place.run, place.task or "", place.key, as_time(place.since), place.engine] for place in info.places],
        )


def _count_option(name: str, help: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", type=TEXT, metavar="N", help=f"{help} `none` takes the limit away.")


@queue.command("set")
@_name_argument()
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
    _print(session, info)


def _read(option: str, value: str) -> int | str | None:
    if value == NONE:
        return None
    if option == "rate":
        return value
    if not value.isdecimal():
        hint = f"--{option.replace('_', '-')}"
        raise click.BadParameter(f"{value!r} is neither a number nor `none`", param_hint=hint)
    return int(value)


@queue.command
@_name_argument()
@common
def pause(session: Session, name: str) -> None:
    """Let nobody into a queue until `resume`. Who has a place keeps it."""
    with session.engine() as engine:
        info = engine.pause_queue(name)
    _print(session, info)


@queue.command
@_name_argument()
@common
def resume(session: Session, name: str) -> None:
    """End the pause of a queue."""
    with _engine_of(session, name) as engine:
        info = engine.resume_queue(name)
    _print(session, info)


@queue.command
@_name_argument()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common
def delete(session: Session, name: str, yes: bool) -> None:
    """Forget the limits of a queue. What names it waits for nothing any more."""
    with _engine_of(session, name) as engine:
        engine.get_queue(name)
        session.confirm(f"Delete queue {one_line(name)}?", yes)
        engine.delete_queue(name)
    if session.json:
        session.say_json({"name": name, "deleted": True})
    else:
        session.say(f"{one_line(name)}: deleted")


def _print(session: Session, info: QueueInfo) -> None:
    if session.json:
        session.say_json(_as_json(info))
    else:
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
