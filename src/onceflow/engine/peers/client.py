"""Requests to another engine, in another process, about the runs that it drives (`peers`)."""

from __future__ import annotations

import select
import time
from pathlib import Path
from typing import TYPE_CHECKING

from onceflow.engine.peers import messages
from onceflow.storage import sockets
from onceflow.storage.home import ENGINES
from onceflow.storage.locks import Engines

if TYPE_CHECKING:
    from onceflow.engine.handles import Event
    from onceflow.engine.inspect.overview import Overview
    from onceflow.engine.inspect.task_info import TaskInfo

PATIENCE = 5.0
"""Seconds that an engine has for its answer."""


CHECK_EVERY = 0.5
"""Seconds after which an engine that has not answered is looked at: it may have been stopped."""


class NotAnswered(Exception):
    """The engine is dead, too busy, or of another version."""


class Stopped(NotAnswered):
    """Its process is stopped (Ctrl-Z): there is no point in waiting."""


class Elsewhere(NotAnswered):
    """It does not drive the run any more."""


def describe(home: Path, engine: str, run: str) -> list[TaskInfo]:
    """Raises `NotAnswered`."""
    answer = _ask(home, engine, messages.Describe(run))
    if not isinstance(answer, messages.Described):
        raise NotAnswered(f"it said {type(answer).__name__}")
    return answer.tasks


def survey(home: Path, engine: str, run: str) -> Overview:
    """Raises `NotAnswered`."""
    answer = _ask(home, engine, messages.Survey(run))
    if not isinstance(answer, messages.Surveyed):
        raise NotAnswered(f"it said {type(answer).__name__}")
    return answer.overview


class Events:
    """The events of a run that another engine drives, from now on. Raises `NotAnswered`."""

    def __init__(self, home: Path, engine: str, run: str) -> None:
        self._connection = _Connection(home, engine, messages.Follow(run))
        try:
            self._connection.receive(PATIENCE)
        except BaseException:
            self.close()
            raise

    def next(self, seconds: float) -> list[Event] | None:
        """What happens within so many seconds: as soon as something does, or nothing. None if there will be no more:
        the run has ended, or its engine has."""
        try:
            answer = self._connection.receive(seconds, none_yet=messages.Told([]))
        except NotAnswered:
            return None
        return answer.events if isinstance(answer, messages.Told) else None

    def close(self) -> None:
        self._connection.close()


def _ask(home: Path, engine: str, request: messages.Request) -> messages.Answer:
    connection = _Connection(home, engine, request)
    try:
        return connection.receive(PATIENCE)
    finally:
        connection.close()


class _Connection:
    def __init__(self, home: Path, engine: str, request: messages.Request) -> None:
        self._received = bytearray()
        self._engines, self._engine = Engines(home / ENGINES), engine
        self._check_process()
        try:
            self._socket = sockets.connect(home / ENGINES, engine, PATIENCE)
            try:
                self._socket.sendall(messages.encode(request))
            except BaseException:
                self._socket.close()
                raise
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN)
        except OSError as error:
            raise NotAnswered(f"it cannot be reached: {error}") from error

    def receive(self, seconds: float, none_yet: messages.Answer | None = None) -> messages.Answer:
        """The next message; `none_yet` if there is none within so many seconds. Raises `NotAnswered`."""
        deadline = time.monotonic() + seconds
        try:
            while (message := messages.take(self._received, messages.MOST_ANSWERED)) is None:
                left = max(0.0, deadline - time.monotonic())
                if not self._poll.poll((left if none_yet is not None else min(left, CHECK_EVERY)) * 1000):
                    if none_yet is not None:
                        return none_yet
                    self._check_process()
                    if left > CHECK_EVERY:
                        continue
                    raise NotAnswered(f"it has not answered within {seconds:g} seconds")
                received = self._socket.recv(1024 * 1024)
                if not received:
                    raise NotAnswered("it has broken the connection off")
                self._received += received
            answer: messages.Answer = messages.decode(message, messages.Answer)  # type: ignore[arg-type]
        except (OSError, messages.Malformed) as error:
            raise NotAnswered(str(error)) from error
        if isinstance(answer, messages.Refused):
            raise Elsewhere if answer.why == "elsewhere" else NotAnswered(answer.text)
        return answer

    def _check_process(self) -> None:
        process = self._engines.process(self._engine)
        if process is not None and process.is_stopped:
            raise Stopped(f"it is {process}")

    def close(self) -> None:
        self._socket.close()
