"""Collects blobs that no entry names and none ever will: left by engines that died between writing a blob and
committing the entry, or in the middle of writing. And the logs of runs that are gone.

A blob is written first and named later, so not being named proves nothing while its author may still commit. It may not
if its engine is dead, or if the run has a newer epoch (the journal refuses the author's entries). The order of
questions matters: first the files are listed, then the engines are asked for, and only then is the journal read. So an
entry that was committed by an engine found dead, or in an epoch found past, is among those read. Unfinished files go by
the same rule, and are named by no entry.

Where engines of several hosts keep their blobs in one place, an engine makes itself known before it writes the first
one (`Stores.announce`): so one that is not known is dead.

What a living engine wrote in the current epoch and gave up again is its own to delete; if it does not, this finds it
when the engine has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import msgspec

from onceflow.errors import NoSuchRun, StorageDamaged
from onceflow.storage import failures, logs
from onceflow.storage.blob_stores import Stores
from onceflow.storage.blobs import Blobs, File
from onceflow.storage.journal import Journal, RunRow
from onceflow.storage.object_store import ObjectStoreBlobs
from onceflow.storage.run_stores import Living

AnyBlobs = Stores | Blobs | ObjectStoreBlobs

logger = logging.getLogger(__name__)


class Collected(msgspec.Struct, frozen=True):
    files: int
    bytes: int
    """That the files were meant to have; unfinished ones held less."""
    complete: bool = True
    """Whether it was not broken off."""

    def __add__(self, other: Self) -> Self:
        return type(self)(self.files + other.files, self.bytes + other.bytes, self.complete and other.complete)


def collect(
    blobs: AnyBlobs, journal: Journal, engines: Living, is_over: Callable[[], bool] = lambda: False
) -> Collected:
    """Deletes all orphans. May run at any time, beside anything else. It is broken off when `is_over` says so, which is
    asked now and then."""
    count = size = 0
    for run, files, is_unknown in _find(blobs, journal, engines):
        if is_over():
            return Collected(count, size, complete=False)
        for file in files:
            blobs.delete(file.reference)
        count += len(files)
        size += sum([file.size for file in files])
        if is_unknown:
            blobs.remove_folder(run)
    return Collected(count, size)


def collect_logs(folder: Path, journal: Journal, is_over: Callable[[], bool] = lambda: False) -> Collected:
    """Deletes the logs of runs that the journal does not know, if they have not been written to for some time."""
    total = Collected(0, 0)
    with failures.told(folder):
        for run in logs.listed(folder):
            if is_over():
                return total + Collected(0, 0, complete=False)
            log = folder / run
            if journal.get_run(run) is None and logs.is_abandoned(log):
                total += Collected(len(logs.starts(log)), logs.size(log))
                logs.delete(log)
    return total


def count(blobs: AnyBlobs, journal: Journal, engines: Living) -> Collected:
    """What `collect` would delete now."""
    found = [file for _, files, _ in _find(blobs, journal, engines) for file in files]
    return Collected(len(found), sum([file.size for file in found]))


def _find(blobs: AnyBlobs, journal: Journal, engines: Living) -> Iterator[tuple[str, list[File], bool]]:
    """For each run that has files: its orphans, and whether the journal does not know it."""
    alive: dict[str, bool] = {}
    for run, files in blobs.by_run():
        for file in files:
            if alive.get(file.engine, True):
                alive[file.engine] = engines.is_alive(file.engine)
        try:
            row, named = journal.blobs(run)
        except StorageDamaged as error:
            logger.error("the files of run %s are kept: %s", run, error)
            continue
        epoch = 0 if row is None else row.epoch
        past = [file for file in files if not alive[file.engine] or epoch > file.epoch]
        orphans = [file for file in past if file.reference not in named]
        if orphans and not _is_whole(journal, run, row):
            continue
        yield run, orphans, row is None and bool(files)


def _is_whole(journal: Journal, run: str, row: RunRow | None) -> bool:
    """Whether the journal can be believed about the run: a damaged entry may have named a blob."""
    try:
        if row is None:
            journal.check_absence(run)
        else:
            with journal.load(run) as loaded:
                for _ in loaded.entries:
                    pass
    except StorageDamaged as error:
        logger.error("files that no entry of run %s names are kept: %s", run, error)
        return False
    except NoSuchRun:
        return True
    return True
