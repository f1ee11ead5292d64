"""Continuations: a paused fiber as arguments of the segment that follows.

The snapshot has everything in it except what has to be seen from outside: refs, which are counted and saved by their
holders. (Nodes need not be: see `recipes`.) The source texts of its functions go along, so that a fiber can finish in
the code in which it began, whatever is on disk by then.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from onceflow.authoring.fibers import definitions, description
from onceflow.authoring.fibers.durable_coroutine import Fiber
from onceflow.authoring.fibers.pickling import Aside
from onceflow.authoring.fibers.points import Version
from onceflow.errors import BadSnapshot
from onceflow.values import secret_masks
from onceflow.values.refs import Ref

LONGEST_SOURCES = 64 * 1024 * 1024
"""Bytes. A few that are compressed could become any number."""


def _masked(value: str | bytes) -> str | bytes:
    return secret_masks.mask(value) if isinstance(value, str) else secret_masks.mask_bytes(value)


description.mask = _masked


class Continuation(msgspec.Struct, frozen=True, gc=False):
    """Where a fiber stands, as plain data."""

    snapshot: bytes
    """For `Fiber.loads`, and for `describe_snapshot` and `header_of`."""
    sources: bytes
    """The versions of all functions in it. `versions` reads them."""

    @property
    def versions(self) -> list[Version]:
        """Of the functions in it, as they were. Raises `BadSnapshot`."""
        try:
            machine = zlib.decompressobj()
            plain = machine.decompress(self.sources, LONGEST_SOURCES)
            if not machine.eof:
                raise ValueError(f"they are not whole, or longer than {LONGEST_SOURCES:,} bytes")
            return [Version.from_plain(each) for each in json.loads(plain)]
        except (zlib.error, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            problem = f"the sources of its functions cannot be read: {type(error).__name__}: {error}"
            raise BadSnapshot(problem) from error


def of_fiber(fiber: Fiber) -> tuple[Continuation, list[Any]]:
    """Where it stands, and the refs in it. Raises `NotPersistable`."""
    aside = Aside(Ref)
    snapshot = fiber.dumps(aside=aside)
    return Continuation(snapshot, _sources(tuple(aside.versions.values()))), aside.handles


def to_fiber(continuation: Continuation, refs: Sequence[Any]) -> Fiber:
    """A fiber that stands there. One that has not begun runs to its first op. Raises `CodeChanged` or `BadSnapshot`."""
    if continuation.sources not in _registered:
        for version in continuation.versions:
            definitions.register(version)
        _registered.add(continuation.sources)
    return Fiber.loads(continuation.snapshot, handles=refs)


_registered: set[bytes] = set()
"""Sources that this process has read. There are as many as combinations of functions."""

_packed: dict[tuple[int, ...], tuple[tuple[Version, ...], bytes]] = {}
"""Addresses of versions → these, and their sources."""


def _sources(versions: tuple[Version, ...]) -> bytes:
    key = tuple(map(id, versions))
    found = _packed.get(key)
    if found is None:
        plain = json.dumps([version.as_plain() for version in versions])
        found = _packed[key] = versions, zlib.compress(plain.encode())
    return found[1]
