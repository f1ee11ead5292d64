"""The engines that share a database, on any hosts: which of them are alive, and how to notify them.

Of an engine with the same home directory, on the same host, the lock shows it, at once and with certainty. Of any other
one only its lease does: it counts as alive until that has ended by the database's clock (`storage.leases`).
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from onceflow.storage.file_identity import FileIdentity
from onceflow.storage.locks import Engines
from onceflow.storage.postgres import schema
from onceflow.storage.postgres.journal import PostgresJournal
from onceflow.storage.postgres.presence import CHANNEL, Member
from onceflow.storage.run_stores import EngineRow, Introduction

RECENT = 0.1
"""Seconds for which an engine that was alive is not asked for again: a list of runs asks for each of them."""

BOOT = Path("/proc/sys/kernel/random/boot_id")


class Fleet:
    """Opens the journal as well."""

    def __init__(self, url: str, path: Path, engine: str, about: Introduction, lease: float, locks: Engines) -> None:
        self._locks = locks
        self._home = identity(path)
        member = Member(engine, self._home, about, lease)
        self.journal = PostgresJournal(url, member, identity=FileIdentity(path, locks.path(engine)))
        self._gone: set[str] = set()
        """Dead engines. Ids are not used again."""
        self._alive: dict[str, float] = {}
        """When these were last seen alive."""

    def is_alive(self, engine: str) -> bool:
        if self._locks.has(engine):
            return self._locks.is_alive(engine)
        if engine in self._gone:
            return False
        now = time.monotonic()
        if now - self._alive.get(engine, -RECENT) < RECENT:
            return True
        found = self.journal.ask(schema.FIND_ENGINE, (engine,))
        for home, is_leased in found:
            # One of this home that has no lock any more has ended, whatever is left of its lease.
            if is_leased and home != self._home:
                self._alive[engine] = now
                return True
        self._alive.pop(engine, None)
        self._gone.add(engine)
        return False

    def ring(self, engine: str) -> None:
        """Notify an engine that there is something in the journal. If it is dead, nothing happens."""
        if self._locks.has(engine):
            self._locks.ring(engine)
        else:
            self.journal.ask(schema.CALL, (f"{CHANNEL}_{engine}", ""))

    def ring_all(self) -> None:
        """Notify all engines."""
        self.journal.ask(schema.CALL, (CHANNEL, ""))

    def members(self) -> list[EngineRow]:
        here = {row.id: row for row in self._locks.members()}
        found = []
        for id, home, about, left in self.journal.ask(schema.LIST_ENGINES):
            row = here.pop(id, None)
            if row is None:
                said = msgspec.json.decode(about, type=Introduction)
                found.append(EngineRow(id, said, alive=left > 0 and home != self._home, left=left))
            else:
                found.append(msgspec.structs.replace(row, left=left))
        return [*found, *here.values()]


def identity(path: Path) -> str:
    """Equal for two engines only if they see the same home directory under the same kernel, so that locks are
    conclusive."""
    found = path.stat()
    return f"{BOOT.read_text().strip()}:{found.st_dev}:{found.st_ino}"
