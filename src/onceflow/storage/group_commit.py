"""Group commit, for journals with a writer thread: batches queue up, and all that wait when the thread is free share
one commit. Each journal writes a group in its own way (`writer` for SQLite, `postgres.writer`).

A caller may also commit in its own thread while no other thread writes or waits, which spares two switches of threads.

When the storage fails, everything is answered with the error until the journal is opened anew: what follows a lost
write must not be written. The engine learns of it first (`when_failed`), so that it starts nothing more.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from onceflow.errors import OnceflowError, StorageClosed, StorageDamaged, StorageError
from onceflow.storage.journal import Answer, Entry, Failed, OnFailure, Outcome, Request, Statistics

logger = logging.getLogger(__name__)

Batch = tuple[Sequence[Request], Answer]


class GroupWriter(ABC):
    """All public methods but `leave_to_parent` are thread-safe. Subclasses call `_start` when they are ready."""

    def __init__(self, place: str) -> None:
        self._place = place
        """What errors call the journal."""
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed: str | None = None
        """Why nothing can be submitted any more."""
        self._failure: StorageError | None = None
        self._announced: StorageError | None = None
        """The engine was notified: it starts nothing more, and nothing will be written soon."""
        self._on_failure: OnFailure = _ignore
        self._commits = self._batches = self._entries = self._bytes = 0
        self._commit_seconds = 0.0
        self._unanswered = 0
        """Batches that were queued and whose answers have not been given."""
        self._writing = threading.Lock()
        """Held by the thread that uses the connection."""
        self._thread = threading.Thread(target=self._work, name=f"onceflow journal {place}", daemon=True)

    @abstractmethod
    def _write_group(self, first: Batch) -> bool:
        """Commits and answers what is queued. Whether the journal ends after it."""

    @abstractmethod
    def _transact(self, batches: list[Sequence[Request]]) -> list[Outcome]:
        """One transaction. Whatever it raises, nothing has happened."""

    @abstractmethod
    def _let_go(self) -> None:
        """Close everything, in the thread that writes."""

    def _start(self) -> None:
        self._thread.start()

    def submit(self, requests: Sequence[Request], answer: Answer) -> None:
        if self._closed is not None:
            raise StorageClosed(self._place, self._closed)
        with self._lock:
            if self._closed is not None:
                raise StorageClosed(self._place, self._closed)
            self._unanswered += 1
            self._queue.put((requests, answer))

    def close(self) -> None:
        """Commits what was submitted before. Not to be called by an answer."""
        if self._closed is None:
            with self._lock:
                if self._closed is None:
                    self._closed = "it was closed"
                    self._queue.put(None)
        self._join()

    def _join(self) -> None:
        """Returns when the thread has ended."""
        self._thread.join()

    def when_failed(self, then: OnFailure) -> None:
        with self._lock:
            self._on_failure = then
            failure = self._announced
        if failure is not None:
            then(failure)

    def fail(self, error: StorageError) -> None:
        """Nothing more is to be written: another thread has found that out."""
        if self._failure is None:
            self._fail(error)

    def leave_to_parent(self) -> None:
        self._closed = "it was opened by the process that this one was forked from"

    def withdraw(self, answer: Answer) -> StorageError | None:
        """See `Journal`. Nothing waits for locks of other programs here."""
        return None

    @abstractmethod
    def commit_at_once(self, requests: Sequence[Request]) -> Outcome | None:
        """Commits in the caller's thread, if no other thread writes or waits. None if that cannot be; nothing has
        happened then."""

    def statistics(self) -> Statistics:
        return Statistics(
            commits=self._commits,
            batches=self._batches,
            entries=self._entries,
            bytes=self._bytes,
            commit_seconds=self._commit_seconds,
            turn_seconds=0.0,
        )

    def _count(self, batches: int, entries: int, size: int, started: float) -> None:
        """A transaction is durable."""
        self._commit_seconds += time.perf_counter() - started
        self._commits += 1
        self._batches += batches
        self._entries += entries
        self._bytes += size

    def _may_commit_at_once(self) -> bool:
        """Whether no thread waits. To be called by the holder of `_writing`."""
        with self._lock:
            return not self._unanswered and self._closed is None and self._failure is None

    def _work(self) -> None:
        ending = False
        while not ending:
            first = self._queue.get()
            if first is None:
                break
            with self._writing:
                ending = self._write_group(first)
        with self._writing:
            self._let_go()

    def _fail(self, error: StorageError) -> None:
        self._failure = error
        self._announce(error)
        logger.error("the journal writes nothing more: %s", error)

    def _announce(self, error: StorageError) -> None:
        with self._lock:
            if self._announced is not None:
                return
            self._announced = error
            then = self._on_failure
        then(error)

    def _drain(self, first: Batch) -> tuple[list[Batch], bool]:
        """What is queued now, and whether the journal ends after it."""
        group = [first]
        for _ in range(self._queue.qsize()):
            batch = self._queue.get()
            if batch is None:
                return group, True
            group.append(batch)
        return group, False

    def _answer(self, group: list[Batch], outcomes: list[Outcome]) -> None:
        for (_, answer), outcome in zip(group, outcomes, strict=True):
            try:
                answer(outcome)
            except Exception:
                logger.exception("an answer of the journal %s was not taken", self._place)
        with self._lock:
            self._unanswered -= len(group)

    def _one_by_one(self, batches: list[Sequence[Request]], reason: Exception) -> list[Outcome]:
        """Something in these cannot be written: find out what, and write the rest."""
        if len(batches) > 1:
            return list(itertools.chain.from_iterable(self._commit([batch]) for batch in batches))
        if isinstance(reason, StorageDamaged):  # about the rows of its runs: those of others may be whole
            return [self._failed(batches[0], reason)]
        return [self._failed(batches[0], StorageError(self._place, f"this cannot be written: {reason}"))]

    @abstractmethod
    def _commit(self, batches: list[Sequence[Request]]) -> list[Outcome]:
        """Transacts, and turns what goes wrong into outcomes."""

    def _failed(self, requests: Sequence[Request], error: StorageError) -> Outcome:
        return Outcome((Failed(error),) * len(requests), ok=False)


def size_of(entry: Entry) -> int:
    return len(entry.body) + (0 if entry.value is None else len(entry.value))


def _ignore(error: OnceflowError) -> None:
    """There is no engine that has to stop."""
