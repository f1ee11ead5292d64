"""Large values in Ray's object store, and how they are found.

A packed value is stored apart: the pickle, and each buffer as one that Ray writes to shared memory without another
copy, so that readers build upon that memory. Messages name a value by a number (`Live`). The keeper holds the
references behind the numbers: a value is there as long as the keeper has been notified of it, it is needed, and the
worker that made it lives. Whatever else happens to it, Ray sees to first: it fetches it from another node that has a
copy, and from disk if memory was wanted.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import ray
import ray.exceptions
import ray.util.client

from onceflow.data.places import Live, Missing
from onceflow.values import packed_outputs
from onceflow.values.actors import is_snapshot
from onceflow.values.packed_outputs import Packed
from onceflow.values.refs import is_own

LOST = (
    ray.exceptions.ObjectLostError,
    ray.exceptions.ObjectFetchTimedOutError,
    ray.exceptions.RayActorError,
    ray.exceptions.ReferenceCountingAssertionError,
)
"""The errors that Ray raises when a value, or the keeper, is lost."""


GROUPS = {"tell": 1, "hear": 1}
"""Of the keeper's methods, beside all others: each has a thread of its own."""


class Keeper:
    """A Ray actor: number → reference. It also starts actors, and passes on what they print: what they log from
    `log_level` on, and nothing at all if that is None. If `waits`, an actor waits until Ray finds what it needs; else
    it starts at once, as on one host."""

    def __init__(self, log_level: int | None, waits: bool) -> None:
        self._references: dict[int, Any] = {}
        self._actors: dict[str, Any] = {}
        self._ended: set[str] = set()
        self._log_level = log_level
        self._waits = waits
        self._printed: list[bytes] = []
        self._hushed = False
        self._said = threading.Condition()

    @ray.method(concurrency_group="tell")
    def tell(self, printed: bytes) -> None:
        with self._said:
            self._printed.append(printed)
            self._said.notify()

    @ray.method(concurrency_group="hear")
    def hear(self) -> list[bytes]:
        """What was reported, as soon as there is something."""
        with self._said:
            self._said.wait_for(lambda: self._printed or self._hushed)
            printed, self._printed = self._printed, []
        return printed

    @ray.method(concurrency_group="tell")
    def hush(self) -> None:
        """Answers the waiting listeners with what there is."""
        with self._said:
            self._hushed = True
            self._said.notify()

    def hold(self, number: int, references: list[Any]) -> None:
        self._references[number] = references[0]

    def replace(self, number: int, references: list[Any]) -> None:
        """Another copy takes the place of one that is about to go."""
        if number in self._references:
            self._references[number] = references[0]

    def find(self, numbers: list[int]) -> list[Any]:
        """None for what is not held."""
        return [self._references.get(number) for number in numbers]

    def read(self, number: int) -> bytes | None:
        """A value in one piece, for a process that has no part in Ray's store."""
        try:
            return None if number not in self._references else _whole(ray.get(self._references[number])).joined()
        except LOST:
            return None

    def drop(self, numbers: list[int]) -> None:
        for number in numbers:
            self._references.pop(number, None)

    def raise_actor(
        self, id: str, cpus: float, memory: int, agent: list[Any], path: list[str], environment: dict[str, str]
    ) -> Any:
        """Starts the process of a user's actor. It belongs to the keeper, whichever worker asks for it."""
        from onceflow.backends.ray import actor_process  # it imports this module

        needs: dict[str, Any] = {"num_cpus": cpus if self._waits else 0}
        if memory and self._waits:
            needs["memory"] = memory
        kind: Any = remote(actor_process.Host, actor_process.GROUPS)
        me = ray.get_runtime_context().current_actor
        actor = self._actors[id] = kind.options(**needs).remote(id, me, agent[0], path, environment, self._log_level)
        return actor

    def find_actor(self, id: str) -> Any:
        """None if it is not there yet. Raises `LookupError` if it was."""
        if id in self._ended:
            raise LookupError(id)
        return self._actors.get(id)

    def end_actors(self, ids: list[str]) -> None:
        for id in ids:
            self._ended.add(id)
            actor = self._actors.pop(id, None)
            if actor is not None:
                ray.kill(actor)


def remote(kind: type, groups: dict[str, int]) -> Any:
    """The class as one of Ray's actors, with groups of methods that have threads of their own."""
    return ray.remote(concurrency_groups=groups)(kind)  # type: ignore[call-overload]  # not in its types


class Store:
    """Values of one engine, as one process sees them. From any thread."""

    def __init__(self, keeper: Any) -> None:
        self._keeper = keeper
        self._numbers = itertools.count(int.from_bytes(os.urandom(5), "big") >> 2 << 24)  # unique

    def put(self, packed: Packed) -> Live:
        """Returns when the keeper has it."""
        head = bytes(memoryview(packed.pieces[0])[:8])
        is_ref = is_own(head) or is_snapshot(head)
        return self.hold(ray.put(joined(packed) if is_ref else stored(packed)), packed.size, is_ref=is_ref)

    def put_bytes(self, content: memoryview) -> Live:
        """The same for one that is in one piece."""
        is_ref = is_own(content) or is_snapshot(content)
        return self.hold(ray.put([pickle.PickleBuffer(content)]), content.nbytes, is_ref=is_ref)

    def hold(self, reference: Any, size: int, *, is_ref: bool = False) -> Live:
        """What is behind a reference of Ray's."""
        live = Live(2 * next(self._numbers) + is_ref, size)
        ray.get(self._keeper.hold.remote(live.number, [reference]))
        return live

    def load(self, live: Live, refs: Sequence[Any] = ()) -> Any:
        """The value. Raises `Missing`."""
        return apart(self._get(live), refs)

    def read(self, live: Live) -> Packed:
        """What `put` was given. Raises `Missing`."""
        client: Any = ray.util.client.ray
        if not client.is_connected():
            return _whole(self._get(live))
        content = ray.get(self._keeper.read.remote(live.number))
        if content is None:
            raise Missing(live.number)
        return Packed([content], ())

    def take_over(self, numbers: list[int]) -> None:
        """Copies of these take their places, which belong to this process: Ray lets a value go with its maker."""
        for number, reference in zip(numbers, ray.get(self._keeper.find.remote(numbers)), strict=True):
            if reference is not None:
                with contextlib.suppress(*LOST):
                    copy = ray.put([pickle.PickleBuffer(memoryview(piece)) for piece in ray.get(reference)])
                    ray.get(self._keeper.replace.remote(number, [copy]))

    def drop(self, numbers: list[int]) -> None:
        """These are no longer needed."""
        self._keeper.drop.remote(numbers)

    def raise_actor(
        self, id: str, cpus: float, memory: int, agent: Any, path: list[str], environment: dict[str, str]
    ) -> Any:
        """The handle of a Ray actor that is being started for a user's."""
        return ray.get(self._keeper.raise_actor.remote(id, cpus, memory, [agent], path, environment))

    def find_actor(self, id: str) -> Any:
        """None if the actor is not there yet. Raises `LookupError` if it is dead."""
        return ray.get(self._keeper.find_actor.remote(id))

    def end_actors(self, ids: list[str]) -> None:
        self._keeper.end_actors.remote(ids)

    def _get(self, live: Live) -> list[Any]:
        try:
            (reference,) = ray.get(self._keeper.find.remote([live.number]))
            if reference is None:
                raise Missing(live.number)
            found: list[Any] = ray.get(reference)
        except LOST as error:
            raise Missing(live.number) from error
        return found


def holds_ref(live: Live) -> bool:
    """Whether it is a ref of a user's, or the snapshot of an actor. The number shows it, because its receiver must know
    without fetching it."""
    return live.number % 2 == 1


def stored(packed: Packed) -> list[Any]:
    """A packed value in the form in which it is given to Ray: the pickle, and its buffers."""
    if packed.views:
        return [b"".join(packed.chunks), *[pickle.PickleBuffer(view) for view in packed.views]]
    return joined(packed)


def joined(packed: Packed) -> list[Any]:
    """The same in one piece."""
    return [pickle.PickleBuffer(packed.joined())]


def apart(stored: list[Any], refs: Sequence[Any] = ()) -> Any:
    """The value of what Ray gave back."""
    first, *buffers = stored
    return _packed(first, buffers).unpack(refs) if buffers else packed_outputs.unpack(memoryview(first), refs)


def _whole(stored: list[Any]) -> Packed:
    first, *buffers = stored
    return _packed(first, buffers) if buffers else Packed([memoryview(first)], ())  # type: ignore[list-item]


def _packed(pickled: Any, buffers: Sequence[Any]) -> Packed:
    return Packed([bytes(pickled)], [pickle.PickleBuffer(buffer) for buffer in buffers])
