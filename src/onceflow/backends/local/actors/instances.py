"""The actors of an engine that live: started when a task makes one or needs one that is saved, ended when nobody needs
them, or when they are saved and have stood idle for a while."""

from __future__ import annotations

import os
import pickle
import time
import weakref
from collections import deque
from collections.abc import Callable

from onceflow.backends.local.actors import wire
from onceflow.backends.local.actors.hosting import host
from onceflow.backends.local.messages import Host, Job, RefIn
from onceflow.backends.local.pool import Pool
from onceflow.data.places import Live, Place
from onceflow.driver.actors import Instance, Version
from onceflow.values.actors import ActorOptions

OFTEN = 1.0
"""Seconds between two looks at whether an actor stands idle."""


class Instances:
    """Belongs to one thread. `number` gives tokens for jobs, `ship` makes a function known to the pool, `died` is told
    of actors that live no more although somebody needs them."""

    def __init__(
        self,
        pool: Pool,
        number: Callable[[], int],
        ship: Callable[[Callable[..., object]], str],
        died: Callable[[Instance], None],
    ) -> None:
        self._pool = pool
        self._number = number
        self._ship = ship
        self._died = died
        self._alive: weakref.WeakValueDictionary[str, Instance] = weakref.WeakValueDictionary()
        self._tokens: dict[str, int] = {}
        """Actor → the job that it lives in, until that has ended."""
        self._actors: dict[int, str] = {}
        """The same the other way round."""
        self._held: dict[int, object] = {}
        """Job that a restored actor lives in → what it was restored from: the job that wanted it may be over before its
        process is there."""
        self._let_go: deque[str] = deque()
        """Those that nobody needs any more."""
        self._made: dict[int, list[Instance]] = {}
        """Job → actors that it has made and not returned yet."""
        self._used: dict[int, list[Instance]] = {}
        """Job → actors that it uses."""
        self._looked = 0.0
        self.restored = 0
        """How many were restored so far."""

    def __len__(self) -> int:
        return len(self._tokens)

    def make(self, wish: Host, listener: int) -> None:
        """A job wants to make one. It belongs to the job until that has ended."""
        made = self._start(wish.name, listener, wish.idle, wish.kind, cpus=wish.cpus, memory=wish.memory)
        self._made.setdefault(wish.token, []).append(made)

    def use(
        self, token: int, version: Version, content: Callable[[], tuple[bytes | Place | Live, ActorOptions, object]]
    ) -> Instance:
        """The actor of a version, for a job: the one that lives, or one that is restored from this content: where it
        is, the options of its class, and what has to be held for as long as somebody may read it."""
        instance = version.instance
        if instance is None or instance.dead:
            name = f"{os.getpid()}-{os.urandom(12).hex()}"
            snapshot, options, held = content()
            with wire.listen(name) as listener:
                instance = self._start(
                    name,
                    os.dup(listener.fileno()),
                    options.idle,
                    "that is restored",
                    cpus=options.cpus,
                    memory=options.memory,
                    snapshot=snapshot,
                )
            self._held[self._tokens[name]] = held
            self.restored += 1
            version.instance = instance
            instance.version = weakref.ref(version)
        instance.used = time.monotonic()
        self._used.setdefault(token, []).append(instance)
        return instance

    def returned(self, name: str) -> Instance:
        """The actor that a job has returned. It may be dead."""
        found = self._alive.get(name)
        if found is None:
            found = Instance(name, 0.0, lambda name: None)
            found.dead = True
        return found

    def job_ended(self, token: int) -> None:
        """What it has made and not returned, and what it had for itself, nobody needs any more."""
        if self._made:
            self._made.pop(token, None)
        if self._used:
            for instance in self._used.pop(token, ()):
                instance.used = time.monotonic()

    def is_host(self, token: int) -> bool:
        return token in self._actors

    def host_ended(self, token: int) -> None:
        name = self._actors.pop(token)
        del self._tokens[name]
        self._held.pop(token, None)
        instance = self._alive.pop(name, None)
        if instance is not None:
            instance.dead = True
            self._died(instance)

    def turn(self) -> float | None:
        """Ends what nobody needs. Seconds until there may be more to do."""
        while self._let_go:
            token = self._tokens.get(self._let_go.popleft())
            if token is not None:
                self._pool.stop(token, now=True)
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

    def _start(
        self,
        name: str,
        listener: int,
        idle: float,
        kind: str,
        *,
        cpus: float = 0.0,
        memory: int = 0,
        snapshot: bytes | Place | Live | None = None,
    ) -> Instance:
        token = self._number()
        self._tokens[name] = token
        self._actors[token] = name
        job = Job(
            token, self._ship(host), f"actor {kind}", pickle.dumps(((name, None), {})), cpus=cpus or None, memory=memory
        )
        if snapshot is not None:
            job.refs, job.inputs, job.tables, job.holes = [RefIn("", snapshot)], [b""], {0: [0]}, [(1, 0)]
        instance = self._alive[name] = Instance(name, idle, self._let_go.append)
        try:
            self._pool.host(name, job, listener)
        finally:
            os.close(listener)
        return instance
