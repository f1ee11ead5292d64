"""Commands on a journal whose ids and references were changed by hand: they lead nowhere outside the home directory."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from onceflow import Engine
from onceflow.backends.local import locks
from onceflow.errors import StorageDamaged
from tests.cli.common import Command
from tests.helpers.forging import vouch_for_all

UP = "../../../outside"
"""From the log of a run to a folder beside the home directory."""


@pytest.fixture
def outside(fresh: Command, tmp_path: Path) -> Path:
    """A folder that belongs to somebody else, beside a home with one run."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_bytes(b"abc")
    fresh.run("nothing", "--name", "job")
    return folder


def tamper(home: Path, statement: str, *values: object) -> None:
    journal = sqlite3.connect(home / "journal.db")
    with journal:
        assert journal.execute(statement, values).rowcount
        vouch_for_all(journal)  # who changes it by hand can compute checksums as well
    journal.close()


def count(home: Path) -> int:
    journal = sqlite3.connect(home / "journal.db")
    (found,) = journal.execute("SELECT count(*) FROM run").fetchone()
    journal.close()
    return int(found)


@pytest.mark.parametrize("verb", [["delete", UP], ["delete", "job"]], ids=" ".join)
def test_deleting_a_run_whose_id_is_a_path_deletes_nothing(fresh: Command, outside: Path, verb: list[str]) -> None:
    tamper(fresh.home, "UPDATE run SET id = ?", UP)
    problem = fresh.error(*verb, code=5)
    assert repr(UP) in problem
    assert (outside / "precious").read_bytes() == b"abc"
    assert count(fresh.home) == 1


@pytest.mark.parametrize("verb", [["delete", "--all", "-y"], ["prune", "--keep", "0", "-y"]], ids=" ".join)
def test_deleting_many_runs_leaves_out_one_whose_id_is_a_path_and_says_so(
    fresh: Command, outside: Path, verb: list[str]
) -> None:
    fresh.run("nothing", "--name", "other")
    tamper(fresh.home, "UPDATE run SET id = ? WHERE name = 'job'", UP)
    problem = fresh.error(*verb, code=5)
    assert "1 run left out" in problem
    assert UP in problem
    assert "onceflow doctor --forget-damaged" in problem
    assert (outside / "precious").read_bytes() == b"abc"
    assert count(fresh.home) == 1, "the other one is gone"


def test_a_run_whose_id_is_a_path_can_be_forgotten_and_no_file_goes_with_it(fresh: Command, outside: Path) -> None:
    tamper(fresh.home, "UPDATE run SET id = ?", UP)
    told = fresh.json("doctor", "--forget-damaged", "--yes")
    assert [run["id"] for run in told["forgotten"]] == [UP]
    assert told["ok"]
    assert count(fresh.home) == 0
    assert (outside / "precious").read_bytes() == b"abc"


def test_a_run_without_an_id_does_not_take_all_blobs_with_it(fresh: Command, outside: Path) -> None:
    other = fresh.home / "blobs" / "other"
    other.mkdir()
    tamper(fresh.home, "UPDATE run SET id = ''")
    fresh.error("delete", "job", code=5)
    assert other.exists()


@pytest.mark.parametrize("verb", ["delete", "resume", "cancel", "show", "why", "logs"])
def test_an_owner_that_is_a_path_is_neither_asked_for_nor_waited_for(fresh: Command, outside: Path, verb: str) -> None:
    (outside / locks.NAME).touch()
    tamper(fresh.home, "UPDATE run SET owner = ?, status = 'running'", UP.removeprefix("../"))
    problem = fresh.error(verb, "job", code=5)
    assert "belongs to an engine whose id is no plain name" in problem
    assert sorted(path.name for path in outside.iterdir()) == sorted([locks.NAME, "precious"])


@pytest.mark.parametrize("reference", ["../../outside/precious", "{outside}/precious", "r/../../../outside/precious"])
def test_a_reference_that_is_a_path_is_an_error_that_names_run_and_reference(
    fresh: Command, outside: Path, reference: str
) -> None:
    reference = reference.format(outside=outside)
    tamper(fresh.home, "UPDATE entry SET value = NULL, blob = ? WHERE kind = 'saved'", reference)
    (run,) = fresh.json("ls")
    for verb in ("output", "show", "why"):
        problem = fresh.error(verb, "job", code=5)
        assert reference in problem
        assert f"run {run['id']} refers to this" in problem
    with Engine(home=fresh.home, workers=1) as engine, pytest.raises(StorageDamaged):
        engine.get_output("job")
    fresh("delete", "job")  # the run itself may go: what it refers to is not touched
    assert (outside / "precious").read_bytes() == b"abc"


def test_an_identity_that_is_a_path_is_refused(fresh: Command, outside: Path, tmp_path: Path) -> None:
    tamper(fresh.home, "UPDATE identity SET id = '../outside'")
    (tmp_path / "shared").mkdir()
    with pytest.raises(StorageDamaged, match="identity is no plain name"):
        Engine(home=fresh.home, workers=1, blobs=f"file://{tmp_path}/shared")
