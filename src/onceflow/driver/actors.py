"""Actors in outputs (design 2.7): what a driver knows of a version of one.

A version is a live actor, a snapshot of it, or both. A task that takes it for itself gets the live actor, and leaves
the snapshot, if any. As with other objects, an actor lives as long as something in this process refers to it: the
output that it is a part of, an attempt that reads it.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from onceflow.data.objects import Object
    from onceflow.driver.outputs import Blob

Use = Literal["share", "take", "copy"]
"""How an attempt uses an actor that it is given. `copy`: the copy is for an undo, and other attempts are unaffected."""


class Instance:
    """A live actor. `end` is called, from any thread, when it is no longer needed."""

    __slots__ = ("__weakref__", "_end", "dead", "id", "idle", "used", "version")

    def __init__(self, id: str, idle: float, end: Callable[[str], None]) -> None:
        self.id = id
        """Where it is found."""
        self.idle = idle
        """Seconds for which it may stand idle if it is saved."""
        self.used = time.monotonic()
        """When an attempt that uses it last began or ended."""
        self.dead = False
        self.version: weakref.ref[Version] | None = None
        """The version that it is now."""
        self._end = end

    def __del__(self) -> None:
        self._end(self.id)


class Version:
    """One version of an actor: live, as a snapshot, or both, as long as it can be read."""

    __slots__ = ("__weakref__", "instance", "snapshot")

    def __init__(self, instance: Instance | None, snapshot: bytes | Object | Blob | None) -> None:
        self.instance = instance
        self.snapshot = snapshot
        if instance is not None:
            instance.version = weakref.ref(self)

    @property
    def is_there(self) -> bool:
        return self.instance is not None or self.snapshot is not None

    def use(self, how: Use) -> Version:
        """The actor or snapshot for an attempt. A live actor that is taken is no longer part of this version."""
        if how == "share":
            return self
        given = Version(self.instance, self.snapshot)
        if how == "take":
            self.instance = None
        elif self.snapshot is not None:
            given.instance = None  # a copy of its own
        return given
