"""The actors that a job was given or has made, and its connections to them: the part common to all backends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from typing import Any, Generic, TypeVar

from onceflow.errors import ActorLost, ActorNotReturned, InvalidRef, UnfinishedCalls
from onceflow.values import context
from onceflow.values.actors import ActorRef, ActorStatistics, Answer, Kind, belongs_elsewhere, cannot_pass_on


class PendingCall(ABC):
    """A call that was sent. Implements `values.actors.Answer`."""

    __slots__ = ()

    @abstractmethod
    def result(self) -> Any:
        """Waits for it. Raises what was raised there."""

    def __await__(self) -> Generator[Any, Any, Any]:
        import asyncio  # large, and most workers never need it

        return asyncio.to_thread(self.result).__await__()


class JobLine(ABC):
    """The line of a job to one actor. Implements `values.actors.Line`. Any thread of the job may use it."""

    def __init__(self, id: str, holder: str, token: int, place: int, *, exclusive: bool) -> None:
        self.id = id
        self.exclusive = exclusive
        self.made = place == context.MADE
        self.ref: ActorRef[Any] = ActorRef(self)
        self._holder = holder
        self._token = token
        self._place = place
        self._kind: Kind | None = None
        self._over = ""
        """Why it is good for nothing any more."""
        self.lost = False

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """Raises what making the actor raised."""

    @abstractmethod
    def send(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Answer[Any]: ...

    @abstractmethod
    def look(self) -> ActorStatistics: ...

    @abstractmethod
    def unanswered(self) -> tuple[str, ...]:
        """The methods whose calls have not been answered."""

    def gone(self, why: str) -> ActorLost:
        self.lost = True
        context.note_lost(self._token, self._place)
        return ActorLost(self.ref, why)

    def check_finished(self, task: str) -> None:
        """Raises `UnfinishedCalls`, or what making it raised."""
        if self.made:
            self.kind  # noqa: B018
        if methods := self.unanswered():
            raise UnfinishedCalls(task, self.id if self._kind is None else self._kind.name, methods)

    def close(self, task: str) -> None:
        self._over = f"an attempt of {task}, which has ended"

    def _check_open(self) -> None:
        if self._over:
            raise InvalidRef(f"actor {self.id} belongs to {self._over}. Pass it on through outputs and arguments")


L = TypeVar("L", bound=JobLine)


class JobActors(Generic[L]):
    """What of `refs.JobActors` is the same however actors are reached."""

    def __init__(self, task: str, attempt: str, token: int) -> None:
        self._task = task
        self._holder = f"{task} (attempt {attempt})" if attempt else task
        self._token = token
        self._lines: dict[str, L] = {}
        self._returned: set[str] = set()

    def hand_over(self, ref: ActorRef[Any]) -> None:
        line = self._lines.get(ref._id)
        if line is None or line.ref is not ref:
            raise belongs_elsewhere(ref)
        if not line.exclusive:
            raise cannot_pass_on(self._task, line.kind)
        self._returned.add(ref._id)

    def check(self) -> None:
        for line in self._lines.values():
            line.check_finished(self._task)

    def check_returned(self) -> None:
        for id, line in self._lines.items():
            if line.exclusive and not line.made and id not in self._returned:
                raise ActorNotReturned(self._task, line.kind.name)

    def close(self) -> None:
        for line in self._lines.values():
            line.close(self._task)

    def _add(self, line: L) -> ActorRef[Any]:
        self._lines[line.id] = line
        return line.ref
