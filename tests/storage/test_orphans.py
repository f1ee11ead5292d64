"""Orphans are collected; what somebody may still name is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow.storage import orphans
from onceflow.storage.blobs import Author, Blobs
from onceflow.storage.home import Home
from onceflow.storage.journal import AppendEntries, Claim, DeleteRun, Entry, RunRow
from onceflow.storage.locks import Engines
from tests.storage.common import commit, create


@pytest.fixture
def home(tmp_path: Path) -> Home:
    with Home(tmp_path / "home", durability="process") as home:
        yield home  # type: ignore[misc]


def name_blob(home: Home, run: str, epoch: int, reference: str) -> None:
    assert commit(home.journal, AppendEntries(run, epoch, [Entry("saved", "n", b"", None, reference)])).ok


def left(home: Home) -> set[str]:
    return {file.reference for run in home.blobs.folders() for file in home.blobs.files(run)}


def test_what_a_dead_engine_wrote_and_did_not_name_is_collected(home: Home) -> None:
    commit(home.journal, create("r", owner="dead"))
    named = home.blobs.write(Author("r", 1, "dead"), "named", [b"12345"])
    home.blobs.write(Author("r", 1, "dead"), "orphan", [b"123"])
    name_blob(home, "r", 1, named)

    assert home.collect_orphans() == orphans.Collected(files=1, bytes=3)

    assert left(home) == {named}
    assert home.collect_orphans().files == 0


def test_what_a_living_engine_may_still_name_is_kept(home: Home) -> None:
    commit(home.journal, create("r", owner=home.engine))
    current = home.blobs.write(Author("r", 1, home.engine), "soon", [b"1"])
    before_its_run = home.blobs.write(Author("unborn", 1, home.engine), "argument", [b"1"])

    assert home.collect_orphans().files == 0

    assert left(home) == {current, before_its_run}


def test_what_a_living_engine_wrote_in_a_past_epoch_is_collected(home: Home) -> None:
    commit(home.journal, create("r", owner=home.engine))
    named = home.blobs.write(Author("r", 1, home.engine), "named", [b"1"])
    home.blobs.write(Author("r", 1, home.engine), "late", [b"1"])
    name_blob(home, "r", 1, named)
    commit(home.journal, Claim("r", "another", 1))

    assert home.collect_orphans().files == 1

    assert left(home) == {named}


def test_blobs_of_a_deleted_run_go_with_their_folder(home: Home) -> None:
    commit(home.journal, create("r"))
    name_blob(home, "r", 1, home.blobs.write(Author("r", 1, "dead"), "named", [b"1"]))
    commit(home.journal, DeleteRun("r", 1))

    assert home.collect_orphans().files == 1

    assert home.blobs.folders() == []


@pytest.mark.parametrize("length", [0, 1, 5, 9])
def test_a_half_written_blob_of_a_dead_engine_is_collected(home: Home, length: int) -> None:
    commit(home.journal, create("r"))
    folder = home.path / "blobs" / "r"
    folder.mkdir()
    (folder / "~1.dead.10.0123456789abcdef").write_bytes(b"x" * length)
    (folder / f"~1.{home.engine}.10.0123456789abcdef").write_bytes(b"x" * length)
    (folder / "notes.txt").write_text("not ours")

    assert home.collect_orphans().files == 1

    assert left(home) == {f"r/~1.{home.engine}.10.0123456789abcdef"}
    assert (folder / "notes.txt").exists()


def test_an_entry_committed_by_an_engine_that_dies_meanwhile_keeps_its_blob(home: Home) -> None:
    """1. The files are listed. 2. The engine commits, and dies. 3. It is found dead. 4. The journal is read."""
    mine = home.engines.hold()
    commit(home.journal, create("r", owner=mine.id))
    reference = home.blobs.write(Author("r", 1, mine.id), "just in time", [b"1"])

    class DyingEngines(Engines):
        def is_alive(self, id: str) -> bool:
            name_blob(home, "r", 1, reference)
            mine.close()
            return super().is_alive(id)

    collected = orphans.collect(home.blobs, home.journal, DyingEngines(home.path / "engines"))

    assert collected.files == 0
    assert left(home) == {reference}


def test_an_entry_committed_just_before_its_epoch_ends_keeps_its_blob(home: Home) -> None:
    """1. The files are listed. 2. The engine commits the entry. 3. Another claims the run. 4. The journal is read."""
    commit(home.journal, create("r", owner=home.engine))
    reference = home.blobs.write(Author("r", 1, home.engine), "just in time", [b"1"])
    journal = home.journal

    class ClaimedMeanwhile(Blobs):
        def files(self, run: str):  # type: ignore[no-untyped-def]
            listed = list(super().files(run))
            name_blob(home, "r", 1, reference)
            commit(journal, Claim("r", "another", 1))
            return listed

    collected = orphans.collect(ClaimedMeanwhile(home.path / "blobs"), journal, home.engines)

    row = journal.get_run("r")
    assert isinstance(row, RunRow)
    assert row.epoch == 2
    assert collected.files == 0
    assert left(home) == {reference}
