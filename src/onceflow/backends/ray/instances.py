"""The actors of an engine that live on Ray: which tasks need them, and since when they are idle.

The keeper starts them and owns them, so they outlive the worker that wanted them. The engine is notified of each before
it is started, watches it, and has the keeper end it when it is not needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onceflow.backends.local.actors.usage import Content, Living
from onceflow.driver.actors import Instance, Version
from onceflow.values.actors import IDLE, ActorOptions

if TYPE_CHECKING:
    from onceflow.backends.ray.pool import RayPool
    from onceflow.backends.ray.store import Store
    from onceflow.data.places import Live, Place


class RayInstances:
    """Belongs to one thread. `died` is called with actors that have died although they are needed."""

    def __init__(self, pool: RayPool, died: Callable[[Instance], None]) -> None:
        self._pool = pool
        self._living = Living(died, self._restore, pool.end_actors)
        self._watched: set[str] = set()
        """Those whose end will be noticed."""
        pool.made_actor = self._make
        self.used = True

    def __len__(self) -> int:
        return len(self._living)

    def _make(self, token: int, name: str, idle: float) -> None:
        """A job is about to make one. It belongs to the job until that has ended."""
        if self._pool.has(token):
            self._living.made(token, self._living.add(name, idle))
        else:
            self._living.drop(name)

    def use(self, token: int, version: Version, content: Content) -> Instance:
        """The actor of a version, for a job."""
        return self._living.use(token, version, content)

    def _restore(self, snapshot: bytes | Place | Live, options: ActorOptions, held: object) -> Instance:
        name = os.urandom(12).hex()

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

        self._pool.carriers.bring(snapshot, held, restore)
        return self._living.add(name, options.idle)

    def returned(self, name: str) -> Instance:
        """The actor that a job has returned. It may be dead."""
        found = self._living.find(name) or self._living.add(name, IDLE)
        self._watch(name)
        return found

    def _watch(self, name: str) -> None:
        if name not in self._watched:
            self._watched.add(name)
            self._pool.carriers.watch(name, lambda: self._ended(name))

    def _ended(self, name: str) -> None:
        self._watched.discard(name)
        self._living.died(name)

    def job_ended(self, token: int) -> None:
        """Actors that the job made and did not return, and those it had for itself, are no longer needed."""
        self._living.job_ended(token)

    def is_host(self, token: int) -> bool:
        return False

    def host_ended(self, token: int) -> None:
        raise AssertionError("no job is the host of an actor")

    def turn(self) -> float | None:
        """Ends unneeded actors. Returns the seconds until there may be more to do."""
        return self._living.turn()
