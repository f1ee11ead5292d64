"""Resources that a forked child must not inherit.

A lock taken with `flock` belongs to the open file, which a fork shares: as long as a child holds the descriptor, the
lock outlives its owner, and the owner's death proves nothing. `exec` closes our descriptors (Python opens them so), but
a child that only forks, as `multiprocessing` may do, must close them itself. Closing is enough: the lock stays with the
parent, which still has the file open. (Unlocking in the child would release the parent's lock.)

A connection to a database must not be touched in the child at all, not even to close it.

Only forks made by Python are seen. C code that forks without `exec` keeps the locks until its child ends.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Protocol


class Inherited(Protocol):
    def leave_to_parent(self) -> None:
        """Called in a forked child, while only its one thread runs. Must not take locks."""


_inherited: weakref.WeakSet[Inherited] = weakref.WeakSet()


def watch(thing: Inherited) -> None:
    """From now on, children leave this to their parent."""
    _inherited.add(thing)


def leave_open(*things: object) -> None:
    """In a child: these must not be closed, not even when nothing else refers to them."""
    _left_open.extend(things)


_left_open: list[object] = []


def _in_child() -> None:
    for thing in list(_inherited):
        thing.leave_to_parent()
    _inherited.clear()


os.register_at_fork(after_in_child=_in_child)


class OwnFile:
    """A file that exists as long as this object is open, and that children let go of."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        watch(self)

    def close(self) -> None:
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def leave_to_parent(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
