"""Actors in a worker on Ray: the connections of its jobs to the actors that they were given or have made."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, cast

import ray
import ray.exceptions

from onceflow.backends.local.actors.connections import AsksForHosts
from onceflow.backends.local.actors.job_actors import JobActors, JobLine, PendingCall
from onceflow.backends.local.messages import ActorIn
from onceflow.backends.ray.store import Store, apart, stored
from onceflow.data.places import Live, Missing
from onceflow.errors import ActorLost
from onceflow.values import context, failures, packed_outputs
from onceflow.values.actors import ActorRef, ActorStatistics, Kind, options_of
from onceflow.values.packed_outputs import SMALL

LOOK = 0.005
"""Seconds between two looks for an actor that is being started."""


class Pending(PendingCall):
    __slots__ = ("_line", "_reference", "method")

    def __init__(self, line: RayLine, method: str, reference: Any) -> None:
        self._line = line
        self._reference = reference
        self.method = method

    @property
    def reference(self) -> Any:
        return self._reference

    def done(self) -> bool:
        return bool(ray.wait([self._reference], timeout=0, fetch_local=False)[0])

    def received(self) -> Any:
        """Waits for it. Raises what was raised there."""
        try:
            answer = ray.get(self._reference)
        except ray.exceptions.RayActorError as error:
            raise self._line.dead(error) from None
        finally:
            self._line.forget(self)
        if isinstance(answer, bytes):
            raised = failures.load(answer)
            raise self._line.dead(raised) if isinstance(raised, Missing) else raised
        return answer

    def result(self) -> Any:
        return apart(self.received())


class RayLine(JobLine):
    def __init__(self, id: str, holder: str, token: int, place: int, store: Store, *, exclusive: bool) -> None:
        super().__init__(id, holder, token, place, exclusive=exclusive)
        self._store = store
        self._session = os.urandom(8).hex()
        self._actor: Any = None
        """The handle of the Ray actor."""
        self._greeting: Pending | None = None
        self._making: Pending | None = None
        self._under_way: list[Pending] = []
        self._lock = threading.RLock()

    def make(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any], agent: Any) -> None:
        """Has the actor made. What that raises is raised with the first call."""
        cpus, memory, _ = options_of(kind)
        environment = {name: value for name, value in os.environ.items() if name.startswith("ONCEFLOW_")}
        self._actor = self._store.raise_actor(self.id, cpus, memory, agent, list(sys.path), environment)
        packed = stored(packed_outputs.pack((kind, args, dict(kwargs))))
        self._making = Pending(self, "__init__", self._actor.make.remote(packed, self._token))

    @property
    def kind(self) -> Kind:
        with self._lock:
            if self._kind is None:
                if self._making is not None:
                    self._making.received()
                self._connected()
                assert self._greeting is not None
                self._kind = Kind(*cast("Any", self._greeting.received()))
            return self._kind

    def send(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Pending:
        self.kind  # noqa: B018  # the constructor has worked, or raises
        with self._lock:
            actor = self._connected()
            packed = stored(packed_outputs.pack((args, dict(kwargs))))
            pending = Pending(self, method, actor.call.remote(self._session, method, packed))
            self._under_way.append(pending)
            return pending

    def keep(self) -> bytes | Live:
        """What has to be saved, as it is now."""
        self.kind  # noqa: B018
        pending = Pending(self, "_checkpoint", self._connected().keep.remote(self._token))
        (content,) = pending.received()
        view = memoryview(content)
        return bytes(view) if view.nbytes <= SMALL else self._store.hold(pending.reference, view.nbytes, is_ref=True)

    def look(self) -> ActorStatistics:
        return ActorStatistics(*cast("Any", Pending(self, "statistics", self._connected().look.remote()).received()))

    def _connected(self) -> Any:
        """The Ray actor, which knows its caller. Once for each line."""
        self._check_open()
        while self._actor is None:
            try:
                self._actor = self._store.find_actor(self.id)
            except LookupError:
                raise self.dead(None) from None
            if self._actor is None:
                time.sleep(LOOK)  # it is being started
        if self._greeting is None:
            call = self._actor.greet.remote(self._session, self._holder, self.exclusive, self._token)
            self._greeting = Pending(self, "hello", call)
        return self._actor

    def forget(self, pending: Pending) -> None:
        with self._lock:
            if pending in self._under_way:
                self._under_way.remove(pending)

    def dead(self, error: BaseException | None) -> ActorLost:
        return self.gone("it lives no more" if error is None else f"it lives no more ({type(error).__name__})")

    def unanswered(self) -> tuple[str, ...]:
        return tuple([pending.method for pending in self._under_way])

    def close(self, task: str) -> None:
        super().close(task)
        if self._greeting is not None and not self.lost:
            self._actor.part.remote(self._session)


class RayActors(JobActors[RayLine]):
    """Implements `refs.JobActors`."""

    def __init__(self, task: str, attempt: str, token: int, store: Store, agent: Any) -> None:
        super().__init__(task, attempt, token)
        self._store = store
        self._agent = agent

    def give(self, place: int, given: ActorIn) -> ActorRef[Any]:
        line = RayLine(given.address, self._holder, self._token, place, self._store, exclusive=given.exclusive)
        return self._add(line)

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ActorRef[Any]:
        name = os.urandom(12).hex()
        cast("AsksForHosts", context.link()).ask_for_host(name, self._token, kind, None)
        line = RayLine(name, self._holder, self._token, context.MADE, self._store, exclusive=True)
        line.make(kind, args, kwargs, self._agent)
        return self._add(line)

    def snapshot(self, ref: ActorRef[Any]) -> bytes | Live:
        return self._lines[ref._id].keep()
