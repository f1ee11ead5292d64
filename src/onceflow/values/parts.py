"""Outputs in parts: each part is pickled by itself, and the whole is put together where it is read."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any


class Joined:
    """Pickles as the tuple of what the given pickles hold. Unpickling loads them, so nobody but the reader does."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = list(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return load_parts, (self._parts,)


def load_parts(parts: Sequence[bytes]) -> tuple[Any, ...]:
    return tuple([pickle.loads(part) for part in parts])
