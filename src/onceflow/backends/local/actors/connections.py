"""Actors in a worker: the lines of its jobs to the actors that they were given or have made."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, Protocol, TypeVar, cast

from onceflow.backends.local.actors import messages
from onceflow.backends.local.actors.messages import Answer, Call, Hello, Keep, Look, Make
from onceflow.backends.local.messages import ActorIn, encode
from onceflow.data.places import Place
from onceflow.errors import ActorLost, ActorNotReturned, InvalidRef, UnfinishedCalls
from onceflow.values import context, failures, packed_outputs
from onceflow.values.actors import ActorRef, ActorStatistics, Kind, belongs_elsewhere, cannot_pass_on
from onceflow.values.packed_outputs import Packed


class AsksForHosts(Protocol):
    """What runs jobs in this process."""

    def ask_for_host(self, name: str, token: int, kind: type, listener: socket.socket | None) -> None:
        """Have a process started for an actor of this class, which listens there; or have the engine know of one that
        is started elsewhere."""


class Pending:
    """A call that was sent. Implements `values.actors.Answer`."""

    __slots__ = ("_line", "descriptors", "message", "method")

    def __init__(self, line: SocketLine, method: str) -> None:
        self._line = line
        self.method = method
        self.message: Answer | None = None
        self.descriptors: tuple[int, ...] = ()

    def done(self) -> bool:
        return self.message is not None

    def received(self) -> tuple[Answer, tuple[int, ...]]:
        """Waits for it. Raises what was raised there."""
        self._line.receive_until(self)
        message = self.message
        assert message is not None
        if message.failure is not None:
            raise failures.load(message.failure)
        return message, self.descriptors

    def result(self) -> Any:
        message, descriptors = self.received()
        return messages.unpack(message.body, message.size, descriptors)

    def __await__(self) -> Generator[Any, Any, Any]:
        import asyncio  # large, and most workers never need it

        return asyncio.to_thread(self.result).__await__()


class SocketLine:
    """Implements `values.actors.Line`. Any thread of the job may use it."""

    def __init__(self, id: str, holder: str, token: int, place: int, *, exclusive: bool) -> None:
        self.id = id
        self.exclusive = exclusive
        self.made = place == context.MADE
        self.ref: ActorRef[Any] = ActorRef(self)
        self._holder = holder
        self._token = token
        self._place = place
        self._connection: socket.socket | None = None
        self._under_way: deque[Pending] = deque()
        self._kind: Kind | None = None
        self._lock = threading.RLock()
        self._over = ""
        """Why it is good for nothing any more."""
        self.lost = False

    # -- calls ---------------------------------------------------------------------------------------------------------

    def make(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Has the actor made. What that raises is raised with the first call."""
        packed = packed_outputs.pack((kind, args, dict(kwargs)))
        self._made = self._send("__init__", Make(b""), packed)

    @property
    def kind(self) -> Kind:
        with self._lock:
            if self._kind is None:
                pending = self._made if self.made else self._connected()
                self._kind = Kind(*cast("Kind", pending.result()))
            return self._kind

    def send(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Pending:
        self.kind  # noqa: B018  # the constructor has worked, or raises
        return self._send(method, Call(method, b""), packed_outputs.pack((args, dict(kwargs))))

    def keep(self) -> tuple[Answer, tuple[int, ...]]:
        """What has to be saved, as it is now."""
        self.kind  # noqa: B018
        return self._send("_checkpoint", Keep(), None).received()

    def look(self) -> ActorStatistics:
        return ActorStatistics(*cast("Any", self._send("statistics", Look(), None).result()))

    def _connected(self) -> Pending:
        """Says who calls, and has the answer on its way. Once for each line."""
        if self._over:
            raise InvalidRef(f"actor {self.id} belongs to {self._over}. Pass it on through outputs and arguments")
        try:
            self._connection = messages.connect(self.id)
            self._answers = messages.answers(self._connection)
            self._poll = select.poll()
            self._poll.register(self._connection, select.POLLIN)
            self._connection.send(encode(Hello(self._holder, self.exclusive, self._token)))
        except OSError as error:
            raise self._gone(error) from None
        pending = Pending(self, "hello")
        self._under_way.append(pending)
        return pending

    def _send(self, method: str, message: Make | Call | Keep | Look, packed: Packed | None) -> Pending:
        with self._lock:
            if self._over:
                raise InvalidRef(f"actor {self.id} belongs to {self._over}. Pass it on through outputs and arguments")
            if self._connection is None:
                self._connected()
            assert self._connection is not None
            pending = Pending(self, method)
            while True:
                try:
                    if packed is None or isinstance(message, Keep | Look):
                        self._connection.send(encode(message), socket.MSG_DONTWAIT)
                    else:
                        messages.send(self._connection, message, packed, socket.MSG_DONTWAIT)
                    break
                except BlockingIOError:  # it has much to do; perhaps it waits until we listen
                    self._receive()
                except (BrokenPipeError, ConnectionResetError) as error:
                    raise self._gone(error) from None
            self._under_way.append(pending)
            return pending

    def receive_until(self, pending: Pending) -> None:
        with self._lock:
            while pending.message is None:
                self._receive()

    def _receive(self) -> None:
        try:
            messages.ready(self._poll)
            received = self._answers.receive()
        except OSError as error:
            raise self._gone(error) from None
        if received is None:
            raise self._gone(None)
        first = self._under_way.popleft()
        first.message, first.descriptors = received

    def _gone(self, error: OSError | None) -> ActorLost:
        self.lost = True
        context.note_lost(self._token, self._place)
        return ActorLost(self.ref, "its process has ended" if error is None else f"its process has ended ({error})")

    # -- the end of the job --------------------------------------------------------------------------------------------

    def check_finished(self, task: str) -> None:
        """Raises `UnfinishedCalls`, or what making it raised."""
        if self.made:
            self.kind  # noqa: B018
        if methods := tuple([pending.method for pending in self._under_way if pending.method != "hello"]):
            raise UnfinishedCalls(task, self.id if self._kind is None else self._kind.name, methods)

    def close(self, task: str) -> None:
        self._over = f"an attempt of {task}, which has ended"
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class JobLine(Protocol):
    """The line of a job to one actor, as far as the end of the job is concerned."""

    exclusive: bool
    made: bool
    ref: ActorRef[Any]

    @property
    def kind(self) -> Kind: ...

    def check_finished(self, task: str) -> None: ...

    def close(self, task: str) -> None: ...


L = TypeVar("L", bound=JobLine)


class JobLines(Generic[L]):
    """What of `refs.JobActors` is the same however the actors are reached."""

    def __init__(self, task: str, attempt: str, token: int) -> None:
        self._task = task
        self._holder = f"{task} (attempt {attempt})"
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


class SocketActors(JobLines[SocketLine]):
    """Implements `refs.JobActors`. `adopt` takes over memory that an actor has filled."""

    def __init__(self, task: str, attempt: str, token: int, adopt: Callable[[int, int], Place]) -> None:
        super().__init__(task, attempt, token)
        self._adopt = adopt

    def give(self, place: int, given: ActorIn) -> ActorRef[Any]:
        line = SocketLine(given.address, self._holder, self._token, place, exclusive=given.exclusive)
        self._lines[given.address] = line
        return line.ref

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ActorRef[Any]:
        name = f"{os.getpid()}-{os.urandom(12).hex()}"
        ask = cast("AsksForHosts", context.link())
        with messages.listen(name) as listener:
            ask.ask_for_host(name, self._token, kind, listener)
        line = SocketLine(name, self._holder, self._token, context.MADE, exclusive=True)
        line.make(kind, args, kwargs)
        self._lines[name] = line
        return line.ref

    def snapshot(self, ref: ActorRef[Any]) -> bytes | Place:
        answer, descriptors = self._lines[ref._id].keep()
        return self._adopt(descriptors[0], answer.size) if answer.size else answer.body
