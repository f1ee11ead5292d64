"""The engine's side of its porter: requests out, answers in, from the engine's selector loop and without a thread.

    while True:
        timeout = porter.turn()
        for key, _ in selector.select(timeout):
            key.data()

Methods only note what is wanted; `turn` sends it, many requests in a packet. Answers are delivered from the selector's
callback, each to the function that was given with the request, together with a descriptor if one comes with it.

What is asked of a porter that has died is not answered: its end is reported once (`lost`), with what was open.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from onceflow.data import packets
from onceflow.data.packets import Incoming, Outgoing
from onceflow.data.places import Place
from onceflow.data.porter.messages import (
    Count,
    Counted,
    Failed,
    Fetch,
    Fetched,
    Forget,
    Free,
    Hello,
    Keep,
    Load,
    Refused,
    Reply,
    Save,
    Saved,
    Spill,
    Spilled,
)
from onceflow.storage.blobs import Author

CONGESTED = 0.005
"""Seconds until a porter that had too much in its socket is tried again."""

PATIENCE = 10.0
"""Seconds that a porter has to end. It leaves at once, but what it writes at that moment may take a while."""

MOST = 4_000
"""Objects or segments that are named in one message."""

_Question = Fetch | Save | Spill | Load | Count


class Open(msgspec.Struct, frozen=True):
    """What was asked of a porter that died, and not answered. Objects, by number."""

    fetches: list[int]
    saves: list[int]
    """Some of them may have been saved nevertheless; their references are unknown, so they are orphans."""
    spills: list[int]


class Porter:
    """A porter as its engine sees it. Used from one thread.

    `start` gets the porter's end of a socket, to be passed on to the process that becomes one; it is closed here
    afterwards. `lost` is called when the porter has ended by itself, and then nothing more may be asked of it.
    `refused` is called with the number of an object that it cannot keep because it has no descriptor left.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        start: Callable[[socket.socket], None],
        *,
        lost: Callable[[Open], None],
        refused: Callable[[int], None],
    ) -> None:
        self._selector = selector
        self._lost = lost
        self._refused = refused
        self._connection, theirs = packets.pair()
        self._connection.setblocking(False)
        with theirs:
            start(theirs)
        self._incoming: Incoming[Reply] = Incoming(self._connection, Reply)
        self._outgoing = Outgoing(self._connection)
        self._asked: dict[int, tuple[_Question, Callable[[Any, int | None], None]]] = {}
        """Requests by their numbers, and the callbacks for their answers."""
        self._numbers = itertools.count(1)
        self._pidfd: int | None = None
        self.pid: int | None = None
        """Of the process, once it has said hello."""
        self.is_open = True
        selector.register(self._connection, selectors.EVENT_READ, self._listen)

    def keep(self, object: int, place: Place, descriptor: int | None = None) -> None:
        """Hold this object. The porter needs the descriptor of each segment once; it belongs to this object from now
        on."""
        assert self.is_open
        self._outgoing.add(Keep(object, place, descriptor is not None), descriptor)

    def fetch(self, object: int, done: Callable[[Fetched | Failed, int | None], None]) -> None:
        """Where is it? With the answer comes a descriptor of its segment, which is for `done` to close. It is missing
        if this process may have no more descriptors."""
        self._ask(Fetch(next(self._numbers), object), done)

    def save(
        self,
        object: int,
        author: Author,
        name: str,
        done: Callable[[Saved | Failed, int | None], None],
        checksum: int | None = None,
    ) -> None:
        """Make a blob of it. Until the answer, the object must neither be freed nor its memory be used again. With a
        checksum: of an object on disk, which is compared first."""
        self._ask(Save(next(self._numbers), object, author, name, checksum), done)

    def spill(self, object: int, done: Callable[[Spilled | Failed, int | None], None]) -> None:
        """Move it to disk. From the answer on it is at another place, and what it had of memory may be used again."""
        self._ask(Spill(next(self._numbers), object), done)

    def load(self, reference: str, done: Callable[[Fetched | Failed, int | None], None]) -> None:
        """Bring a blob that is no file into memory. With the answer comes the descriptor of a segment that has nothing
        else in it, as with `fetch`."""
        self._ask(Load(next(self._numbers), reference), done)

    def count(self, done: Callable[[Counted, int | None], None]) -> None:
        self._ask(Count(next(self._numbers)), done)

    def free(self, objects: Sequence[int]) -> None:
        """These have no readers left, now or later."""
        for start in range(0, len(objects), MOST):
            self._outgoing.add(Free(list(objects[start : start + MOST])))

    def forget(self, segments: Sequence[int]) -> None:
        """Nothing is in these segments, nor will be: they were given back, or the worker that had them is gone."""
        for start in range(0, len(segments), MOST):
            self._outgoing.add(Forget(list(segments[start : start + MOST])))

    def turn(self) -> float | None:
        """Sends what was asked. Returns the seconds after which it should be called again even if nothing happens."""
        try:
            return None if self._outgoing.send() else CONGESTED
        except (BrokenPipeError, ConnectionResetError):
            return None  # its end is about to be noticed

    def close(self) -> None:
        """Ends it and waits for that. What was asked and not answered will not be."""
        if not self.is_open:
            return
        self._let_go()
        with contextlib.suppress(OSError):  # the other end was quicker
            self._connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + PATIENCE
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while (received := self._incoming.receive()) is not None:
            for reply, descriptor in received:
                if isinstance(reply, Hello):
                    self._pidfd = descriptor
                elif descriptor is not None:
                    os.close(descriptor)
            if not poll.poll(max(0, (deadline - time.monotonic()) * 1_000)):
                self._kill()
                break
        self._dispose()

    def _ask(self, question: _Question, done: Callable[[Any, int | None], None]) -> None:
        assert self.is_open
        self._asked[question.number] = (question, done)
        self._outgoing.add(question)

    def _listen(self) -> None:
        if not self.is_open:  # closed by another callback of the same turn of the loop
            return
        received = self._incoming.receive()
        if received is None:
            self._let_go()
            self._dispose()
            self._lost(self._unanswered())
            return
        for reply, descriptor in received:
            self._deliver(reply, descriptor)

    def _deliver(self, reply: Reply, descriptor: int | None) -> None:
        if not self.is_open:  # closed by the receiver of the previous answer
            if descriptor is not None:
                os.close(descriptor)
            return
        match reply:
            case Hello(pid):
                self.pid, self._pidfd = pid, descriptor
            case Refused(object):
                self._refused(object)
            case _:
                self._asked.pop(reply.number)[1](reply, descriptor)

    def _unanswered(self) -> Open:
        questions = [question for question, _ in self._asked.values()]
        return Open(
            [question.object for question in questions if isinstance(question, Fetch)],
            [question.object for question in questions if isinstance(question, Save)],
            [question.object for question in questions if isinstance(question, Spill)],
        )

    def _kill(self) -> None:
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _let_go(self) -> None:
        self.is_open = False
        self._selector.unregister(self._connection)
        self._outgoing.close()

    def _dispose(self) -> None:
        self._connection.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
