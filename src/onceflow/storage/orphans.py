"""Collects blobs that no entry names and none ever will: left by engines that died between writing a blob and
committing the entry, or in the middle of writing.

A blob is written first and named later, so not being named proves nothing while its author may still commit. It may not
if its engine is dead, or if the run has a newer epoch (the journal refuses the author's entries). The order of
questions matters: first the files are listed, then the engines are asked for, and only then is the journal read. So an
entry that was committed by an engine found dead, or in an epoch found past, is among those read. Unfinished files go by
the same rule, and are named by nobody.

What a living engine wrote in the current epoch and gave up again is its own to delete; if it does not, this finds it
when the engine has ended.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from onceflow.storage.blobs import Blobs
from onceflow.storage.journal import Journal
from onceflow.storage.locks import Engines


class Collected(msgspec.Struct, frozen=True):
    files: int
    bytes: int
    """That the files were meant to have; unfinished ones held less."""
    complete: bool = True
    """Whether it was not broken off."""


def collect(blobs: Blobs, journal: Journal, engines: Engines, is_over: Callable[[], bool] = lambda: False) -> Collected:
    """Deletes all orphans. May run at any time, beside anything else. It is broken off when `is_over` says so, which is
    asked now and then."""
    alive: dict[str, bool] = {}
    count = size = 0
    for run in blobs.folders():
        if is_over():
            return Collected(count, size, complete=False)
        files = list(blobs.files(run))
        for file in files:
            if alive.get(file.engine, True):
                alive[file.engine] = engines.is_alive(file.engine)
        row, named = journal.blobs(run)
        for file in files:
            past = not alive[file.engine] or (row is not None and row.epoch > file.epoch)
            if past and file.reference not in named:
                blobs.delete(file.reference)
                count += 1
                size += file.size
        if files and row is None:
            blobs.remove_folder(run)
    return Collected(count, size)
