"""The actors of an engine that live on Ray: who needs them, and since when nobody does.

The keeper starts them and owns them, so they outlive the worker that wanted them. The engine is told of each before it
is started, watches it, and has the keeper end it when nobody needs it.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onceflow.driver.actors import Instance, Version
from onceflow.values.actors import IDLE, ActorOptions

if TYPE_CHECKING:
    from onceflow.backends.ray.pool import RayPool
    from onceflow.backends.ray.store import Store
    from onceflow.data.places import Live, Place

OFTEN = 1.0
"""Seconds between two looks at whether an actor stands idle."""


class RayInstances:
    """Belongs to one thread. `died` is told of actors that live no more although somebody needs them."""

    def __init__(self, pool: RayPool, died: Callable[[Instance], None]) -> None:
        self._pool = pool
        self._died = died
        self._alive: weakref.WeakValueDictionary[str, Instance] = weakref.WeakValueDictionary()
        self._watched: set[str] = set()
        """Those whose end will be noticed."""
        self._let_go: deque[str] = deque()
        """Those that nobody needs any more."""
        self._made: dict[int, list[Instance]] = {}
        """Job → actors that it has made and not returned yet."""
        self._used: dict[int, list[Instance]] = {}
        """Job → actors that it uses."""
        self._looked = 0.0
        self.restored = 0
        """How many were restored so far."""
        pool.made_actor = self._make

    def __len__(self) -> int:
        return len(self._alive)

    def _make(self, token: int, name: str, idle: float) -> None:
        """A job is about to make one. It belongs to the job until that has ended."""
        if self._pool.has(token):
            self._made.setdefault(token, []).append(self._know(name, idle))
        else:
            self._let_go.append(name)

    def _know(self, name: str, idle: float) -> Instance:
        found = self._alive[name] = Instance(name, idle, self._let_go.append)
        return found

    def use(
        self, token: int, version: Version, content: Callable[[], tuple[bytes | Place | Live, ActorOptions, object]]
    ) -> Instance:
        """As in `local.actors.instances.Instances`."""
        instance = version.instance
        if instance is None or instance.dead:
            name = os.urandom(12).hex()
            snapshot, options, held = content()
            instance = self._know(name, options.idle)
            self._restore(name, snapshot, options, held)
            self.restored += 1
            version.instance = instance
            instance.version = weakref.ref(version)
        instance.used = time.monotonic()
        self._used.setdefault(token, []).append(instance)
        return instance

    def _restore(self, name: str, snapshot: bytes | Place | Live, options: ActorOptions, held: object) -> None:
        def restore(store: Store, content: bytes | Live, held: object) -> None:
            agent = self._pool.any_agent()
            environment = dict(self._pool.environment)
            actor = store.raise_actor(name, options.cpus, options.memory, agent, list(sys.path), environment)
            self._pool.post(lambda: self._watch(name))

            def restored(future: Any, held: object = held) -> None:
                """What it is restored from has been held until now."""
                if future.exception() is None and future.result() is None and not isinstance(content, bytes):
                    self._pool.post(lambda: self._pool.miss([content.number]))
                    self._pool.post(lambda: self._ended(name))

            actor.restore.remote(content).future().add_done_callback(restored)

        self._pool.bring(snapshot, held, restore)

    def returned(self, name: str) -> Instance:
        """The actor that a job has returned. It may be dead."""
        found = self._alive.get(name)
        if found is None:
            found = self._know(name, IDLE)
        self._watch(name)
        return found

    def _watch(self, name: str) -> None:
        if name not in self._watched:
            self._watched.add(name)
            self._pool.watch(name, lambda: self._ended(name))

    def _ended(self, name: str) -> None:
        self._watched.discard(name)
        instance = self._alive.pop(name, None)
        if instance is not None and not instance.dead:
            instance.dead = True
            self._died(instance)

    def job_ended(self, token: int) -> None:
        """What it has made and not returned, and what it had for itself, nobody needs any more."""
        if self._made:
            self._made.pop(token, None)
        if self._used:
            for instance in self._used.pop(token, ()):
                instance.used = time.monotonic()

    def is_host(self, token: int) -> bool:
        return False

    def host_ended(self, token: int) -> None:
        raise AssertionError("no job is the host of an actor")

    def turn(self) -> float | None:
        """Ends what nobody needs. Seconds until there may be more to do."""
        gone: list[str] = []
        while self._let_go:
            gone.append(self._let_go.popleft())
        if gone:
            self._pool.end_actors(gone)
        if not self._alive:
            return None
        now = time.monotonic()
        if now - self._looked >= OFTEN:
            self._looked = now
            self._end_idle(now)
        return OFTEN

    def _end_idle(self, now: float) -> None:
        used = {instance for instances in self._used.values() for instance in instances}
        for instance in list(self._alive.values()):
            version = None if instance.version is None else instance.version()
            if version is None or version.instance is not instance or version.snapshot is None:
                continue
            if instance not in used and now - instance.used >= instance.idle:
                version.instance = None
