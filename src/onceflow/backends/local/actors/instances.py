"""The live actors of an engine: started when a task makes one or needs one that is saved, ended when they are not
needed, or when they are saved and have been idle for a while."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable

from onceflow.backends.local.actors import messages
from onceflow.backends.local.actors.process import host
from onceflow.backends.local.actors.usage import Content, Living
from onceflow.backends.local.messages import Host, Job, RefIn
from onceflow.backends.local.pool import Pool
from onceflow.data.places import Live, Place
from onceflow.driver.actors import Instance, Version
from onceflow.values.actors import ActorOptions


class Instances:
    """Belongs to one thread. `number` gives tokens for jobs, `ship` makes a function known to the pool, `died` is
    called with actors that have died although they are needed."""

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
        self._living = Living(died, self._restore, self._end)
        self.used = False
        self._tokens: dict[str, int] = {}
        """Actor → the job that it lives in, until that has ended."""
        self._actors: dict[int, str] = {}
        """The same the other way round."""
        self._held: dict[int, object] = {}
        """Job that a restored actor lives in → what it was restored from: the job that wanted it may be over before its
        process is there."""

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def restored(self) -> int:
        """How many were restored so far."""
        return self._living.restored

    def make(self, wish: Host, listener: int) -> None:
        """A job wants to make one. It belongs to the job until that has ended."""
        made = self._start(wish.name, listener, wish.idle, wish.kind, cpus=wish.cpus, memory=wish.memory)
        self._living.made(wish.token, made)

    def use(self, token: int, version: Version, content: Content) -> Instance:
        """The actor of a version, for a job."""
        return self._living.use(token, version, content)

    def _restore(self, snapshot: bytes | Place | Live, options: ActorOptions, held: object) -> Instance:
        name = f"{os.getpid()}-{os.urandom(12).hex()}"
        with messages.listen(name) as listener:
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
        return instance

    def returned(self, name: str) -> Instance:
        """The actor that a job has returned. It may be dead."""
        found = self._living.find(name)
        if found is None:
            found = Instance(name, 0.0, lambda name: None)
            found.dead = True
        return found

    def job_ended(self, token: int) -> None:
        """Actors that the job made and did not return, and those it had for itself, are no longer needed."""
        self._living.job_ended(token)

    def is_host(self, token: int) -> bool:
        return token in self._actors

    def host_ended(self, token: int) -> None:
        name = self._actors.pop(token)
        del self._tokens[name]
        self._held.pop(token, None)
        self._living.died(name)

    def turn(self) -> float | None:
        """Ends unneeded actors. Returns the seconds until there may be more to do."""
        return self._living.turn()

    def _end(self, names: list[str]) -> None:
        for name in names:
            token = self._tokens.get(name)
            if token is not None:
                self._pool.stop(token, now=True)

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
        self.used = True
        token = self._number()
        self._tokens[name] = token
        self._actors[token] = name
        job = Job(
            token, self._ship(host), f"actor {kind}", pickle.dumps(((name, None), {})), cpus=cpus or None, memory=memory
        )
        if snapshot is not None:
            job.refs, job.inputs, job.tables, job.holes = [RefIn("", snapshot)], [b""], {0: [0]}, [(1, 0)]
        instance = self._living.add(name, idle)
        try:
            self._pool.host(name, job, listener)
        finally:
            os.close(listener)
        return instance
