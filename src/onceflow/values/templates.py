"""Templates: the arguments of a node of a graph, with numbered slots where outputs of other nodes go.

A template knows no other node: whoever runs it reads `slots`, fetches what they name and asks for the arguments. That
makes it plain data that can be stored and sent.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from onceflow.values import snapshot

Slot = tuple[int, int | None]
"""(which of the node's edges, the part that is read or None for the whole output)."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


class Template:
    """The arguments of one node. Either plain (`args` and `kwargs` with holes) or pickled (`payload` of both)."""

    __slots__ = ("args", "buffers", "holes", "kwargs", "payload", "slots")

    def __init__(
        self,
        slots: tuple[Slot, ...] = (),
        *,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        holes: tuple[tuple[int | str, int], ...] = (),
        payload: bytes | None = None,
        buffers: tuple[pickle.PickleBuffer, ...] = (),
    ) -> None:
        self.slots = slots
        self.args = args
        self.kwargs = kwargs
        self.holes = holes
        """(position or keyword, number of the slot whose value goes there). Empty if the arguments are pickled."""
        self.payload = payload
        self.buffers = buffers
        """Large buffers of the payload. Nodes of one graph that were given the same memory have the same object
        here."""

    def fill(self, values: Sequence[Any], buffers: Sequence[Any] | None = None) -> Arguments:
        """Fresh arguments with `values[n]` in slot n. `buffers` replace the template's own, in their order."""
        if self.payload is not None:
            args, kwargs = snapshot.load(self.payload, values, self.buffers if buffers is None else buffers)
            return args, kwargs
        positional = list(self.args)
        keywords = dict(self.kwargs) if self.kwargs else {}
        for place, slot in self.holes:
            if isinstance(place, int):
                positional[place] = values[slot]
            else:
                keywords[place] = values[slot]
        return tuple(positional), keywords
