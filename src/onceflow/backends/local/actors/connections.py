"""Actors in a worker: the connections of its jobs to the actors that they were given or have made."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from onceflow.backends.local.actors import messages
from onceflow.backends.local.actors.job_actors import JobActors, JobLine, PendingCall
from onceflow.backends.local.actors.messages import Answer, Call, Hello, Keep, Look, Make
from onceflow.backends.local.messages import ActorIn, encode
from onceflow.data.places import Place
from onceflow.errors import ActorLost
from onceflow.values import context, failures, packed_outputs
from onceflow.values.actors import ActorRef, ActorStatistics, Kind
from onceflow.values.packed_outputs import Packed


class AsksForHosts(Protocol):
    """What runs jobs in this process."""

    def ask_for_host(self, name: str, token: int, kind: type, listener: socket.socket | None) -> None:
        """Have a process started for an actor of this class, which listens there; or have the engine know of one that
        is started elsewhere."""


class Pending(PendingCall):
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


class SocketLine(JobLine):
    def __init__(self, id: str, holder: str, token: int, place: int, *, exclusive: bool) -> None:
        super().__init__(id, holder, token, place, exclusive=exclusive)
        self._connection: socket.socket | None = None
        self._under_way: deque[Pending] = deque()
        self._lock = threading.RLock()

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
        """Identifies the caller, and has the answer on its way. Once for each line."""
        self._check_open()
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
            self._check_open()
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
        return self.gone("its process has ended" if error is None else f"its process has ended ({error})")

    def unanswered(self) -> tuple[str, ...]:
        return tuple([pending.method for pending in self._under_way if pending.method != "hello"])

    def close(self, task: str) -> None:
        super().close(task)
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class SocketActors(JobActors[SocketLine]):
    """Implements `refs.JobActors`. `adopt` takes over memory that an actor has filled."""

    def __init__(self, task: str, attempt: str, token: int, adopt: Callable[[int, int], Place]) -> None:
        super().__init__(task, attempt, token)
        self._adopt = adopt

    def give(self, place: int, given: ActorIn) -> ActorRef[Any]:
        return self._add(SocketLine(given.address, self._holder, self._token, place, exclusive=given.exclusive))

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ActorRef[Any]:
        name = f"{os.getpid()}-{os.urandom(12).hex()}"
        ask = cast("AsksForHosts", context.link())
        with messages.listen(name) as listener:
            ask.ask_for_host(name, self._token, kind, listener)
        line = SocketLine(name, self._holder, self._token, context.MADE, exclusive=True)
        line.make(kind, args, kwargs)
        return self._add(line)

    def snapshot(self, ref: ActorRef[Any]) -> bytes | Place:
        answer, descriptors = self._lines[ref._id].keep()
        return self._adopt(descriptors[0], answer.size) if answer.size else answer.body
