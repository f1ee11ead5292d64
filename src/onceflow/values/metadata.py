"""Metadata: tags and notes of users on runs and tasks. Nothing else depends on it, and it does not count when two runs
are compared.

It is kept as JSON, so it holds what JSON has and no more: texts, numbers, True and False, None, lists, and dictionaries
whose keys are texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from onceflow.errors import InvalidOption
from onceflow.values import secret_masks

MOST_BYTES = 16 * 1024
"""Of what is kept for one run, or one task. Metadata is read whenever runs are listed."""


def encode(given: Any, owner: str = "metadata", *, kind: str = "setting") -> str | None:
    """The JSON of it, always the same for what is equal; None if there is nothing in it. Raises `InvalidOption`."""
    if not isinstance(given, Mapping):
        raise InvalidOption(owner, f"metadata is a dictionary, not {given!r}", kind=kind)
    if not given:
        return None
    try:
        text = msgspec.json.encode(_plain(given, "metadata"), order="sorted").decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidOption(owner, f"{error}", kind=kind) from None
    check_size(text, owner, kind=kind)
    return text


def check_size(text: str, owner: str = "metadata", *, kind: str = "setting") -> None:
    if len(text) > MOST_BYTES:
        problem = f"its metadata takes {len(text)} bytes, and {MOST_BYTES} are the most"
        raise InvalidOption(owner, f"{problem}; what is larger belongs into outputs or files", kind=kind)


def decode(text: str | None) -> dict[str, Any]:
    return msgspec.json.decode(text) if text else {}


def merge(text: str | None, more: str | None) -> str | None:
    """Both; what stands in both is taken from `more`."""
    if not text or not more:
        return more or text
    return msgspec.json.encode(decode(text) | decode(more), order="sorted").decode()


def fits(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all that is wanted is there."""
    return all(key in found and _is_same(found[key], value) for key, value in wanted.items())


def _is_same(one: Any, other: Any) -> bool:
    """As JSON sees it: `true` is not 1, whatever Python says."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and fits(one, other)
    return bool(one == other)


def _plain(value: Any, path: str) -> Any:
    """The same in types of JSON. Raises `TypeError`, which says where something else stands."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return secret_masks.mask(value)
    if kind is int and -(2**63) <= value < 2**63:
        return value
    if kind is float and math.isfinite(value):
        return value
    if kind is list or kind is tuple:
        return [_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise TypeError(f"a key of {path} is {key!r}, and keys are texts")
        return {key: _plain(item, f"{path}[{key!r}]") for key, item in value.items()}
    shown = repr(value) if kind is float or kind is int else f"of type {kind.__qualname__}"
    raise TypeError(f"{path} is {shown}, which is not kept as metadata")
