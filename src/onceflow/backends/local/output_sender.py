"""The worker's side of reports beside outcomes: output and logs of user code, and its progress.

All of it goes through the *channel*, a socket of its own: if the pool lags behind, code that prints waits
(back-pressure), and neither other jobs nor outcomes do. So nothing is dropped and nothing piles up. What is in the
socket when a worker dies is not lost.

`sys.stdout` and `sys.stderr` are text streams that look at the context variable `token`, so that jobs which share a
worker are distinguished. Complete lines are sent at once, the rest when it is flushed or the job ends.

Descriptors 1 and 2 are pipes, for everything that does not know of these streams: C code, subprocesses, faulthandler.
The pool reads them; it is not kept from that by code that holds the interpreter lock, and it can still do so when the
worker is dead. Which job wrote what, and before or after which message, is settled here: before the worker sends
anything for the job in the lane, and when that job ends, it empties the pipes itself and sends what it found. So what
the pool finds in them was written by the job that has started last (the *mark*), after the last message: how many
messages have been sent stands in the page that worker and pool share. Mark and pipe cannot be read at one moment,
though, and a worker may go on to the next job in between. So the pool does not look while a job has only just begun.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from onceflow.backends.local.messages import Hidden, Output, Progress, send
from onceflow.backends.local.reports import Stream
from onceflow.values import secret_masks
from onceflow.values.context import job_token

CHUNK = 64 * 1024
"""Bytes of text in a message at most, and of a line that is kept back until it is complete. A pipe holds as much."""


holding: dict[int, list[Output]] = {}
"""Number under which something is printed of which it is not yet known whose it is → that."""


def release(token: int) -> list[Output]:
    """What was held back under this number, with the rest of a line. Nothing more is."""
    for stream in (sys.__stdout__, sys.__stderr__):
        sink = getattr(stream, "buffer", None)
        if isinstance(sink, Sink):
            sink.end(token)
    return holding.pop(token)


class Channel:
    """Sends messages, from any thread. `sent` is the place in the shared page where they are counted."""

    def __init__(self, connection: socket.socket, sent: memoryview, pipes: dict[int, Stream]) -> None:
        self.lane = 0
        """The token of the job that runs in the lane."""
        self._connection = connection
        self._sent = sent
        self._pipes = pipes
        """Reading end → the stream it belongs to."""
        self._poll = select.epoll()
        for pipe in pipes:
            self._poll.register(pipe, select.EPOLLIN)
        self._lock = threading.Lock()
        self._count = 0
        self.is_copy = False
        """Whether this is a child that user code forked. It must not speak for the worker."""

    def hide(self, texts: list[bytes]) -> None:
        """Sends to the pool, which reads what goes past Python's streams, what it has to mask there."""
        if not self.is_copy:
            with self._lock:
                self._empty_pipes()
                self._send(Hidden(texts))

    def send(self, message: Output | Progress) -> None:
        """Waits until the pool has room for it."""
        if self.is_copy:
            return
        if holding and (held := holding.get(message.token)) is not None:
            if isinstance(message, Output):
                held.append(message)
            return
        with self._lock:
            if message.token == self.lane:
                self._empty_pipes()
            self._send(message)

    def end(self) -> None:
        """The job in the lane ends: what is in the pipes is its."""
        if self._pipes and self._poll.poll(0):
            with self._lock:
                self._empty_pipes()

    def become_copy(self) -> None:
        self.is_copy = True
        self._lock = threading.Lock()

    def _empty_pipes(self) -> None:
        for pipe, _ in self._poll.poll(0) if self._pipes else ():
            with contextlib.suppress(BlockingIOError):  # the pool was quicker
                if data := os.read(pipe, CHUNK):
                    self._send(Output(self.lane, self._pipes[pipe], data, time.time(), raw=True))

    def _send(self, message: Output | Progress | Hidden) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the pool is gone, and so is this worker soon
            send(self._connection, message)
            self._count += 1
            self._sent[0] = self._count


class Sink(io.BufferedIOBase):
    """What is under `sys.stdout` or `sys.stderr`."""

    def __init__(self, channel: Channel, stream: Stream, descriptor: int) -> None:
        self._channel = channel
        self._stream = stream
        self._descriptor = descriptor
        self.name = f"<{stream}>"
        self.rests: dict[int, bytes] = {}
        """Token → the beginning of a line."""

    def write(self, data: Any, /) -> int:
        if self.closed:
            raise ValueError("write to closed file")
        content = bytes(data)
        if self._channel.is_copy:
            _write_all(self._descriptor, content)
            return len(content)
        token = job_token.get() or self._channel.lane
        whole = self.rests.pop(token, b"") + content
        cut = len(whole) - secret_masks.uncertain(whole) if len(whole) > CHUNK else whole.rfind(b"\n") + 1
        if cut < len(whole):
            self.rests[token] = whole[cut:]
        self._send(token, whole[:cut])
        return len(content)

    def end(self, token: int) -> None:
        """Sends what the job has written of a line."""
        self._send(token, self.rests.pop(token, b""))

    def flush(self) -> None:
        """What may be the beginning of a secret waits for the rest of it, or for the end of the job."""
        if not self.closed and self.rests and not self._channel.is_copy:
            token = job_token.get() or self._channel.lane
            rest = self.rests.pop(token, b"")
            cut = len(rest) - secret_masks.uncertain(rest)
            if cut < len(rest):
                self.rests[token] = rest[cut:]
            self._send(token, rest[:cut])

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def _send(self, token: int, content: bytes) -> None:
        content = secret_masks.mask_bytes(content)
        for start in range(0, len(content), CHUNK):
            self._channel.send(Output(token, self._stream, content[start : start + CHUNK], time.time()))


class Handler(logging.Handler):
    """Sends the records of all loggers."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = secret_masks.mask(self.format(record))
            if self._channel.is_copy:
                _write_all(2, f"{record.levelname}:{record.name}:{text}\n".encode(errors="backslashreplace"))
                return
            content = text.encode(errors="backslashreplace")
            token = job_token.get() or self._channel.lane
            for start in range(0, len(content) or 1, CHUNK):
                part = content[start : start + CHUNK]
                self._channel.send(Output(token, "log", part, record.created, record.levelno, record.name))
        except Exception:
            self.handleError(record)


class Streams:
    """Standard output, standard error and `logging` of this process, on their way to the pool."""

    def __init__(self, channel: Channel, log_level: int) -> None:
        self._channel = channel
        self._out = Sink(channel, "stdout", 1)
        self._err = Sink(channel, "stderr", 2)
        sys.stdout = sys.__stdout__ = _text(self._out)  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = _text(self._err)  # type: ignore[misc]
        root = logging.getLogger()
        root.addHandler(Handler(channel))
        root.setLevel(log_level)

    def end(self, token: int) -> None:
        """Sends what is left of a job that ends."""
        if self._out.rests:
            self._out.end(token)
        if self._err.rests:
            self._err.end(token)
        if token == self._channel.lane:
            self._channel.end()


def take_over(standard: Iterable[int]) -> None:
    """Makes these the descriptors 1 and 2."""
    for number, descriptor in enumerate(standard, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _text(sink: Sink) -> io.TextIOWrapper:
    return io.TextIOWrapper(sink, "utf-8", "backslashreplace", write_through=True)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
