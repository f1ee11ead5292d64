"""Actors in a memory engine: objects in this process. What goes to a method and comes back is pickled, as it is on its
way to the process of an actor and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping
from typing import Any

from onceflow.backends.local.messages import ActorIn, Job
from onceflow.driver.actors import Instance, Version
from onceflow.errors import ActorLost, ActorNotReturned, InvalidRef, UnfinishedCalls
from onceflow.values import actors, context, packed_outputs
from onceflow.values.actors import ActorRef, ActorStatistics, Kind, belongs_elsewhere, cannot_pass_on

_numbers = itertools.count(1)


class Cast:
    """The actors that live."""

    def __init__(self) -> None:
        self.alive: dict[str, Any] = {}
        self._made: dict[int, dict[str, Instance]] = {}
        """Job → those that it has made."""

    def make(self, token: int, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        return self._add(token, kind(*args, **kwargs)).id

    def use(self, token: int, version: Version, content: Callable[[], bytes]) -> Instance:
        """The actor of a version, restored if it does not live."""
        if version.instance is None:
            version.instance = self._add(token, actors.restore(content()))
        return version.instance

    def returned(self, token: int, name: str) -> Instance | None:
        return self._made.get(token, {}).get(name)

    def job_ended(self, token: int) -> None:
        self._made.pop(token, None)

    def die(self) -> None:
        self.alive.clear()
        self._made.clear()

    def _add(self, token: int, actor: Any) -> Instance:
        made = Instance(f"actor-{next(_numbers)}", actors.IDLE, lambda name: self.alive.pop(name, None))
        self.alive[made.id] = actor
        self._made.setdefault(token, {})[made.id] = made
        return made

    def note(self, token: int, instance: Instance) -> None:
        """A job uses it, and may return it."""
        self._made.setdefault(token, {})[instance.id] = instance


class _Answer:
    """Implements `values.actors.Answer`: the method is called at once."""

    def __init__(self, line: _Line, method: str, call: Callable[[], Any]) -> None:
        self._line = line
        self.method = method
        self._value: Any = None
        self._error: BaseException | None = None
        try:
            self._value = _copied(call())
        except Exception as error:
            self._error = error

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        if self in self._line.under_way:
            self._line.under_way.remove(self)
        if self._error is not None:
            raise self._error
        return self._value

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from ()
        return self.result()


class _Line:
    """Implements `values.actors.Line`."""

    def __init__(self, id: str, cast: Cast, holder: str, token: int, place: int, *, exclusive: bool) -> None:
        self.id = id
        self.exclusive = exclusive
        self.made = place == context.MADE
        self.ref: ActorRef[Any] = ActorRef(self)
        self.over = False
        self.under_way: list[_Answer] = []
        self._cast = cast
        self._holder = holder
        self._token = token
        self._place = place
        self._calls = 0

    @property
    def actor(self) -> Any:
        if self.over:
            raise InvalidRef(f"actor {self.id} belongs to an attempt of {self._holder}, which has ended")
        if self.id not in self._cast.alive:
            context.note_lost(self._token, self._place)
            raise ActorLost(self.ref, "it lives no more")
        return self._cast.alive[self.id]

    @property
    def kind(self) -> Kind:
        return actors.kind_of(self.actor)

    def send(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Answer:
        kind, actor = self.kind, self.actor
        self._calls += 1
        if not self.exclusive and not kind.methods[method]:
            raise actors.refuse(kind, method, self._holder, [])
        args, kwargs = _copied((args, dict(kwargs)))
        answer = _Answer(self, method, lambda: getattr(actor, method)(*args, **kwargs))
        self.under_way.append(answer)
        return answer

    def look(self) -> ActorStatistics:
        return ActorStatistics(self.kind.name, 0, self._calls, 0.0, 0.0, (self._holder,))


class KitActors:
    """Implements `refs.JobActors`."""

    def __init__(self, job: Job, cast: Cast) -> None:
        self._task = job.task
        self._token = job.token
        self._cast = cast
        self._lines: dict[str, _Line] = {}
        self._returned: set[str] = set()

    def give(self, place: int, given: ActorIn) -> ActorRef[Any]:
        return self._add(given.address, place, exclusive=given.exclusive)

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ActorRef[Any]:
        kind, args, kwargs = _copied((kind, args, dict(kwargs)))
        return self._add(self._cast.make(self._token, kind, args, kwargs), context.MADE, exclusive=True)

    def _add(self, name: str, place: int, *, exclusive: bool) -> ActorRef[Any]:
        line = self._lines[name] = _Line(name, self._cast, self._task, self._token, place, exclusive=exclusive)
        return line.ref

    def check(self) -> None:
        for line in self._lines.values():
            if line.under_way:
                methods = tuple([answer.method for answer in line.under_way])
                raise UnfinishedCalls(self._task, line.kind.name, methods)

    def hand_over(self, ref: ActorRef[Any]) -> None:
        line = self._lines.get(ref._id)
        if line is None or line.ref is not ref:
            raise belongs_elsewhere(ref)
        if not line.exclusive:
            raise cannot_pass_on(self._task, line.kind)
        self._returned.add(ref._id)

    def check_returned(self) -> None:
        for id, line in self._lines.items():
            if line.exclusive and not line.made and id not in self._returned:
                raise ActorNotReturned(self._task, line.kind.name)

    def snapshot(self, ref: ActorRef[Any]) -> bytes:
        return b"".join(actors.snapshot(self._lines[ref._id].actor).pieces)

    def close(self) -> None:
        for line in self._lines.values():
            line.over = True


def _copied(value: Any) -> Any:
    return packed_outputs.unpack(packed_outputs.pack(value).joined(), ours=True)
