"""Physical limits: what the machine needs for the least that a workflow engine cannot do without.

Each is measured by the shortest program that does it. A number is the median of a short burst, in seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.workloads import _measuring

BURST = 30
RECORD = os.urandom(300)
BLOCK = 64 * 2**20
"""Bytes that are copied at once: more than any cache holds."""

Measure = Callable[[], float]

ECHO = """
import os, sys
source, target = map(int, sys.argv[1:])
while data := os.read(source, 4096):
    os.write(target, data)
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    name: str
    opened: Callable[[Path], contextlib.AbstractContextManager[Measure]]
    """Takes a folder on the disk that counts."""


def _median(once: Callable[[], object]) -> Measure:
    def measure() -> float:
        seconds: list[float] = []
        for _ in range(BURST):
            started = time.perf_counter()
            once()
            seconds.append(time.perf_counter() - started)
        return statistics.median(seconds)

    return measure


@contextlib.contextmanager
def _syncing(folder: Path) -> Iterator[Measure]:
    with open(folder / "synced", "ab", buffering=0) as file:

        def once() -> None:
            file.write(RECORD)
            os.fsync(file)

        yield _median(once)


@contextlib.contextmanager
def _committing(folder: Path) -> Iterator[Measure]:
    with contextlib.closing(_measuring.PlainCommits(folder)) as plain:
        yield lambda: statistics.median(plain.seconds() for _ in range(BURST))


@contextlib.contextmanager
def _socket_trips(_: Path) -> Iterator[Measure]:
    ours, theirs = socket.socketpair()
    with _echoing(theirs.fileno(), theirs.fileno()), ours:
        theirs.close()

        def once() -> None:
            ours.sendall(RECORD)
            ours.recv(4096)

        once()
        yield _median(once)


@contextlib.contextmanager
def _pipe_wakes(_: Path) -> Iterator[Measure]:
    their_input, our_output = os.pipe()
    our_input, their_output = os.pipe()
    with _echoing(their_input, their_output), open(our_output, "wb", 0) as output, open(our_input, "rb", 0) as answers:
        os.close(their_input)
        os.close(their_output)

        def once() -> None:
            output.write(b".")
            answers.read(1)

        once()
        trip = _median(once)
        yield lambda: trip() / 2


@contextlib.contextmanager
def _echoing(source: int, target: int) -> Iterator[None]:
    """A process that sends back what it gets. It ends by itself when the other ends are closed."""
    command = [sys.executable, "-I", "-S", "-c", ECHO, str(source), str(target)]
    process = subprocess.Popen(command, pass_fds={source, target}, start_new_session=True)
    try:
        yield
    finally:
        process.wait()


@contextlib.contextmanager
def _copying(_: Path) -> Iterator[Measure]:
    """Seconds for a gigabyte."""
    source, target = memoryview(bytearray(BLOCK)), memoryview(bytearray(BLOCK))

    def measure() -> float:
        seconds: list[float] = []
        for _ in range(5):
            started = time.perf_counter()
            target[:] = source
            seconds.append(time.perf_counter() - started)
        return statistics.median(seconds) * 1e9 / BLOCK

    yield measure


SYNC = Limit("a small append and fsync", _syncing)
COMMIT = Limit("a plain SQLite commit", _committing)
SOCKET = Limit("a round trip through a Unix socket to another process", _socket_trips)
WAKE = Limit("a byte through a pipe that wakes another process", _pipe_wakes)
COPY = Limit("copying memory", _copying)
