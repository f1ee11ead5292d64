"""Handles: what stands inside arguments for a value that exists only while a run goes on.

Serialisation and comparison know handles by this base class alone; what a handle stands for is the business of the
layer that makes it.
"""

from __future__ import annotations


class Handle:
    """Stands for a value to come. Two handles are the same only if they are one object."""

    __slots__ = ()

    def _place(self) -> tuple[int, int]:
        """When it was made, among all handles of this process. Orders handles where the user's container has no order
        of its own (a set): a program that is run again makes them in the same order, whatever the hash seed."""
        raise NotImplementedError
