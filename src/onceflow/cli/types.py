"""Kinds of arguments: texts, statuses, ages, sizes. Each says what is wrong in one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from onceflow.engine.statuses import STATUSES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
BYTES = {
    "": 1,
    "b": 1,
    **{unit + "b": 1000**power for power, unit in enumerate("kmgt", 1)},
    **{unit + "ib": 1024**power for power, unit in enumerate("kmgt", 1)},
}


class Text(click.ParamType):  # type: ignore[type-arg]  # which older releases of click do not take
    """Any text that can be stored and printed again."""

    name = "text"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!a} is not UTF-8", parameter, context)
        if "\0" in text:
            self.fail(f"{text!a} holds a zero byte", parameter, context)
        return text


class Statuses(click.ParamType):  # type: ignore[type-arg]  # which older releases of click do not take
    """One status, or several with commas between them."""

    name = "status"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        statuses = tuple([word.strip() for word in value.split(",")])
        for status in statuses:
            if status not in STATUSES:
                self.fail(f"{status!r} is not one of {', '.join(STATUSES)}", parameter, context)
        return statuses

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + status) for status in STATUSES if status.startswith(last)]


class Age(click.ParamType):  # type: ignore[type-arg]  # which older releases of click do not take
    """`90s`, `30m`, `12h`, `7d`, `2w`; a number alone is seconds. Gives seconds."""

    name = "age"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)([smhdw]?)", value.strip().lower())
        if found is None:
            self.fail(f"{value!r} is no age: write 90s, 30m, 12h, 7d or 2w", parameter, context)
        return float(found[1]) * SECONDS[found[2] or "s"]


class Size(click.ParamType):  # type: ignore[type-arg]  # which older releases of click do not take
    """`500MB`, `1GiB`; a number alone is bytes. Gives bytes."""

    name = "size"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,12})?) *([a-z]*)", value.strip().lower())
        if found is None or found[2] not in BYTES:
            self.fail(f"{value!r} is no size: write 500MB, 1GB or 1GiB", parameter, context)
        return int(float(found[1]) * BYTES[found[2]])


class Pair(click.ParamType):  # type: ignore[type-arg]  # which older releases of click do not take
    """`NAME=VALUE`, where the value is JSON, or else a text. Gives both."""

    name = "pair"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        key, equals, text = TEXT.convert(value, parameter, context).partition("=")
        if not equals or not key:
            self.fail(f"{value!r} is not NAME=VALUE", parameter, context)
        return key, as_value(text)


def as_value(text: str) -> Any:
    """What JSON says, or else the text."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


TEXT = Text()
PAIR = Pair()
STATUS = Statuses()
AGE = Age()
SIZE = Size()
