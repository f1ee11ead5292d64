"""Actors in a memory engine: objects in this process. Arguments and results of methods are pickled, as on their
way to the process of an actor and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping
from typing import Any

from onceflow.backends.local.actors.job_actors import JobActors, JobLine
from onceflow.backends.local.messages import ActorIn, Job
from onceflow.driver.actors import Instance, Version
from onceflow.values import actors, context, packed_outputs
from onceflow.values.actors import ActorRef, ActorStatistics, Kind

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


class _Line(JobLine):
    def __init__(self, id: str, cast: Cast, holder: str, token: int, place: int, *, exclusive: bool) -> None:
        super().__init__(id, holder, token, place, exclusive=exclusive)
        self.under_way: list[_Answer] = []
        self._cast = cast
        self._calls = 0

    @property
    def actor(self) -> Any:
        self._check_open()
        if self.id not in self._cast.alive:
            raise self.gone("it lives no more")
        return self._cast.alive[self.id]

    @property
    def kind(self) -> Kind:
        self._kind = actors.kind_of(self.actor)
        return self._kind

    def unanswered(self) -> tuple[str, ...]:
        return tuple([answer.method for answer in self.under_way])

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


class KitActors(JobActors[_Line]):
    """Implements `refs.JobActors`."""

    def __init__(self, job: Job, cast: Cast) -> None:
        super().__init__(job.task, "", job.token)
        self._cast = cast

    def give(self, place: int, given: ActorIn) -> ActorRef[Any]:
        return self._line(given.address, place, exclusive=given.exclusive)

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ActorRef[Any]:
        kind, args, kwargs = _copied((kind, args, dict(kwargs)))
        return self._line(self._cast.make(self._token, kind, args, kwargs), context.MADE, exclusive=True)

    def _line(self, id: str, place: int, *, exclusive: bool) -> ActorRef[Any]:
        return self._add(_Line(id, self._cast, self._holder, self._token, place, exclusive=exclusive))

    def snapshot(self, ref: ActorRef[Any]) -> bytes:
        return b"".join(actors.snapshot(self._lines[ref._id].actor).pieces)


def _copied(value: Any) -> Any:
    return packed_outputs.unpack(packed_outputs.pack(value).joined(), ours=True)
