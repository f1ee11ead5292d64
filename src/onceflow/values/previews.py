"""A preview of a packed value: plain data of at most so many elements and levels. Nothing is imported or called for it.

What has a class that is not in `_FORMS` is named with its size: `<orders.Order, 1.2 kB, not loaded>`.
"""

from __future__ import annotations

import datetime
import pickle
import struct
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any

from onceflow.values.inert import Made, Name, Reader, check_key
from onceflow.values.packed_outputs import pickled_in
from onceflow.values.texts import as_size

MOST_ELEMENTS = 1000
"""Values in a preview, at all levels together."""

MOST_CHARACTERS = 65_536
"""Of the texts in a preview, together."""

DEEPEST = 20
"""Levels of a preview."""

LONGEST = 10_000
"""Characters of one text in a preview."""

MOST_DIGITS = 1000
"""Of a number in a preview."""

MORE = "…"
"""Stands in a preview for what is left out."""


def shown(packed: bytes) -> Any:
    """The preview of a packed value."""
    try:
        value = Reader(pickled_in(packed)).load()
    except (pickle.UnpicklingError, struct.error, IndexError) as error:
        return f"<{as_size(len(packed))}, not loaded: {error}>"
    if isinstance(value, Made):
        value.size = len(packed)
    return _Preview().of(value)


class _Preview:
    def __init__(self) -> None:
        self._elements = MOST_ELEMENTS
        self._characters = MOST_CHARACTERS

    def of(self, value: Any, depth: int = 0) -> Any:
        self._elements -= 1
        if self._elements < 0:
            return MORE
        match value:
            case None | bool() | float():
                return value
            case int():
                few = value.bit_length() < 3 * MOST_DIGITS
                return value if few else f"<int of {value.bit_length()} bits, not shown>"
            case str():
                return self._text(value)
            case bytes():
                return value if self._has_room(value) else f"<bytes, {as_size(len(value))}, not shown>"
            case Name():
                return self._text(f"<{value!r}>")
            case Made():
                return self._made(value, depth)
            case list() | tuple() | set() | frozenset() | dict() if depth >= DEEPEST:
                return MORE
            case list() | tuple() | set() | frozenset():
                return list(self._some(value, depth))
            case dict():
                return self._pairs(value, depth)
            case _:
                return self._text(f"<{type(value).__name__}, not shown>")

    def _has_room(self, text: str | bytes) -> bool:
        if len(text) > min(LONGEST, self._characters):
            return False
        self._characters -= len(text)
        return True

    def _text(self, text: str) -> str:
        if self._has_room(text):
            return text
        kept = text[: min(LONGEST, self._characters)]
        self._characters -= len(kept)
        return kept + MORE

    def _some(self, values: Any, depth: int) -> Iterator[Any]:
        for value in values:
            if self._elements <= 0:
                yield MORE
                return
            yield self.of(value, depth + 1)

    def _pairs(self, pairs: dict[Any, Any], depth: int) -> dict[Any, Any]:
        kept: dict[Any, Any] = {}
        for key, value in pairs.items():
            if self._elements <= 0:
                kept[MORE] = MORE
                break
            name = self.of(key, depth + 1)
            if type(name) not in (str, int, float, bool, NoneType):
                name = str(name)
            if name in kept:  # shortened, or not loaded: others look alike
                name = f"{name} ({len(kept)})"
            kept[name] = self.of(value, depth + 1)
        return kept

    def _made(self, made: Made, depth: int) -> Any:
        form = _FORMS.get(made.name)
        try:
            found = made if form is None else form(made)
        except (ValueError, TypeError, OverflowError, ArithmeticError, LookupError):
            found = made
        if isinstance(found, str) or found is made:
            return self._text(str(found))
        return self.of(found, depth) if isinstance(found, (list, dict)) else found


def _plain(made: Made, *kinds: type) -> list[Any]:
    """The arguments, if they are of these types. Raises TypeError."""
    if len(made.args) != len(kinds) or any(map(_differs, made.args, kinds)) or made.items or made.state is not None:
        raise TypeError(made.name)
    return list(made.args)


def _differs(value: Any, kind: type) -> bool:
    return type(value) is not kind


def _numbers(made: Made, most: int) -> list[int]:
    """The arguments, if they are at most so many small whole numbers."""
    if len(made.args) > most or any(type(value) is not int or abs(value) >= 1 << 63 for value in made.args):
        raise TypeError(made.name)
    return list(made.args)


def _elements(made: Made) -> list[Any]:
    (first,) = made.args[:1] or ([],)
    if type(first) is not list:
        raise TypeError(made.name)
    return [*first, *made.items]


def _mapping(made: Made) -> dict[Any, Any]:
    given = made.args[-1] if made.args and type(made.args[-1]) is dict else {}
    return {**given, **{check_key(key): value for key, value in zip(made.items[::2], made.items[1::2], strict=True)}}


def _zone(made: Any) -> datetime.timezone:
    if not isinstance(made, Made) or made.name != ("datetime", "timezone"):
        raise TypeError("not a zone that is known")
    (offset, *_) = made.args
    return datetime.timezone(datetime.timedelta(*_numbers(offset, 3)))


def _zone_key(made: Any) -> str:
    """That of a zone of a time zone database, which is made by a method of its class; else empty."""
    match made:
        case Made(maker=Name(qualname="ZoneInfo._unpickle"), args=(str() as key, *_)):
            return key
        case Made(maker=Made(args=(Name(qualname="ZoneInfo"), "_unpickle")), args=(str() as key, *_)):
            return key
    return ""


def _moment(kind: Callable[..., Any], size: int) -> Callable[[Made], Any]:
    """A date or a time. Its pickle has the bytes of its fields; a zone of a time zone database is shown by its key."""

    def moment(made: Made) -> Any:
        fields, *zone = made.args
        if type(fields) is not bytes or len(fields) != size or len(zone) > 1:
            raise TypeError(made.name)
        if zone and (key := _zone_key(zone[0])):
            return f"{kind(fields).isoformat()} ({key[:100]})"
        return kind(fields, *map(_zone, zone))

    return moment


def _decimal(made: Made) -> Any:
    from decimal import Decimal  # slow to import, seldom needed

    (text,) = _plain(made, str)
    if len(text) > MOST_DIGITS:
        raise ValueError(made.name)
    return Decimal(text)


def _fraction(made: Made) -> str:
    return "/".join(str(part)[:MOST_DIGITS] for part in made.args if type(part) in (int, str))


def _uuid(made: Made) -> Any:
    from uuid import UUID  # slow to import, seldom needed

    return UUID(int=made.state["int"] if type(made.state["int"]) is int else -1)


def _path(made: Made) -> str:
    if any(type(part) is not str for part in made.args):
        raise TypeError(made.name)
    return f"{made.name[1]}({'/'.join(made.args).replace('//', '/')!r})"


def _range(made: Made) -> str:
    return f"range({', '.join(map(str, _numbers(made, 3)))})"


_FORMS: dict[tuple[str, str], Callable[[Made], Any]] = {
    ("builtins", "set"): _elements,
    ("builtins", "frozenset"): _elements,
    ("builtins", "range"): _range,
    ("builtins", "complex"): lambda made: str(complex(*_plain(made, float, float))),
    ("collections", "deque"): _elements,
    ("collections", "OrderedDict"): _mapping,
    ("collections", "Counter"): _mapping,
    ("collections", "defaultdict"): _mapping,
    ("datetime", "datetime"): _moment(datetime.datetime, 10),
    ("datetime", "date"): _moment(datetime.date, 4),
    ("datetime", "time"): _moment(datetime.time, 6),
    ("datetime", "timedelta"): lambda made: datetime.timedelta(*_numbers(made, 3)),
    ("decimal", "Decimal"): _decimal,
    ("fractions", "Fraction"): _fraction,
    ("uuid", "UUID"): _uuid,
    **{
        (module, name): _path
        for module in ("pathlib", "pathlib._local")
        for name in ("Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath")
    },
}
"""How values of classes of the standard library are shown, by what their pickles say."""
