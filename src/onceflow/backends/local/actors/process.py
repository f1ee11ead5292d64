"""The job in an actor's process: it makes or restores the actor, and calls its methods, one at a time.

One thread serves all connections: calls of several attempts that share the actor come one after the other. When an
attempt comes that has the actor for itself, an attempt that is still connected does not count any more, and is
disconnected.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from typing import Any, Protocol, cast

from onceflow.backends.local.actors import messages
from onceflow.backends.local.actors.messages import Answer, Call, Hello, Keep, Make
from onceflow.backends.local.messages import Receiver, encode
from onceflow.backends.local.refs import Frozen
from onceflow.values import actors, context, failures, packed_outputs
from onceflow.values.actors import ActorStatistics, Kind
from onceflow.values.context import job_token, running

inherited: socket.socket | None = None
"""Where this process listens. It was forked for that."""


class Speaks(Protocol):
    """What runs the job of an actor."""

    def speak_for(self, token: int) -> None:
        """What is printed from now on counts as this job's; with 0, as no job's."""


def host(name: str, frozen: Frozen | None) -> None:
    """Does not return. `frozen` is the snapshot that it is restored from, unless it is yet to be made."""
    assert inherited is not None
    running.set(None)  # what the actor does is not part of an attempt
    job_token.set(0)
    server = _Server(inherited, name)
    if frozen is not None:
        server.restore(frozen)
    server.serve()


class _Peer:
    """An attempt that is connected."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.receiver: Receiver[messages.ToActor] = messages.receiver(connection)
        self.holder = ""
        self.exclusive = False
        self.token = 0


class _Server:
    def __init__(self, listener: socket.socket, name: str) -> None:
        self._listener = listener
        self._name = name
        self._actor: Any = None
        self._kind: Kind | None = None
        self._failure: bytes | None = None
        """What making or restoring it raised."""
        self._speaker = cast("Speaks", context.link())
        self._peers: dict[int, _Peer] = {}
        self._calls = 0
        self._busy = 0.0
        self._since = time.time()
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)

    def restore(self, frozen: Frozen) -> None:
        try:
            self._actor = actors.restore(frozen.content)
            self._kind = actors.kind_of(self._actor)
        except BaseException as error:
            self._failure = self._told(error)

    def serve(self) -> None:
        while True:
            for descriptor, _ in messages.ready(self._poll):
                if descriptor == self._listener.fileno():
                    self._accept()
                elif (peer := self._peers.get(descriptor)) is not None:
                    self._hear(peer)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        try:
            messages.check_user(connection)
        except PermissionError:
            connection.close()
            return
        self._peers[connection.fileno()] = _Peer(connection)
        self._poll.register(connection, select.POLLIN)

    def _hear(self, peer: _Peer) -> None:
        try:
            received = peer.receiver.receive()
            if received is None:
                self._leave(peer)
                return
            message, descriptors = received
            answer, packed = self._answer(peer, message, descriptors)
            if packed is None:
                peer.connection.send(encode(answer))
            else:
                try:
                    messages.send(peer.connection, answer, packed)
                except (BrokenPipeError, ConnectionResetError):
                    raise
                except OSError as error:  # there is no room for what is large
                    peer.connection.send(encode(Answer(b"", failure=self._told(error))))
        except (BrokenPipeError, ConnectionResetError):
            self._leave(peer)

    def _leave(self, peer: _Peer) -> None:
        if self._peers.pop(peer.connection.fileno(), None) is not None:
            self._poll.unregister(peer.connection)
            peer.connection.close()

    def _answer(
        self, peer: _Peer, message: messages.ToActor, descriptors: tuple[int, ...]
    ) -> tuple[Answer, packed_outputs.Packed | None]:
        began = time.perf_counter()
        self._speaker.speak_for(peer.token)
        value: object
        try:
            match message:
                case Call(method, body, size):
                    self._calls += 1
                    value = self._call(peer, method, messages.unpack(body, size, descriptors))
                case Make(body, size):
                    value = self._make(messages.unpack(body, size, descriptors))
                case Hello(holder, exclusive, token):
                    peer.token = token
                    value = self._greet(peer, holder, exclusive)
                case Keep():
                    return Answer(b""), actors.snapshot(self._known())
                case _:
                    value = self._look()
            return Answer(b""), packed_outputs.pack(value)
        except BaseException as error:  # also SystemExit and the like: an actor does not end by raising
            return Answer(b"", failure=self._told(error)), None
        finally:
            self._busy += time.perf_counter() - began
            self._speaker.speak_for(0)

    def _told(self, error: BaseException) -> bytes:
        return failures.dump(error, f"actor {self._name} in process {os.getpid()}")

    def _known(self) -> Any:
        if self._failure is not None:
            raise failures.load(self._failure)
        return self._actor

    def _make(self, made: Any) -> Kind:
        kind, args, kwargs = made
        try:
            self._actor = kind(*args, **kwargs)
        except BaseException as error:
            self._failure = self._told(error)
            raise
        self._kind = actors.kind_of(self._actor)
        return self._kind

    def _greet(self, peer: _Peer, holder: str, exclusive: bool) -> Kind | None:
        if exclusive:
            for other in list(self._peers.values()):
                if other is not peer:
                    self._leave(other)
        peer.holder, peer.exclusive = holder, exclusive
        if self._failure is not None:
            raise failures.load(self._failure)
        return self._kind

    def _call(self, peer: _Peer, method: str, arguments: Any) -> Any:
        actor = self._known()
        assert self._kind is not None
        if not peer.exclusive and not self._kind.methods[method]:
            others = [other.holder for other in self._peers.values() if other is not peer and other.holder]
            raise actors.refuse(self._kind, method, peer.holder, others)
        args, kwargs = arguments
        return getattr(actor, method)(*args, **kwargs)

    def _look(self) -> ActorStatistics:
        holders = tuple([peer.holder for peer in self._peers.values()])
        kind = "" if self._kind is None else self._kind.name
        return ActorStatistics(kind, os.getpid(), self._calls, self._busy, time.time() - self._since, holders)


def adopt(descriptor: int) -> None:
    """To be called in a process that is forked to be an actor's."""
    global inherited
    inherited = socket.socket(fileno=descriptor)
    with contextlib.suppress(OSError):
        inherited.setblocking(True)
