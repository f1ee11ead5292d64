"""Actors in a worker on Ray: the lines of its jobs to the actors that they were given or have made."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator, Mapping
from typing import Any, cast

import ray
import ray.exceptions

from onceflow.backends.local.actors.connections import AsksForHosts, JobLines
from onceflow.backends.local.messages import ActorIn
from onceflow.backends.ray.store import Store, apart, stored
from onceflow.data.places import Live, Missing
from onceflow.errors import ActorLost, InvalidRef, UnfinishedCalls
from onceflow.values import context, failures, packed_outputs
from onceflow.values.actors import ActorRef, ActorStatistics, Kind, options_of
from onceflow.values.packed_outputs import SMALL

LOOK = 0.005
"""Seconds between two looks for an actor that is being started."""


class Pending:
    """A call that was sent. Implements `values.actors.Answer`."""

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
            raise self._line.gone(error) from None
        finally:
            self._line.forget(self)
        if isinstance(answer, bytes):
            raised = failures.load(answer)
            raise self._line.gone(raised) if isinstance(raised, Missing) else raised
        return answer

    def result(self) -> Any:
        return apart(self.received())

    def __await__(self) -> Generator[Any, Any, Any]:
        import asyncio  # large, and most workers never need it

        return asyncio.to_thread(self.result).__await__()


class RayLine:
    """Implements `values.actors.Line`. Any thread of the job may use it."""

    def __init__(self, id: str, holder: str, token: int, place: int, store: Store, *, exclusive: bool) -> None:
        self.id = id
        self.exclusive = exclusive
        self.made = place == context.MADE
        self.ref: ActorRef[Any] = ActorRef(self)
        self._holder = holder
        self._token = token
        self._place = place
        self._store = store
        self._session = os.urandom(8).hex()
        self._actor: Any = None
        """The handle of the Ray actor."""
        self._greeting: Pending | None = None
        self._making: Pending | None = None
        self._under_way: list[Pending] = []
        self._kind: Kind | None = None
        self._lock = threading.RLock()
        self._over = ""
        """Why it is good for nothing any more."""
        self.lost = False

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
        """The Ray actor, which has been told who calls. Once for each line."""
        if self._over:
            raise InvalidRef(f"actor {self.id} belongs to {self._over}. Pass it on through outputs and arguments")
        while self._actor is None:
            try:
                self._actor = self._store.find_actor(self.id)
            except LookupError:
                raise self.gone(None) from None
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

    def gone(self, error: BaseException | None) -> ActorLost:
        self.lost = True
        context.note_lost(self._token, self._place)
        return ActorLost(
            self.ref, "it lives no more" if error is None else f"it lives no more ({type(error).__name__})"
        )

    def check_finished(self, task: str) -> None:
        """Raises `UnfinishedCalls`, or what making it raised."""
        if self.made:
            self.kind  # noqa: B018
        if methods := tuple([pending.method for pending in self._under_way]):
            raise UnfinishedCalls(task, self.id if self._kind is None else self._kind.name, methods)

    def close(self, task: str) -> None:
        self._over = f"an attempt of {task}, which has ended"
        if self._greeting is not None and not self.lost:
            self._actor.part.remote(self._session)


class RayActors(JobLines[RayLine]):
    """Implements `refs.JobActors`."""

    def __init__(self, task: str, attempt: str, token: int, store: Store, agent: Any) -> None:
        super().__init__(task, attempt, token)
        self._store = store
        self._agent = agent

    def give(self, place: int, given: ActorIn) -> ActorRef[Any]:
        line = RayLine(given.address, self._holder, self._token, place, self._store, exclusive=given.exclusive)
        self._lines[given.address] = line
        return line.ref

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ActorRef[Any]:
        name = os.urandom(12).hex()
        cast("AsksForHosts", context.link()).ask_for_host(name, self._token, kind, None)
        line = RayLine(name, self._holder, self._token, context.MADE, self._store, exclusive=True)
        line.make(kind, args, kwargs, self._agent)
        self._lines[name] = line
        return line.ref

    def snapshot(self, ref: ActorRef[Any]) -> bytes | Live:
        return self._lines[ref._id].keep()
