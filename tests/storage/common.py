"""What the tests of storage share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, Self

import onceflow
from onceflow.storage import journal
from onceflow.storage.journal import AppendEntries, CreateRun, Entry, Journal, Outcome, Request
from onceflow.storage.sqlite import SqliteJournal

SOURCES = Path(onceflow.__file__).parent.parent
PROJECT = Path(__file__).parent.parent.parent


def create(id: str, name: str | None = None, **others: str | bool) -> CreateRun:
    settings = {"workflow": "trip", "digest": "d"} | others
    return CreateRun(id=id, name=name, graph=b"graph", settings=b"settings", **settings)  # type: ignore[arg-type]


def append(run: str, *bodies: bytes, epoch: int = 1) -> AppendEntries:
    return AppendEntries(run, epoch, [Entry("saved", "node", body) for body in bodies])


def commit(store: Journal, *requests: Request) -> Outcome:
    return journal.commit(store, requests)


def commit_all(store: Journal, batches: Sequence[Sequence[Request]]) -> list[Outcome]:
    """Submits all batches at once and waits for their answers, which come in order."""
    outcomes: list[Outcome] = []
    for batch in batches:
        store.submit(batch, outcomes.append)
    journal.commit(store, [])
    return outcomes


def bodies(store: Journal, run: str) -> list[bytes]:
    with store.load(run) as loaded:
        return [entry.body for entry in loaded.entries]


def quick(path: Path) -> SqliteJournal:
    """A journal that does not wait for the disk."""
    return SqliteJournal(path / "journal.db", durability="process")


class Opening(Protocol):
    """Opens a journal; all that one of these opens are of the same runs."""

    def __call__(self, *, clock: Callable[[], float] = time.time) -> Journal: ...


class Child:
    """Another process that runs a script, with pipes to and from it. The end of the context kills it."""

    def __init__(self, script: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), str(PROJECT)])},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        self._to.close()
        self._from.close()

    def read(self) -> str:
        """The next line it says, empty if it has ended."""
        return self._from.readline().decode().strip()

    def go_on(self) -> None:
        self._to.write(b"\n")
        self._to.flush()

    @property
    def process(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """As Ctrl-Z does. Returns when it has stopped."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        return self._process.wait()
