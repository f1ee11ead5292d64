"""Answers to other engines that ask about runs which are driven here (`peers`). Part of the engine's loop.

No peer can hold the loop up: sockets do not block, what is said too slowly or at too great length ends the connection,
there is a limit for how many there may be, and all answers together get only a part of the loop's time: after each one,
the next has to wait four times as long as it took. Events for a peer that does not read them are counted and not kept.
"""

from __future__ import annotations

import logging
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from onceflow.engine.handles import Event, Listening
from onceflow.engine.inspect.overview import Overview
from onceflow.engine.inspect.task_info import TaskInfo
from onceflow.engine.peers import messages
from onceflow.engine.runtime.loop import Loop
from onceflow.storage import forks
from onceflow.storage.sockets import Listener

MOST_CONNECTIONS = 64

PATIENCE = 10.0
"""Seconds in which a request has to arrive, and in which some of the answer has to be taken."""

SWEEP = 2.0
"""Seconds between two looks at connections that may have lasted too long."""

REST = 4
"""Times the duration of an answer that pass before the next one is made."""

MOST_KEPT = 1024 * 1024
"""Bytes of events that are kept for a peer that follows a run and does not read."""

TROUBLE = 1.0
"""Seconds until connections are accepted again, if that has failed: there are no descriptors left, say."""

logger = logging.getLogger(__name__)


class Source(Protocol):
    """The source of the answers. Asked in the loop's thread."""

    def describe(self, run: str) -> list[TaskInfo] | None:
        """None if the run is not driven here."""

    def survey(self, run: str) -> Overview | None: ...

    def add_listener(self, run: str, listener: Listening, ended: Callable[[], None]) -> bool:
        """Notify it of events, and call `ended` at the end. Returns whether the run is driven here."""

    def remove_listener(self, run: str, listener: Listening) -> None: ...


class Answering:
    """Listens from its creation on."""

    def __init__(self, listener: Listener, loop: Loop, source: Source) -> None:
        self._listener = listener
        self._loop = loop
        self._source = source
        self._connections: set[_Connection] = set()
        self._asked: deque[tuple[_Connection, messages.Describe | messages.Survey]] = deque()
        self._resting = False
        self._sweeping = False
        self._closed = False
        self._listen()

    def close(self) -> None:
        """In the loop's thread, when nothing else happens there any more."""
        self._closed = True
        for connection in list(self._connections):
            connection.close()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if not self._closed:
            self._loop.selector.register(self._listener, selectors.EVENT_READ, self._heard_knock)

    def _heard_knock(self) -> None:
        try:
            connection = self._listener.accept()
        except OSError as error:
            logger.warning("other engines cannot ask about the runs of this one: %s", error)
            self._loop.selector.unregister(self._listener)
            self._loop.later(TROUBLE, self._listen)
            return
        if connection is None:
            return
        if len(self._connections) >= MOST_CONNECTIONS:
            connection.close()
            return
        self._connections.add(_Connection(connection, self))
        if not self._sweeping:
            self._sweeping = True
            self._loop.later(SWEEP, self._sweep)

    def _sweep(self) -> None:
        now = time.monotonic()
        for connection in [one for one in self._connections if one.deadline is not None and one.deadline < now]:
            connection.close()
        self._sweeping = bool(self._connections)
        if self._sweeping:
            self._loop.later(SWEEP, self._sweep)

    @property
    def selector(self) -> selectors.BaseSelector:
        return self._loop.selector

    def forget(self, connection: _Connection) -> None:
        """It has been closed."""
        self._connections.discard(connection)
        if connection.follows is not None:
            self._source.remove_listener(connection.follows, connection)

    # -- requests ------------------------------------------------------------------------------------------------------

    def ask(self, connection: _Connection, request: messages.Request) -> None:
        match request:
            case messages.Follow(run):
                if self._source.add_listener(run, connection, connection.end):
                    connection.follows = run
                    connection.send(messages.Told([]))  # so the asking engine knows that nothing is missed now
                else:
                    connection.answer(messages.Refused("elsewhere"))
            case _:
                self._asked.append((connection, request))
                if not self._resting:
                    self._answer_next()

    def _answer_next(self) -> None:
        self._resting = False
        while self._asked:
            connection, request = self._asked.popleft()
            if connection in self._connections:
                begun = time.monotonic()
                try:
                    connection.answer(self._answer_to(request))
                except Exception:
                    logger.exception("a question of another engine could not be answered")
                    connection.close()
                self._resting = True
                self._loop.later(REST * (time.monotonic() - begun), self._answer_next)
                return

    def _answer_to(self, request: messages.Describe | messages.Survey) -> messages.Answer:
        match request:
            case messages.Describe(run):
                tasks = self._source.describe(run)
                return messages.Refused("elsewhere") if tasks is None else messages.Described(tasks)
            case messages.Survey(run):
                overview = self._source.survey(run)
                return messages.Refused("elsewhere") if overview is None else messages.Surveyed(overview)


class _Connection:
    """One that asks. As a `Listening` it passes events on."""

    def __init__(self, connection: socket.socket, answering: Answering) -> None:
        self.deadline: float | None = time.monotonic() + PATIENCE
        """When it has lasted too long. None while it waits for events."""
        self.follows: str | None = None
        """The run whose events it gets."""
        self._socket = connection
        self._answering = answering
        self._received = bytearray()
        self._asked = False
        self._rest = bytearray()
        """What has not been sent."""
        self._missed = 0
        """Events that were not kept."""
        self._ending = False
        """It is closed as soon as all has been sent."""
        self._writes = False
        """Whether the loop reports when it can be written to."""
        answering.selector.register(connection, selectors.EVENT_READ, self._ready)
        forks.watch(self)

    def tell(self, event: Event) -> None:
        if len(self._rest) > MOST_KEPT:
            self._missed += 1
        else:
            self.send(messages.Told([event]))

    def end(self) -> None:
        """The run has ended here."""
        self._ending = True
        self._send_rest()

    def answer(self, answer: messages.Answer) -> None:
        """Says this, and nothing more."""
        encoded = messages.encode(answer)
        if len(encoded) > messages.MOST_ANSWERED:
            encoded = messages.encode(messages.Refused("unable", f"an answer of {len(encoded)} bytes is too long"))
        self._rest += encoded
        self.end()

    def send(self, told: messages.Told) -> None:
        self._rest += messages.encode(told)
        self._send_rest()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._answering.selector.unregister(self._socket)
            self._socket.close()
            self._answering.forget(self)

    def leave_to_parent(self) -> None:
        self._socket.close()

    def _ready(self) -> None:
        """It can be read from, or written to."""
        if self._socket.fileno() < 0:  # closed by another callback of the same turn of the loop
            return
        try:
            self._receive()
            self._send_rest()
        except messages.Malformed as problem:
            self.answer(messages.Refused("unable", str(problem)))

    def _receive(self) -> None:
        try:
            received = self._socket.recv(messages.MOST_ASKED)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received or self._asked:  # the peer is gone, or sends more than the protocol allows
            self.close()
            return
        self._received += received
        message = messages.take(self._received, messages.MOST_ASKED)
        if message is not None:
            self._asked = True
            self.deadline = None
            self._answering.ask(self, messages.decode(message, messages.Request))  # type: ignore[arg-type]

    def _send_rest(self) -> None:
        if self._socket.fileno() < 0:
            return
        try:
            sent = self._socket.send(self._rest) if self._rest else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        del self._rest[:sent]
        if self._missed and not self._rest:
            missed, self._missed = self._missed, 0
            self._rest += messages.encode(messages.Told([Event("missed", detail=str(missed), time=time.time())]))
        if self._rest:
            if sent or self.deadline is None:
                self.deadline = time.monotonic() + PATIENCE
        elif self._ending:
            self.close()
            return
        elif self._asked:
            self.deadline = None
        if bool(self._rest) != self._writes:
            self._writes = bool(self._rest)
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._writes else 0)
            self._answering.selector.modify(self._socket, wanted, self._ready)
