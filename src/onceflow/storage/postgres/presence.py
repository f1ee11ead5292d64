"""An engine's presence in the database: its row, its lease, and a listener for notifications.

An engine enrols when it is about to write for the first time; a process that only reads leaves no trace. From then on a
thread with a connection of its own renews the lease (`storage.leases`), and listens: other engines call when they have
left something in the journal. A call says only "look", so one that gets lost costs time and nothing else; after a new
connection is made, it looks anyway.

A lease that could not be renewed in time is lost for good. The engine stops everything and must be opened anew, under a
new id: others may have taken its runs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from onceflow.errors import StorageError
from onceflow.storage.leases import SECONDS, Holding
from onceflow.storage.postgres import connections, schema
from onceflow.storage.run_stores import Introduction

if TYPE_CHECKING:
    import psycopg

KEPT = 600.0
"""Seconds for which a lease that has ended can still be seen."""

CHANNEL = "onceflow"
"""Where all engines listen."""

logger = logging.getLogger(__name__)


class Member(msgspec.Struct, frozen=True):
    """How an engine introduces itself."""

    id: str
    home: str = ""
    """Equal for engines that can prove each other's death by locks."""
    about: Introduction = Introduction()
    seconds: float = SECONDS
    """Of its lease."""


class Attendance:
    """`heard` is called when another engine has called, `renewed` with the moment at which everything has to stop if
    nothing comes after it, and `lost` when that moment has come. All from a thread of its own."""

    heard: Callable[[], None]
    renewed: Callable[[float], None]
    lost: Callable[[], None]

    def __init__(self, url: str, place: str, member: Member) -> None:
        self._url = url
        self._place = place
        self._member = member
        self._about = member.about
        self.heard = self.lost = lambda: None
        self.renewed = lambda moment: None
        self._holding = Holding(member.seconds)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._over = False
        self._said = True
        """Whether others can know what the engine says about itself."""
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @property
    def stop_at(self) -> float | None:
        """When everything has to stop, as known so far; None before it has enrolled."""
        return None if self._holding.asked is None else self._holding.stop_at

    def patience(self) -> float:
        """Seconds for which it makes sense to wait for a lost server: others go on when the lease has ended."""
        stop_at = self.stop_at
        return connections.PATIENCE if stop_at is None else max(0.0, min(connections.PATIENCE, stop_at - now()))

    @property
    def is_enrolled(self) -> bool:
        return self._thread is not None

    def enrol(self) -> None:
        """Returns when others can know that this engine lives. Raises what `connections.persistently` raises."""
        if self.is_enrolled:
            return
        with self._lock:
            if not self._over and not self.is_enrolled:
                connection = connections.persistently(self._begin, self._place)
                self._thread = threading.Thread(
                    target=self._attend, args=(connection,), name=f"onceflow lease {self._member.id}", daemon=True
                )
                self._thread.start()

    def introduce(self, about: Introduction) -> None:
        """What the engine says about itself from now on. Makes it known, if it is not yet."""
        self._about = about
        self.enrol()
        self._said = False
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Other engines need not wait for the end of its lease. Not before everything is written and no worker is
        left."""
        with self._lock:
            if self._over:
                return
            self._over = True
            if self._thread is None:
                os.close(self._wake)
                return
            os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def leave_to_parent(self) -> None:
        self._over = True

    def _begin(self) -> psycopg.Connection[Any]:
        asked = now()
        connection = self._connect()
        connection.execute(schema.FORGET_DEAD, (KEPT,))
        about = msgspec.json.encode(self._about).decode()
        wanted = {"id": self._member.id, "home": self._member.home, "about": about, "seconds": self._member.seconds}
        connection.execute(schema.ENROL, wanted)
        if not connection.execute(schema.RENEW, (self._member.id,)).rowcount:
            raise StorageError(self._place, f"the lease of engine {self._member.id} has run out")
        self._granted(asked)
        return connection

    def _connect(self) -> psycopg.Connection[Any]:
        connection = connections.connect(self._url)
        try:
            for channel in (CHANNEL, f"{CHANNEL}_{self._member.id}"):
                connection.execute(f'LISTEN "{channel}"'.encode())
        except BaseException:
            connection.close()
            raise
        return connection

    def _granted(self, asked: float) -> None:
        self._holding.granted(asked)
        self.renewed(self._holding.stop_at)

    def _attend(self, connection: psycopg.Connection[Any] | None) -> None:
        pause = connections.FIRST
        while not self._over and now() < self._holding.stop_at:
            try:
                if connection is None:
                    connection = self._connect()
                    self._renew(connection)
                    self.heard()
                self._listen(connection)
                if not self._over:
                    self._renew(connection)
                pause = connections.FIRST
            except _Expired:
                break
            except connections.library().Error as problem:
                logger.warning("engine %s has no connection to its journal: %s", self._member.id, str(problem).strip())
                if connection is not None:
                    connection.close()
                    connection = None
                self._rest(pause)
                pause = min(2 * pause, connections.LAST)
        if not self._over:
            logger.error("engine %s has lost its lease and stops everything", self._member.id)
            self.lost()
        self._leave(connection)

    def _renew(self, connection: psycopg.Connection[Any]) -> None:
        asked = now()
        if not connection.execute(schema.RENEW, (self._member.id,)).rowcount:
            raise _Expired
        self._granted(asked)
        if not self._said:
            self._said = True
            connection.execute(schema.INTRODUCE, (msgspec.json.encode(self._about).decode(), self._member.id))

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        """Until the lease is to be renewed, or all is over."""
        while not self._over and self._said and (left := self._holding.renew_at - now()) > 0:
            self._rest(left, connection.fileno())
            if list(connection.notifies(timeout=0)):
                self.heard()

    def _rest(self, seconds: float, *descriptors: int) -> None:
        select.select([self._wake, *descriptors], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def _leave(self, connection: psycopg.Connection[Any] | None) -> None:
        """If it cannot be said, others wait for the end of the lease."""
        if connection is not None:
            with contextlib.suppress(connections.library().Error), connection:
                connection.execute(schema.LEAVE, (self._member.id,))
                connection.execute(schema.CALL, (CHANNEL, ""))  # other engines may continue what it has left


class _Expired(Exception):
    """The lease has ended before it was renewed."""


def now() -> float:
    """Seconds that go on while the machine sleeps: so much a lease does, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
