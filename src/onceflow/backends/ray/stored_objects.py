"""The large values of an engine on Ray: most are in Ray's store, and only known here."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import msgspec

from onceflow.backends.local.messages import Job, RefIn
from onceflow.data.objects import Object, Shelf
from onceflow.data.places import Live, Place


class RayShelf(Shelf):
    """What is in Ray's store takes no memory here, and is not moved to disk by this engine: Ray does so itself."""

    lives_here = False

    def __init__(self) -> None:
        super().__init__()
        self.known: weakref.WeakValueDictionary[int, Object] = weakref.WeakValueDictionary()
        """Number → object that is in Ray's store."""
        self.homes: dict[int, str] = {}
        """Number → the node where it was made."""

    def add_there(self, live: Live, node: str) -> Object:
        """An object that was made on this node."""
        self.homes[live.number] = node
        found = self.known[live.number] = self.add_live(live, 0)
        return found

    def lend(self, object: Object, live: Live) -> None:
        """An object that is here is in Ray's store as well."""
        object.live = live
        self.known[live.number] = object

    def collect_there(self) -> list[int]:
        """The numbers of objects without holders."""
        numbers = [place.number for places in self.collect().values() for place in places if isinstance(place, Live)]
        for number in numbers:
            self.homes.pop(number, None)
        return numbers


def read_by(job: Job) -> list[bytes | Place | Live]:
    """What a job reads."""
    return [*job.inputs, *job.buffers, *[ref.content for ref in job.refs]]


def with_lives(job: Job, found: Mapping[Place, Object]) -> Job:
    """The same with what is in Ray's store."""

    def exchanged(part: bytes | Place | Live) -> bytes | Place | Live:
        if not isinstance(part, Place):
            return part
        live = found[part].live
        assert live is not None
        return live

    return msgspec.structs.replace(
        job,
        inputs=[exchanged(part) for part in job.inputs],
        buffers=[exchanged(part) for part in job.buffers],
        refs=[RefIn(ref.id, exchanged(ref.content), ref.inner, ref.actor) for ref in job.refs],
    )
