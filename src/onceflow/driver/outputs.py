"""The values of one run: what is in memory, and where the saved parts are.

A value is packed (`values.packed_outputs`): small ones are bytes, large ones are in shared memory. Nothing is unpacked
here: values belong to the user's code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

import msgspec

from onceflow.core.model.refs import RefPart
from onceflow.data.objects import Object
from onceflow.driver.actors import Instance, Version
from onceflow.values.packed_outputs import SMALL
from onceflow.values.refs import LIVE


class Blob(msgspec.Struct, frozen=True, gc=False):
    """A saved value that is not in memory."""

    reference: str


class SavedBlob(msgspec.Struct, frozen=True, gc=False):
    """Where the journal has a part of an output that is too large to stand in it."""

    attempt: int
    part: int
    reference: str


Part = bytes | Object | Blob | Version


class Outputs(msgspec.Struct):
    """The last output of each node, by its attempt."""

    _parts: dict[str, tuple[int, list[Part | None]]] = {}
    """Node → the attempt and its parts; None for a part that is saved, but not in memory."""
    _private: dict[str, Sequence[Part]] = {}
    """Node → what was rebuilt for undos only."""
    described: dict[str, Sequence[RefPart]] = {}
    """Node → the refs in that."""

    def put(self, node: str, attempt: int, parts: Sequence[Part | None]) -> None:
        self._parts[node] = (attempt, list(parts))

    def put_privately(self, node: str, parts: Sequence[Part], refs: Sequence[RefPart] = ()) -> None:
        self._private[node] = parts
        if refs:
            self.described[node] = refs

    def put_part(self, node: str, attempt: int, part: int, value: Part) -> None:
        """A saved part of a run that is loaded."""
        held = self._parts.get(node)
        if held is None or held[0] != attempt:
            held = self._parts[node] = (attempt, [])
        parts = held[1]
        parts.extend([None] * (part + 1 - len(parts)))
        parts[part] = value

    def get(self, node: str, part: int) -> Part | None:
        held = self._parts.get(node)
        return held[1][part] if held is not None and part < len(held[1]) else None

    def get_privately(self, node: str, part: int) -> Part | None:
        parts = self._private.get(node)
        return None if parts is None else parts[part]

    def lose_live(self, forms: Sequence[Part], saved: Callable[[str, int, int], Part | None]) -> list[tuple[str, int]]:
        """What refs of users refer to, in their live forms, is gone. `saved` finds what was saved of a node's part and
        attempt, and takes its place. Returns the parts that cannot be read any more."""
        gone: list[tuple[str, int]] = []
        for node, (attempt, parts) in self._parts.items():
            for number, part in enumerate(parts):
                if isinstance(part, bytes) and part in forms:
                    parts[number] = saved(node, number, attempt)
                    if parts[number] is None:
                        gone.append((node, number))
        return gone + self._lose_privately(lambda part: isinstance(part, bytes) and part in forms)

    def version(self, node: str, attempt: int, part: int, found: Part) -> Version:
        """A version of an actor, which all its readers share from now on."""
        if isinstance(found, Version):
            return found
        version = Version(None, found)
        held = self._parts.get(node)
        if held is None or held[0] == attempt:
            self.put_part(node, attempt, part, version)
        return version

    def lose_actor(self, actor: Instance) -> list[tuple[str, int]]:
        """The actor is dead. Returns the parts that cannot be read any more."""
        gone: list[tuple[str, int]] = []
        for node, parts in [*((node, held[1]) for node, held in self._parts.items()), *self._private.items()]:
            for number, part in enumerate(parts):
                if isinstance(part, Version) and part.instance is actor:
                    part.instance = None
                    if not part.is_there:
                        gone.append((node, number))
        return gone

    def forget(self, node: str, part: int | None) -> list[tuple[str, int]]:
        """Lose what is in memory of this part, or of all, and what others have of it. Returns all that is lost."""
        parts = self._parts.get(node, (0, []))[1]
        gone = [value for number, value in enumerate(parts) if value is not None and part in (None, number)]
        lost: list[tuple[str, int]] = []
        for owner, (_, values) in self._parts.items():
            for number, value in enumerate(values):
                if any(value is one for one in gone):
                    values[number] = None
                    lost.append((owner, number))
        return lost

    def release(self, node: str) -> None:
        self._parts.pop(node, None)

    def release_private(self, node: str) -> None:
        self._private.pop(node, None)
        self.described.pop(node, None)

    def drop(self, node: str, through: int) -> None:
        """Forget what attempts up to this one left."""
        held = self._parts.get(node)
        if held is not None and held[0] <= through:
            del self._parts[node]

    def lose(
        self, objects: Set[Object], saved: Callable[[str, int, int], Blob | None]
    ) -> tuple[list[tuple[str, int]], dict[Object, Blob]]:
        """These objects are gone. `saved` finds what was saved of a node's part and attempt, and takes its place.
        Returns the parts that cannot be read any more, and which blobs took the place of which objects."""
        gone: list[tuple[str, int]] = []
        replaced: dict[Object, Blob] = {}
        for node, (attempt, parts) in self._parts.items():
            for number, part in enumerate(parts):
                if isinstance(part, Version) and isinstance(part.snapshot, Object) and part.snapshot in objects:
                    part.snapshot = saved(node, number, attempt)
                    if part.snapshot is None:  # also if the actor lives: it could not be saved any more
                        parts[number] = None
                        gone.append((node, number))
                elif isinstance(part, Object) and part in objects:
                    blob = parts[number] = saved(node, number, attempt)
                    if blob is None:
                        gone.append((node, number))
                    else:
                        replaced[part] = blob
        gone += self._lose_privately(lambda part: _content(part) in objects)
        return gone, replaced

    def _lose_privately(self, is_gone: Callable[[Part], bool]) -> list[tuple[str, int]]:
        """What was rebuilt for undos is rebuilt again if something of it is gone."""
        lost = {node: parts for node, parts in self._private.items() if any(map(is_gone, parts))}
        for node in lost:
            del self._private[node]
        return [(node, number) for node, parts in lost.items() for number in range(len(parts))]

    def clear(self) -> None:
        self._parts.clear()
        self._private.clear()

    def __contains__(self, node: str) -> bool:
        return node in self._parts


def _content(part: Part) -> Part | None:
    """Its content in memory, besides a live actor."""
    return part.snapshot if isinstance(part, Version) else part


def is_small(part: Part) -> bool:
    """Whether it stands in the journal itself when it is saved."""
    return isinstance(part, bytes) and len(part) <= SMALL


def is_live(part: Part | None) -> bool:
    """Whether it is the live form of a ref of a user's: what that refers to is not in it, and may be lost."""
    return isinstance(part, bytes) and part[:8] == LIVE


def can_be_carried(part: Part) -> bool:
    """Whether a *begun* record may carry it, for an undo at any time."""
    return is_small(part) and not is_live(part)
