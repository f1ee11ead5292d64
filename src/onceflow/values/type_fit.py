"""Whether a value is of a requested type, or can be converted: plain data of JSON fit dataclasses."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

_CACHE = "__msgspec_cache__"
"""What msgspec leaves in a class it has looked at. Such a class cannot be pickled by value any more."""


def fit(value: object, wanted: Any) -> object:
    """The value as it is wanted. Raises `TypeError`, which says what is wrong, if it does not fit. Whatever is given
    fits a type that allows no such question (a protocol, say)."""
    if wanted is Any:
        return value
    try:
        return value if isinstance(wanted, type) and isinstance(value, wanted) else msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise TypeError(str(error)) from error
    except TypeError:
        return value
    finally:
        for found in _dataclasses_in(wanted, set()):
            if _CACHE in vars(found):
                delattr(found, _CACHE)


def _dataclasses_in(wanted: Any, seen: set[Any]) -> Iterator[type]:
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        if wanted in seen:
            return
        seen.add(wanted)
        yield wanted
        for hint in typing.get_type_hints(wanted).values():
            yield from _dataclasses_in(hint, seen)
    for argument in typing.get_args(wanted):
        yield from _dataclasses_in(argument, seen)
