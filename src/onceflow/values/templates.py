"""Templates: the arguments of a node of a graph, with numbered slots where outputs of other nodes go.

A template knows no other node: the code that runs it reads `slots`, fetches what they name and asks for the arguments.
That makes it plain data that can be stored and sent.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import msgspec

from onceflow.values import snapshot

Slot = tuple[int, int | None]
"""(which of the node's edges, the part that is read or None for the whole output)."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


class Template(msgspec.Struct, eq=False):
    """The arguments of one node. Either plain (`args` and `kwargs`) or pickled (`payload` of both)."""

    slots: tuple[Slot, ...] = ()
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None
    holes: tuple[tuple[int | str, int], ...] = ()
    """(position or keyword, number of the slot whose value goes there). Where a slot has no hole, the payload has
    placeholders for it."""
    payload: bytes | None = None
    buffers: tuple[pickle.PickleBuffer, ...] = ()
    """Large buffers of the payload. Nodes of one graph that were given the same memory have the same object here."""
    by_ref: tuple[int, ...] = ()
    """The numbers of those slots that get a ref to the value instead of the value."""
    _pickled: bytes | None = None

    def fill(self, values: Sequence[Any], buffers: Sequence[Any] | None = None) -> Arguments:
        """Fresh arguments with `values[n]` in slot n. `buffers` replace the template's own, in their order."""
        args: tuple[Any, ...]
        keywords: dict[str, Any]
        if self.payload is not None:
            args, keywords = snapshot.load(self.payload, values, self.buffers if buffers is None else buffers)
        else:
            args, keywords = self.args, dict(self.kwargs) if self.kwargs else {}
        if not self.holes:
            return args, keywords
        positional = list(args)
        for place, slot in self.holes:
            if isinstance(place, int):
                positional[place] = values[slot]
            else:
                keywords[place] = values[slot]
        return tuple(positional), keywords

    def pickled(self) -> bytes:
        """The pickle of (positional arguments, keyword arguments), as a job carries it and a graph is stored with it.
        What stands in the holes of it means nothing."""
        if self.payload is not None:
            return self.payload
        if self._pickled is None:
            self._pickled = pickle.dumps((self.args, self.kwargs or {}), snapshot.PROTOCOL)
        return self._pickled
