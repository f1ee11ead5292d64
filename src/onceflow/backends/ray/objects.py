"""Large values in a worker of Ray: its outputs go to Ray's object store, its inputs come from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceflow.backends.local.messages import Job
from onceflow.backends.local.objects import Objects
from onceflow.backends.local.refs import JobActors
from onceflow.backends.ray.store import Store, holds_ref
from onceflow.data.places import Live, Place
from onceflow.values.packed_outputs import SMALL, Packed, unpack


class RayObjects(Objects):
    def __init__(self, store: Store, agent: Any) -> None:
        super().__init__()
        self._store = store
        self.agent = agent
        """The agent of this node."""

    def leave(self, packed: Packed) -> bytes | Live:  # type: ignore[override]
        return packed.joined() if packed.size <= SMALL else self._store.put(packed)

    def offer(self, packed: Packed) -> bytes | Live:
        return self.leave(packed)

    def load(self, part: bytes | Place | Live, refs: Sequence[Any] = ()) -> Any:
        if isinstance(part, bytes):
            return unpack(part, refs)
        assert isinstance(part, Live)
        return self._store.load(part, refs)

    def view(self, part: bytes | Place | Live) -> bytes | memoryview:
        if isinstance(part, bytes):
            return part
        assert isinstance(part, Live)
        return memoryview(self._store.read(part).joined())

    def peek(self, part: bytes | Place | Live) -> bytes | memoryview:
        if isinstance(part, Live) and not holds_ref(part):
            return b""  # what it refers to may be far away, and perhaps it is never asked for
        return self.view(part)

    def open_actors(self, job: Job) -> JobActors:
        from onceflow.backends.ray.actors import RayActors  # most workers never need it

        return RayActors(job.task, str(job.context.get("attempt", "")), job.token, self._store, self.agent)

    def _free(self, part: bytes | Place | Live) -> None:
        if isinstance(part, Live):
            self._store.drop([part.number])
