"""The interface of a store of runs, for drivers and readers: a home directory, or memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from onceflow.storage.blobs import Author, File
from onceflow.storage.journal import Journal
from onceflow.values.buffers import Buffer


class Values(Protocol):
    """Values too large for the journal."""

    def write(self, author: Author, name: str, buffers: Sequence[Buffer]) -> str:
        """Writes the buffers one after the other. Returns the reference once they are durable."""

    def read(self, reference: str) -> bytes: ...

    def map(self, reference: str) -> memoryview:
        """The bytes, if possible without a copy. They may be written to, which no other process sees."""

    def delete(self, reference: str) -> None:
        """Deleting what is not there is harmless."""

    def discard(self, reference: str) -> None:
        """Deletes it soon, without a wait and without a complaint: it is an orphan anyway."""

    def files(self, run: str) -> Iterator[File]:
        """What there is of a run."""

    def delete_run(self, run: str) -> None:
        """Deletes all values of a run. The journal must have forgotten the run before."""


class Living(Protocol):
    """The engines that share a place."""

    def is_alive(self, engine: str) -> bool: ...


class Introduction(msgspec.Struct, frozen=True):
    """What an engine says about itself, for users and for engines that share work with it."""

    pid: int = 0
    host: str = ""
    home: str = ""
    onceflow: str = ""
    started: float = 0.0
    """Seconds since 1970."""
    capacity: int | None = None
    """How many runs without a driver it takes; None if it takes none."""


class EngineRow(msgspec.Struct, frozen=True):
    """An engine, as others see it."""

    id: str
    about: Introduction
    alive: bool
    left: float | None = None
    """Seconds of its lease; None if it needs none, because its lock shows whether it lives."""


class Members(Living, Protocol):
    """The same engines, where they can be called, and asked for their description."""

    def ring(self, engine: str) -> None:
        """Notify an engine that there is something in the journal."""

    def ring_all(self) -> None:
        """Notify all of them."""

    def members(self) -> list[EngineRow]:
        """Live engines, and those that are known to have died without saying so."""


class Place(Protocol):
    @property
    def path(self) -> Path: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def blobs(self) -> Values: ...

    @property
    def engines(self) -> Members: ...

    @property
    def engine(self) -> str:
        """The id of the engine that opened it."""

    def ring(self, engine: str) -> None:
        """Notify another engine that there is something in the journal."""

    def close(self) -> None: ...
