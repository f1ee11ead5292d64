"""The process of a user's actor: a Ray actor that makes or restores it, and calls its methods, one at a time.

Ray calls each group of methods here in a thread of its own: `begin` makes the actor, `watch` never returns, so that its
caller learns when the actor is gone, `greet` answers new callers while others are served, and all else is done in the
order in which it was sent.

What an attempt says carries its *session*. When an attempt comes that has the actor for itself, all other sessions are
over: they are of attempts that do not count any more.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import ray

from onceflow.backends.ray.actor_output import Outlet
from onceflow.backends.ray.store import Store, apart, joined, stored
from onceflow.data.places import Live, Missing
from onceflow.errors import InvalidRef
from onceflow.values import actors, context, failures, packed_outputs, sealed_bytes
from onceflow.values.actors import ActorStatistics, Kind
from onceflow.values.functions import Main

GROUPS = {"begin": 1, "watch": 1, "greet": 1}

Failure = bytes
"""What was raised (`values.failures`)."""


class _Session(NamedTuple):
    holder: str
    """Identity of the attempt."""
    exclusive: bool
    """Whether the actor is its alone."""
    token: int
    """Its job."""


class Host:
    """A Ray actor. `agent` is one of any node, through which the program's `__main__` can be asked. What it prints, and
    logs from `log_level` on, is captured, unless that is None."""

    def __init__(
        self,
        id: str,
        keeper: Any,
        agent: Any,
        path: list[str],
        environment: Mapping[str, str],
        log_level: int | None,
    ) -> None:
        self._outlet = None if log_level is None else Outlet(keeper, log_level)
        os.environ.update(environment)
        sys.path[:] = path
        if "ONCEFLOW_HOME" in os.environ:
            sealed_bytes.work_for(os.environ["ONCEFLOW_HOME"])
        sys.modules["__main__"] = Main(lambda name: ray.get(agent.define.remote(name)))
        self._id = id
        self._store = Store(keeper)
        self._there = threading.Event()
        self._actor: Any = None
        self._kind: Kind | None = None
        self._failure: Failure | None = None
        """What making or restoring it raised."""
        self._sessions: dict[str, _Session] = {}
        self._calls = 0
        self._busy = 0.0
        self._since = time.time()

    @ray.method(concurrency_group="begin")
    def make(self, made: list[Any], token: int) -> Kind | Failure:
        """From a packed (class, args, kwargs), for a job."""

        def make() -> Any:
            kind, args, kwargs = apart(made)
            return kind(*args, **kwargs)

        return self._begin(make, token)

    @ray.method(concurrency_group="begin")
    def restore(self, snapshot: bytes | Live) -> Kind | Failure | None:
        """None if the snapshot is gone."""

        try:
            content = snapshot if isinstance(snapshot, bytes) else self._store.read(snapshot).joined()
        except Missing as missing:
            self._failure = self._told(missing)
            self._there.set()
            return None
        return self._begin(lambda: actors.restore(content), 0)

    def _begin(self, begin: Any, token: int) -> Kind | Failure:
        context.running.set(None)  # what the actor does is not part of an attempt
        with self._speaking_for(token):
            try:
                self._actor = begin()
                self._kind = actors.kind_of(self._actor)
            except BaseException as error:  # also SystemExit and the like: an actor does not end by raising
                self._failure = self._told(error)
        self._there.set()
        return self._failure or self._known_kind()

    @ray.method(concurrency_group="watch")
    def watch(self) -> None:
        """Does not return."""
        threading.Event().wait()

    @ray.method(concurrency_group="greet")
    def greet(self, session: str, holder: str, exclusive: bool, token: int) -> Kind | Failure:
        self._there.wait()
        if exclusive:
            self._sessions.clear()
        self._sessions[session] = _Session(holder, exclusive, token)
        return self._failure or self._known_kind()

    def part(self, session: str) -> None:
        self._sessions.pop(session, None)

    def call(self, session: str, method: str, arguments: list[Any]) -> list[Any] | Failure:
        """The packed answer."""
        began = time.perf_counter()
        self._calls += 1
        caller = self._sessions.get(session)
        with self._speaking_for(0 if caller is None else caller.token):
            try:
                args, kwargs = apart(arguments)
                if caller is None:
                    raise InvalidRef(f"actor {self._id} belongs to another attempt by now")
                kind = self._known_kind()
                if not caller.exclusive and not kind.methods[method]:
                    others = [other.holder for id, other in list(self._sessions.items()) if id != session]
                    raise actors.refuse(kind, method, caller.holder, others)
                return stored(packed_outputs.pack(getattr(self._actor, method)(*args, **kwargs)))
            except BaseException as error:
                return self._told(error)
            finally:
                self._busy += time.perf_counter() - began

    def keep(self, token: int) -> list[Any] | Failure:
        """A snapshot, for a job."""
        with self._speaking_for(token):
            try:
                return joined(actors.snapshot(self._actor))
            except BaseException as error:
                return self._told(error)

    @contextmanager
    def _speaking_for(self, token: int) -> Iterator[None]:
        """What is printed is that job's."""
        if self._outlet is None:
            yield
            return
        self._outlet.speak_for(token)
        yield
        self._outlet.speak_for(0)
        self._outlet.flush()

    def look(self) -> ActorStatistics:
        holders = tuple([session.holder for session in list(self._sessions.values())])
        kind = "" if self._kind is None else self._kind.name
        return ActorStatistics(kind, os.getpid(), self._calls, self._busy, time.time() - self._since, holders)

    def _known_kind(self) -> Kind:
        assert self._kind is not None
        return self._kind

    def _told(self, error: BaseException) -> Failure:
        return failures.dump(error, f"actor {self._id} in process {os.getpid()}")
