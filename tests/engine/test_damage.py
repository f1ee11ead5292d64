"""Flipped bits in the journal and in blobs: `StorageDamaged` or the right value, never a wrong one."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onceflow
from onceflow import Engine, TaskFailed, task
from onceflow.errors import StorageDamaged
from onceflow.storage.high_water_marks import path_of
from onceflow.storage.home import Home
from onceflow.storage.inspection import Damage
from tests.engine.common import keep
from tests.helpers.scripts import run_script

FLIPS = 40
"""In `make test`; `make soak` makes more of them."""
MANY_FLIPS = 500

NOT_TO_BE_DECODED = "not to be read, and the reason cannot be told"

TABLES = ("run", "definition", "entry", "event", "command", "schedule", "queue", "identity")


@task
def small(number: int) -> dict[str, Any]:
    return {"number": number, "text": "x" * number}


@task
def large(number: int) -> bytes:
    return bytes([number]) * (100_000 + number)


@task
def both(first: dict[str, Any], second: bytes) -> int:
    return len(second) + int(first["number"])


@task
def nested(number: int) -> Any:
    return both.bind(small.bind(number), large.bind(number))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A home directory with runs of all sorts, and their results. Nobody has it open."""
    home = tmp_path_factory.mktemp("damage") / "original"
    results: dict[str, Any] = {}
    with Engine(home, workers=1) as engine:
        graphs = [
            both.bind(small.bind(700), large.bind(1)),
            large.bind(2),
            nested.bind(3),
            small.bind(30_000),
            keep.bind(b"argument" * 20_000),
        ]
        for number, graph in enumerate(graphs):
            results[f"run-{number}"] = engine.run(graph, name=f"run-{number}")
    for folder in ("engines", "workers", "logs"):
        shutil.rmtree(home / folder, ignore_errors=True)
    return home, results


@pytest.fixture
def copy(original: tuple[Path, dict[str, Any]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(original[0], tmp_path / "home"))


def flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def blobs_of(home: Path) -> list[Path]:
    return sorted(path for path in (home / "blobs").rglob("*") if path.is_file())


def id_of(engine: Engine, name: str) -> str:
    (info,) = engine.list_runs(name=name)
    return info.id


def damage_in(home: Path) -> list[Damage | StorageDamaged]:
    try:
        with Home(home) as opened:
            return list(opened.inspection().damage())
    except StorageDamaged as error:
        return [error]


def rows_of(home: Path) -> Iterator[object]:
    """What SQLite makes of the journal, without us."""
    connection = sqlite3.connect(home / "journal.db")
    connection.text_factory = bytes
    try:
        for table in TABLES:
            try:
                yield from connection.execute(f"SELECT * FROM {table} NOT INDEXED").fetchall()
            except sqlite3.Error:
                yield "not to be read"
            except UnicodeDecodeError:  # the message of an error is not text
                yield NOT_TO_BE_DECODED
    finally:
        connection.close()


def read(home: Path, results: dict[str, Any]) -> list[str]:
    """Reads every result; what is said to be damaged. Whatever else goes wrong is raised."""
    damaged: list[str] = []
    try:
        engine = Engine(home, workers=1)
    except StorageDamaged:
        return ["the journal"]
    with engine:
        for name, result in results.items():
            try:
                assert engine.get_output(name) == result
            except StorageDamaged as error:
                damaged.append(error.run or name)
        try:
            engine.list_runs(limit=None)
        except StorageDamaged:
            damaged.append("the list of runs")
    return damaged


def attack(original: tuple[Path, dict[str, Any]], folder: Path, seed: int, flips: int) -> None:
    home, results = original
    rows = list(rows_of(home))
    chance = random.Random(seed)
    for number in range(flips):
        copy = Path(shutil.copytree(home, folder / str(number)))
        file = copy / "journal.db" if chance.random() < 0.7 else chance.choice(blobs_of(copy))
        bit = chance.randrange(file.stat().st_size * 8)
        flip(file, bit)
        where = f"flip {number}: bit {bit} of {file.relative_to(copy)}"

        is_changed = file.name != "journal.db" or list(rows_of(copy)) != rows
        found = damage_in(copy)
        damaged = read(copy, results)

        assert found or not (is_changed or damaged), where
        shutil.rmtree(copy)


def test_no_flipped_bit_gives_a_wrong_value_and_a_deep_look_finds_each(
    original: tuple[Path, dict[str, Any]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    attack(original, tmp_path, 1, FLIPS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 6))
def test_no_flipped_bit_of_many_gives_a_wrong_value(
    original: tuple[Path, dict[str, Any]], tmp_path: Path, seed: int
) -> None:
    attack(original, tmp_path, seed, MANY_FLIPS)


def test_damage_that_sqlite_cannot_put_into_words_is_damage(original: tuple[Path, dict[str, Any]], copy: Path) -> None:
    """Its message quotes a name of the schema, and Python cannot decode that any more."""
    home, results = original
    whole = (home / "journal.db").read_bytes()
    found = 0
    for name in ("identity", "definition", "by_name"):
        for place in [match.start() for match in re.finditer(name.encode(), whole[: 16 * 1024])]:
            (copy / "journal.db").write_bytes(whole[:place] + b"\xec" + whole[place + 1 :])
            if NOT_TO_BE_DECODED not in list(rows_of(copy)):
                continue
            found += 1
            assert damage_in(copy)
            read(copy, results)
    assert found


def test_a_home_that_is_whole_has_no_damage(copy: Path) -> None:
    assert damage_in(copy) == []


def test_every_bit_of_a_saved_record_is_checked(original: tuple[Path, dict[str, Any]], copy: Path) -> None:
    """Whatever is changed in a row through SQLite itself, which leaves the file in order."""
    results = original[1]
    for statement in (
        "UPDATE entry SET value = CAST('x' AS BLOB) || substr(value, 2) WHERE value IS NOT NULL",
        "UPDATE entry SET node = node || 'x'",
        "UPDATE entry SET key = key + 1000",
        "UPDATE entry SET kind = 'done' WHERE kind = 'saved'",
        "DELETE FROM entry",
        "UPDATE run SET status = 'failed'",
        "UPDATE definition SET graph = zeroblob(length(graph))",
        "DELETE FROM definition",
    ):
        with sqlite3.connect(copy / "journal.db") as journal:
            before = journal.execute("SELECT count(*) FROM run").fetchone()
            journal.execute("SAVEPOINT whole")
            journal.execute(statement)
            journal.execute("RELEASE whole")
        journal.close()
        assert before == (len(results),)
        assert len(read(copy, results)) == len(results), statement
        assert damage_in(copy), statement
        shutil.copy(original[0] / "journal.db", copy / "journal.db")


def test_a_blob_that_was_exchanged_for_another_of_the_same_size_is_damaged(tmp_path: Path) -> None:
    with Engine(tmp_path, workers=1) as engine:
        engine.run(keep.bind(b"a" * 200_000), name="a")
        engine.run(keep.bind(b"b" * 200_000), name="b")
        one, other = [
            next(file for file in (tmp_path / "blobs" / id_of(engine, name)).iterdir() if ".keep" in file.name)
            for name in ("a", "b")
        ]
        content = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(content)
        for name in ("a", "b"):
            with pytest.raises(StorageDamaged) as caught:
                engine.get_output(name)
            assert (caught.value.run, caught.value.task) == (id_of(engine, name), "keep")


def test_a_run_that_reads_a_damaged_value_does_not_fail_and_goes_on_when_it_is_restored(tmp_path: Path) -> None:
    # given a run that failed above a large saved value
    fault = tmp_path / "fault"
    fault.touch()

    def use(value: bytes, fault: str) -> int:
        if os.path.exists(fault):
            raise ValueError("not yet")
        return len(value)

    with Engine(tmp_path / "home", workers=1) as engine:
        with pytest.raises(TaskFailed):
            engine.run(onceflow.task(use).bind(large.bind(5), str(fault)), name="reads")
        fault.unlink()
        run = id_of(engine, "reads")
        (blob,) = [file for file in blobs_of(tmp_path / "home") if file.name.endswith(".large")]
        whole = blob.read_bytes()
        # when one bit is flipped, so that the value cannot be unpickled any more
        flip(blob, 3)
        with pytest.raises(StorageDamaged) as caught:
            engine.resume("reads")
        # then
        assert (caught.value.run, caught.value.task) == (run, "large")
        assert engine.status("reads") == "interrupted"
        # and when it is restored
        blob.write_bytes(whole)
        assert engine.resume("reads") == 100_005


def test_a_run_whose_row_was_damaged_is_left_out_of_lists_and_found_by_a_deep_look(
    copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with sqlite3.connect(copy / "journal.db") as journal:
        (run,) = journal.execute("SELECT id FROM run WHERE name = 'run-1'").fetchone()
        journal.execute("UPDATE run SET epoch = 5 WHERE id = ?", (run,))
    journal.close()
    with Engine(copy, workers=1) as engine:
        assert {info.name for info in engine.list_runs()} == {"run-0", "run-2", "run-3", "run-4"}
        with pytest.raises(StorageDamaged) as caught:
            engine.status("run-1")
    assert caught.value.run == run
    assert run in caplog.text
    assert [damage.run for damage in damage_in(copy)] == [run]


def test_a_run_that_an_index_does_not_lead_to_is_not_said_to_be_missing(copy: Path) -> None:
    with sqlite3.connect(copy / "journal.db") as journal:
        (page,) = journal.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND name = 'sqlite_autoindex_run_2'"
        ).fetchone()
        (size,) = journal.execute("PRAGMA page_size").fetchone()
    journal.close()
    content = bytearray((copy / "journal.db").read_bytes())
    start = content.index(b"run-3", (page - 1) * size, page * size)
    content[start : start + 5] = b"run-9"
    (copy / "journal.db").write_bytes(content)
    with Engine(copy, workers=1) as engine, pytest.raises(StorageDamaged, match="index"):
        engine.get_output("run-3")


KILLED = """
    import os, signal
    import onceflow
    from tests.engine.common import keep
    for number in range(5):
        onceflow.run(keep.bind(number), name=f"run-{number}")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_a_write_ahead_log_that_lost_commits_is_noticed(tmp_path: Path, how: str) -> None:
    # given an engine that was killed, so that the last commits are in the log only
    run_script(tmp_path, KILLED, check=False)
    original, results = tmp_path / "home", {f"run-{number}": number for number in range(5)}
    log = (original / "journal.db-wal").read_bytes().rstrip(b"\0")
    chance = random.Random(7)
    shutil.rmtree(original / "engines")
    assert read(Path(shutil.copytree(original, tmp_path / "whole")), results) == []
    for number in range(6):
        copy = Path(shutil.copytree(original, tmp_path / str(number)))
        (copy / "journal.db-shm").unlink()
        place = chance.randrange(len(log))
        if how == "cut":
            (copy / "journal.db-wal").write_bytes(log[:place])
        else:
            flip(copy / "journal.db-wal", place * 8)
        # then nothing is missing without a word: `read` raises for what is not there, or wrong
        read(copy, results)


def test_an_older_journal_can_be_put_back_if_its_marks_are_deleted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Engine(home, workers=1) as engine:
        engine.run(keep.bind(1), name="first")
    older = (home / "journal.db").read_bytes()
    with Engine(home, workers=1) as engine:
        engine.run(keep.bind(2), name="second")
    (home / "journal.db").write_bytes(older)
    with pytest.raises(StorageDamaged, match="older copy was put back"):
        Engine(home)
    path_of(home / "journal.db").unlink()
    with Engine(home, workers=1) as engine:
        assert engine.get_output("first") == 1


def test_a_journal_that_is_gone_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    with Engine(tmp_path, workers=1) as engine:
        engine.run(keep.bind(1), name="first")
    (tmp_path / "journal.db").unlink()
    with pytest.raises(StorageDamaged, match="missing"):
        Engine(tmp_path)
