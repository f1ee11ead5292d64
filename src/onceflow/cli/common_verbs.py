"""The verbs that queues and schedules have in common: `list`, `pause`, `resume`, `delete`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from onceflow.cli.session import Session, common
from onceflow.cli.types import TEXT
from onceflow.errors import OnceflowError
from onceflow.values.texts import one_line

if TYPE_CHECKING:
    from onceflow.engine.engine import Engine

Help = Mapping[str, str]
"""Verb → what `--help` says."""


@dataclass(frozen=True)
class Kind:
    """What is told by its name: queues, or schedules. An `info` is a struct that describes one of them."""

    word: str
    key: str
    """What their names are called, as a field of an info and on the command line."""
    missing: Callable[[str], OnceflowError]
    list: Callable[[Engine], list[Any]]
    get: Callable[[Engine, str], Any]
    delete: Callable[[Engine, str], None]
    changes: Mapping[str, Callable[[Engine, str], Any]]
    """Verb → what it does. Each returns how the thing stands then."""
    making: frozenset[str]
    """Those of them that make what is not there yet, and its home directory."""
    columns: Mapping[str, Callable[[Any], str]]
    as_json: Callable[[Any], dict[str, Any]]
    say: Callable[[Session, Any], None]

    def argument(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        return click.argument("name", type=TEXT, metavar=self.key.upper())(verb)

    @contextlib.contextmanager
    def engine(self, session: Session, name: str, output: Any = None) -> Iterator[Engine]:
        """To look at one of them must not make a home directory."""
        with session.engine_if_any(output) as engine:
            if engine is None:
                raise self.missing(name)
            yield engine

    def print(self, session: Session, info: Any) -> None:
        if session.json:
            session.say_json(self.as_json(info))
        else:
            self.say(session, info)


def add_verbs(group: click.Group, kind: Kind, help: Help) -> None:
    @group.command("list", help=help["list"])
    @common
    def list_(session: Session) -> None:
        with session.engine_if_any() as engine:
            infos = [] if engine is None else kind.list(engine)
        session.say_list(infos, kind.as_json, kind.key, kind.columns)

    for verb in kind.changes:
        _add_change(group, kind, verb, help[verb])

    @group.command(help=help["delete"])
    @kind.argument
    @click.option("-y", "--yes", is_flag=True, help="Do not ask.")
    @common
    def delete(session: Session, name: str, yes: bool) -> None:
        with kind.engine(session, name) as engine:
            kind.get(engine, name)
            session.confirm(f"Delete {kind.word} {one_line(name)}?", yes)
            kind.delete(engine, name)
        if session.json:
            session.say_json({kind.key: name, "deleted": True})
        else:
            session.say(f"{one_line(name)}: deleted")


def _add_change(group: click.Group, kind: Kind, verb: str, help: str) -> None:
    @group.command(verb, help=help)
    @kind.argument
    @common
    def change(session: Session, name: str) -> None:
        with session.engine() if verb in kind.making else kind.engine(session, name) as engine:
            info = kind.changes[verb](engine, name)
        kind.print(session, info)
