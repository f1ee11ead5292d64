"""A crash may leave any beginning of the last write on disk: it is there whole or not at all, and the rest is whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from onceflow.storage.blobs import Author
from onceflow.storage.home import Home
from onceflow.storage.journal import AppendEntries, Entry, SetStatus
from tests.storage.common import append, bodies, commit, create, quick

FRAME = 24 + 4096
"""SQLite writes its log in frames of a header and a page."""


def test_a_log_cut_anywhere_in_the_last_commit_keeps_all_commits_before(tmp_path: Path) -> None:
    home, wal = tmp_path / "home", tmp_path / "home" / "journal.db-wal"
    home.mkdir()
    store = quick(home)
    commit(store, create("r"))
    for number in range(5):
        commit(store, append("r", b"%d" % number))
    start = wal.stat().st_size
    commit(store, append("r", b"last", b"of all", b"x" * 5_000), SetStatus("r", 1, "running"))
    database, log = (home / "journal.db").read_bytes(), wal.read_bytes()
    store.close()
    assert len(log) >= start + 2 * FRAME

    before = [b"%d" % number for number in range(5)]
    whole = [*before, b"last", b"of all", b"x" * 5_000]
    found: list[list[bytes]] = []
    for length in cuts(start, len(log)):
        path = tmp_path / "torn"
        path.mkdir()
        (path / "journal.db").write_bytes(database)
        (path / "journal.db-wal").write_bytes(log[:length])
        torn = quick(path)
        row = torn.get_run("r")
        assert row is not None
        found.append(bodies(torn, "r"))
        assert row.status == ("running" if found[-1] == whole else "pending")
        torn.close()
        shutil.rmtree(path)

    assert found[-1] == whole
    assert found[:-1] == [before] * (len(found) - 1)


def cuts(start: int, end: int) -> list[int]:
    """Around every boundary of a frame and of its header, and some in between. (All of them take minutes.)"""
    boundaries = {offset for frame in range(start, end + 1, FRAME) for offset in (frame, frame + 24)}
    near = {offset + by for offset in boundaries for by in (-1, 0, 1)}
    return sorted({offset for offset in near if start <= offset <= end} | set(range(start, end, 509)) | {end})


@pytest.mark.soak
def test_a_log_cut_at_every_offset_keeps_all_commits_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "cuts", lambda start, end: list(range(start, end + 1)))
    test_a_log_cut_anywhere_in_the_last_commit_keeps_all_commits_before(tmp_path)


def test_a_log_with_a_damaged_last_commit_keeps_all_commits_before(tmp_path: Path) -> None:
    """Sectors reach the disk in any order: the end of the commit may be there and its middle not."""
    home = tmp_path / "home"
    home.mkdir()
    store = quick(home)
    commit(store, create("r"), append("r", b"1"))
    start = (home / "journal.db-wal").stat().st_size
    commit(store, append("r", b"2", b"x" * 5_000))
    database, log = (home / "journal.db").read_bytes(), (home / "journal.db-wal").read_bytes()
    store.close()

    for sector in range(start // 512 + 1, len(log) // 512):
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
