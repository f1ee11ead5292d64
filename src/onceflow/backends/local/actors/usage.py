"""Usage of live actors: their users, and since when they are idle, on any backend."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable

from onceflow.data.places import Live, Place
from onceflow.driver.actors import Instance, Version
from onceflow.values.actors import ActorOptions

OFTEN = 1.0
"""Seconds between two looks at whether an actor stands idle."""

Content = Callable[[], tuple[bytes | Place | Live, ActorOptions, object]]
"""What an actor is restored from: where that is, the options of its class, and what has to be held for as long as it
may be read."""


class Living:
    """Belongs to one thread. `died` is called with actors that have died although they are needed, `restore` starts
    one, and `end` ends those with these names."""

    def __init__(
        self,
        died: Callable[[Instance], None],
        restore: Callable[[bytes | Place | Live, ActorOptions, object], Instance],
        end: Callable[[list[str]], None],
    ) -> None:
        self._tell_died = died
        self._restore = restore
        self._end = end
        self._alive: weakref.WeakValueDictionary[str, Instance] = weakref.WeakValueDictionary()
        self._let_go: deque[str] = deque()
        """Those that are no longer needed."""
        self._made: dict[int, list[Instance]] = {}
        """Job → actors that it has made and not returned yet."""
        self._used: dict[int, list[Instance]] = {}
        """Job → actors that it uses."""
        self._looked = 0.0
        self.restored = 0
        """How many were restored so far."""

    def __len__(self) -> int:
        return len(self._alive)

    def add(self, name: str, idle: float) -> Instance:
        """One that lives from now on, as long as it has holders."""
        found = self._alive[name] = Instance(name, idle, self._let_go.append)
        return found

    def find(self, name: str) -> Instance | None:
        return self._alive.get(name)

    def made(self, token: int, instance: Instance) -> None:
        """It belongs to the job until that has ended."""
        self._made.setdefault(token, []).append(instance)

    def drop(self, name: str) -> None:
        """Lets go of an actor that was asked for and has no users."""
        self._let_go.append(name)

    def use(self, token: int, version: Version, content: Content) -> Instance:
        """The actor of a version, for a job: the one that lives, or one that is restored."""
        instance = version.instance
        if instance is None or instance.dead:
            instance = self._restore(*content())
            self.restored += 1
            version.instance = instance
            instance.version = weakref.ref(version)
        instance.used = time.monotonic()
        self._used.setdefault(token, []).append(instance)
        return instance

    def job_ended(self, token: int) -> None:
        """Actors that the job made and did not return, and those it had for itself, are no longer needed."""
        if self._made:
            self._made.pop(token, None)
        if self._used:
            for instance in self._used.pop(token, ()):
                instance.used = time.monotonic()

    def died(self, name: str) -> None:
        instance = self._alive.pop(name, None)
        if instance is not None and not instance.dead:
            instance.dead = True
            self._tell_died(instance)

    def turn(self) -> float | None:
        """Ends unneeded actors. Returns the seconds until there may be more to do."""
        if self._let_go:
            gone = []
            while self._let_go:
                gone.append(self._let_go.popleft())
            self._end(gone)
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
