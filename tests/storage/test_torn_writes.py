"""A crash may leave any beginning of the last write on disk: it is there whole or not at all, and the rest is whole."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

import pytest

from onceflow.storage.blobs import Author
from onceflow.storage.home import Home
from onceflow.storage.journal import AppendEntries, Entry, SetStatus
from tests.storage.common import append, bodies, commit, create, quick

FRAME = 24 + 4096
"""SQLite writes its log in frames of a header and a page."""


BEFORE = [b"%d" % number for number in range(5)]
LAST = [b"last", b"of all", b"x" * 5_000]


def end_of(log: bytes) -> int:
    """Where the frames end that count: those with the log's own salt. The rest was only filled up."""
    end = 32
    while log[end + 8 : end + 16] == log[16:24]:
        end += FRAME
    return end


class Files(NamedTuple):
    database: bytes
    log: bytes
    start: int
    """Of the last commit, in the log."""

    def write(self, path: Path, length: int, zeros: int = 0) -> None:
        """What a crash left that let only so much of the log reach the disk, which was filled up with zeros before."""
        (path / "journal.db").write_bytes(self.database)
        (path / "journal.db-wal").write_bytes(self.log[:length] + bytes(zeros))
        (path / "journal.db-shm").unlink(missing_ok=True)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """`BEFORE` in commits of their own, then `LAST` with another status in the last one."""
    home, log = tmp_path / "home", tmp_path / "home" / "journal.db-wal"
    home.mkdir()
    store = quick(home)
    commit(store, create("r"))
    for body in BEFORE:
        commit(store, append("r", body))
    start = end_of(log.read_bytes())
    commit(store, append("r", *LAST), SetStatus("r", 1, "running"))
    written = log.read_bytes()
    files = Files((home / "journal.db").read_bytes(), written[: end_of(written)], start)
    store.close()
    assert len(files.log) >= start + 3 * FRAME
    return files


def test_a_log_cut_in_the_last_commit_keeps_all_commits_before(tmp_path: Path, files: Files) -> None:
    """Around every boundary of a frame and of its header, and in between. (Every offset is the work of `make soak`.)"""
    end = len(files.log)
    boundaries = {offset for frame in range(files.start, end + 1, FRAME) for offset in (frame, frame + 24)}
    near = {offset + by for offset in boundaries for by in (-1, 0, 1)} | set(range(files.start, end, 509))
    for length in sorted(offset for offset in near if files.start <= offset <= end):
        files.write(tmp_path, length)

        store = quick(tmp_path)
        row = store.get_run("r")

        assert row is not None
        whole = length == end
        assert (row.status, bodies(store, "r")) == (("running", BEFORE + LAST) if whole else ("pending", BEFORE))
        store.close()


def test_a_log_filled_up_with_zeros_keeps_all_commits_before(tmp_path: Path, files: Files) -> None:
    end = len(files.log)
    for length in [*range(files.start, end, 509), end]:
        files.write(tmp_path, length, zeros=10 * FRAME)

        store = quick(tmp_path)
        row = store.get_run("r")

        assert row is not None
        whole = not any(files.log[length:])  # what was cut off may have been zeros
        assert (row.status, bodies(store, "r")) == (("running", BEFORE + LAST) if whole else ("pending", BEFORE))
        store.close()


@pytest.mark.soak
def test_a_log_cut_at_every_offset_keeps_all_commits_before(tmp_path: Path, files: Files) -> None:
    for length in range(files.start, len(files.log) + 1):
        files.write(tmp_path, length)

        connection = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        (status,) = connection.execute("SELECT status FROM run").fetchone()
        found = [body for (body,) in connection.execute("SELECT body FROM entry ORDER BY key").fetchall()]
        connection.close()

        whole = length == len(files.log)
        assert (status, found) == (("running", BEFORE + LAST) if whole else ("pending", BEFORE))


def test_a_log_with_a_damaged_last_commit_keeps_all_commits_before(tmp_path: Path) -> None:
    """Sectors reach the disk in any order: the end of the commit may be there and its middle not."""
    home = tmp_path / "home"
    home.mkdir()
    store = quick(home)
    commit(store, create("r"), append("r", b"1"))
    start = end_of((home / "journal.db-wal").read_bytes())
    commit(store, append("r", b"2", b"x" * 5_000))
    database, log = (home / "journal.db").read_bytes(), (home / "journal.db-wal").read_bytes()
    store.close()

    assert end_of(log) > start
    for sector in range(start // 512 + 1, end_of(log) // 512):
        path = tmp_path / "torn"
        path.mkdir()
        (path / "journal.db").write_bytes(database)
        (path / "journal.db-wal").write_bytes(log[: sector * 512] + bytes(512) + log[(sector + 1) * 512 :])
        torn = quick(path)
        # A sector of zeros that was one of zeros before changes nothing.
        assert bodies(torn, "r") in ([b"1"], [b"1", b"2", b"x" * 5_000])
        assert commit(torn, append("r", b"after")).ok
        torn.close()
        shutil.rmtree(path)


@pytest.mark.parametrize("length", [0, 1, 511, 512, 4_095, 4_096, 9_999, 10_000])
def test_a_blob_that_was_never_renamed_does_not_exist(tmp_path: Path, length: int) -> None:
    with Home(tmp_path, durability="process") as home:
        commit(home.journal, create("r"))
        kept = home.blobs.write(Author("r", 1, "dead"), "kept", [b"k" * 10_000])
        commit(home.journal, AppendEntries("r", 1, [Entry("saved", "n", b"", None, kept)]))
    torn = tmp_path / "blobs" / "r" / "~1.dead.10000.0123456789abcdef"
    torn.write_bytes(b"t" * length)

    with Home(tmp_path, durability="process") as home:
        with home.journal.load("r") as loaded:
            references = [entry.blob for entry in loaded.entries]
        assert references == [kept]
        assert home.blobs.read(kept) == b"k" * 10_000
        assert home.collect_orphans().files == 1
    assert not torn.exists()
