"""What is changed in a journal behind its back is told, of each kind of row and in each kind of journal."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceflow.errors import StorageDamaged
from onceflow.storage import schema
from onceflow.storage.fair_lock import Turns
from onceflow.storage.high_water_marks import SLOTS, Last, Marks, path_of
from onceflow.storage.inspection import Inspection
from onceflow.storage.journal import (
    MISSING,
    Claim,
    DeleteDamagedRun,
    DeleteRun,
    Failed,
    Journal,
    SendCommand,
    SendEvent,
    SetStatus,
    WriteQueue,
    WriteSchedule,
)
from onceflow.storage.lock_waits import connect_to_read
from onceflow.storage.sqlite import SqliteJournal, check_last_run
from tests.storage.common import Child, Opening, append, bodies, commit, create

Change = Callable[[str], None]
"""Carries out a statement behind the journal's back."""


@pytest.fixture
def change(request: pytest.FixtureRequest, lasting: Opening) -> Change:
    if request.node.callspec.params["lasting"] == "sqlite":
        path: Path = request.getfixturevalue("tmp_path")

        def in_sqlite(statement: str) -> None:
            connection = sqlite3.connect(path / "journal.db", isolation_level=None)
            connection.execute(statement)
            connection.close()

        return in_sqlite
    url: str = request.getfixturevalue("postgres_url")

    def in_postgres(statement: str) -> None:
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute("SET search_path = onceflow")
            connection.execute(statement.encode())

    return in_postgres


def test_a_run_whose_own_row_is_damaged_is_deleted_by_its_number_and_no_other_is(
    lasting: Opening, change: Change
) -> None:
    store = filled(lasting)
    change("UPDATE run SET status = 'undone' WHERE id = 'r'")
    (found,) = store.damaged_runs()
    assert found.run == "r"
    assert commit(store, DeleteDamagedRun(found.number)).ok
    assert store.damaged_runs() == []
    assert store.get_run("r") is None
    assert [row.id for row in store.list_runs()] == ["other"]
    assert commit(store, DeleteDamagedRun(found.number)).refusal == MISSING
    whole = [columns[1] for columns in store.rows().all_runs()]  # type: ignore[attr-defined]
    assert commit(store, DeleteDamagedRun(whole[0])).refusal == MISSING
    assert commit(store, create("r", "name")).ok
    assert damage(store) == []
    store.close()


class _NoBlobs:
    def check(self, reference: str) -> int:
        raise AssertionError(reference)


def damage(store: Any) -> list[tuple[str | None, str | None]]:
    return [(found.run, found.task) for found in Inspection(store.rows(), _NoBlobs()).damage()]


def filled(opening: Opening) -> Journal:
    store = opening(clock=lambda: 1000)
    assert commit(
        store,
        create("r", "name", owner="me"),
        append("r", b"1", b"2", b"3"),
        create("other", owner="me"),
        append("other", b"1"),
        SendEvent("r", "key", "first", b"payload"),
        SendCommand("r", "cancel", b"body"),
        WriteSchedule("daily", 0, b"state", 2000.0, b"definition"),
        WriteQueue("mail", 0, b"state", None, b"definition"),
        SetStatus("r", 1, "waiting", 1234567890.1234567),
    ).ok
    return store


def read_everything(store: Journal) -> None:
    store.get_run("r")
    bodies(store, "r")
    store.mailbox("r", "key")
    store.last_entries("r", ["saved"], 10)


def test_a_journal_that_nobody_changed_is_whole(lasting: Opening) -> None:
    store = filled(lasting)
    read_everything(store)
    assert damage(store) == []
    store.close()
    store = lasting()
    assert commit(store, Claim("r", "me", 1), append("r", b"4", epoch=2)).ok
    read_everything(store)
    assert damage(store) == []
    store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run SET status = 'succeeded' WHERE id = 'r'",
        "UPDATE run SET epoch = epoch + 1 WHERE id = 'r'",
        "UPDATE run SET due = due + 1 WHERE id = 'r'",
        "UPDATE run SET name = 'eman' WHERE id = 'r'",
        "UPDATE run SET entries = 0 WHERE id = 'r'",
        "UPDATE definition SET graph = settings",
        "DELETE FROM definition",
        "UPDATE entry SET node = 'edon'",
        "UPDATE entry SET kind = 'done'",
        "UPDATE entry SET blob = 'r/1.e.1-00000000.x'",
        "UPDATE entry SET value = body",
        "UPDATE event SET key = 'key', payload = id::bytea",
        "DELETE FROM entry",
    ],
)
def test_what_is_changed_in_a_run_is_told_with_the_run(lasting: Opening, change: Change, statement: str) -> None:
    store = filled(lasting)
    store.close()
    change(statement if "postgres" in repr(change) else statement.replace("id::bytea", "CAST(id AS BLOB)"))
    store = lasting()

    with pytest.raises(StorageDamaged) as caught:
        read_everything(store)

    assert caught.value.run == "r"
    assert "r" in {run for run, _ in damage(store)}
    store.close()


def test_entries_that_were_exchanged_are_damaged(lasting: Opening, change: Change, request: Any) -> None:
    store = filled(lasting)
    store.close()
    place = f"key % {schema.PLACES}" if request.node.callspec.params["lasting"] == "sqlite" else "place"
    column = "key" if place != "place" else "place"
    for statement in (
        f"UPDATE entry SET {column} = {column} + 100 WHERE {place} = 0",
        f"UPDATE entry SET {column} = {column} - 1 WHERE {place} = 1",
        f"UPDATE entry SET {column} = {column} - 99 WHERE {place} = 100",
    ):
        change(statement)
    store = lasting()
    with pytest.raises(StorageDamaged, match="entry 0 of a run is not what was written"):
        bodies(store, "r")
    store.close()


def test_a_standing_row_that_was_changed_is_told_and_left_out_of_lists(lasting: Opening, change: Change) -> None:
    for table, id in (("schedule", "daily"), ("queue", "mail")):
        store = filled(lasting) if table == "schedule" else lasting()
        store.close()
        change(f"UPDATE {table} SET version = 7")
        store = lasting()
        with pytest.raises(StorageDamaged, match=f"{table} '{id}'"):
            store.get_standing(table, id)  # type: ignore[arg-type]
        assert store.list_standing(table) == []  # type: ignore[arg-type]
        assert damage(store)
        store.close()


def test_a_command_that_was_changed_is_not_carried_out(lasting: Opening, change: Change) -> None:
    store = filled(lasting)
    assert [command.kind for command in store.commands("me")] == ["cancel"]
    store.close()
    change("UPDATE command SET kind = 'pause'")
    store = lasting()
    assert store.commands("me") == []
    assert damage(store) == [("r", None)]
    store.close()


def test_an_event_that_is_said_to_be_free_but_was_taken_is_damaged(lasting: Opening, change: Change) -> None:
    from onceflow.storage.journal import MarkEvents

    store = filled(lasting)
    (event,) = store.mailbox("r", "key")
    assert commit(store, MarkEvents("r", 1, taken=(event.number,))).ok
    assert store.mailbox("r", "key") == []
    assert commit(store, MarkEvents("r", 1, returned=(event.number,))).ok
    assert store.mailbox("r", "key") == [event]
    assert commit(store, MarkEvents("r", 1, taken=(event.number,))).ok
    assert damage(store) == []
    store.close()
    change("UPDATE event SET taken = NOT taken")
    store = lasting()
    with pytest.raises(StorageDamaged):
        store.mailbox("r", "key")
    assert damage(store) == [("r", None)]
    store.close()


def test_a_batch_about_a_damaged_run_fails_alone(lasting: Opening, change: Change) -> None:
    store = filled(lasting)
    store.close()
    change("UPDATE run SET epoch = 5 WHERE id = 'r'")
    store = lasting()
    refusal = commit(store, append("r", b"4", epoch=5)).refusal
    assert isinstance(refusal, Failed)
    assert isinstance(refusal.error, StorageDamaged)
    assert commit(store, append("other", b"2")).ok
    store.close()


def test_a_run_whose_entries_are_damaged_can_be_deleted(lasting: Opening, change: Change) -> None:
    store = filled(lasting)
    store.close()
    change("UPDATE entry SET node = 'x'")
    store = lasting()
    assert commit(store, DeleteRun("r", 1), DeleteRun("other", 1)).ok
    assert damage(store) == []
    store.close()


def test_the_last_entry_of_a_run_that_goes_on_is_missed_if_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteJournal(path)
    commit(store, create("r"), append("r", b"1"))
    commit(store, append("r", b"2"))
    store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DELETE FROM entry WHERE key = (SELECT max(key) FROM entry)")
    connection.close()
    store = SqliteJournal(path)
    with pytest.raises(StorageDamaged, match="1 of the last entries of a run are missing"):
        bodies(store, "r")
    assert store.load_short(["r"], 10) == {}
    # and what is appended does not hide it
    assert commit(store, append("r", b"3")).ok
    with pytest.raises(StorageDamaged, match="entry 1 of a run is missing"):
        bodies(store, "r")
    store.close()


def test_a_run_that_has_the_number_of_a_deleted_one_has_no_marks_of_that(tmp_path: Path) -> None:
    store = SqliteJournal(tmp_path / "journal.db")
    commit(store, create("r"), append("r", b"1", b"2", b"3"))
    commit(store, DeleteRun("r", 1))
    store.close()
    store = SqliteJournal(tmp_path / "journal.db")
    commit(store, create("s"), append("s", b"1"))
    assert bodies(store, "s") == [b"1"]
    store.close()


def test_marks_that_are_deleted_under_a_living_engine_give_no_false_damage_of_a_number_that_is_used_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    first = SqliteJournal(path)
    commit(first, create("a"))
    commit(first, create("b"), append("b", b"1", b"2", b"3"))
    path_of(path).unlink()
    second = SqliteJournal(path)
    commit(second, append("b", b"4"))  # has marks of its own now
    commit(first, DeleteRun("b", 1))
    third = SqliteJournal(path)
    commit(third, create("c"))  # has the number of the deleted one
    for store in (first, second, third):
        assert bodies(store, "c") == []
        assert damage(store) == []
    commit(second, append("c", b"1"))
    assert bodies(first, "c") == [b"1"]
    for store in (first, second, third):
        store.close()


def test_marks_that_another_engine_has_made_anew_are_believed_by_one_that_still_maps_the_old_ones(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    first = SqliteJournal(path)
    commit(first, create("b"), append("b", b"1", b"2", b"3"))
    path_of(path).unlink()
    second = SqliteJournal(path)
    commit(second, DeleteRun("b", 1))
    second.close()
    second = SqliteJournal(path)
    commit(second, create("c"), append("c", b"1"))
    assert bodies(first, "c") == [b"1"]
    assert damage(first) == []
    commit(first, append("c", b"2"))
    assert bodies(second, "c") == [b"1", b"2"]
    first.close()
    second.close()


def test_marks_that_are_deleted_under_a_living_engine_are_there_again_after_its_next_commit(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteJournal(path)
    commit(store, create("r"))
    path_of(path).unlink()
    commit(store, append("r", b"1", b"2"))
    marks = Marks(path)
    marks.belong_to(store.identity())
    assert marks.entries(1) == 2
    marks.close()
    store.close()


CUT = """
import os, signal, sys
from pathlib import Path
from onceflow.storage.journal import Claim
from onceflow.storage.sqlite import SqliteJournal
from tests.storage.common import append, commit, create

path = Path(sys.argv[1])
store = SqliteJournal(path)
commit(store, create("r"), append("r", b"1"))
store.close()
store = SqliteJournal(path)
{}
os.kill(os.getpid(), signal.SIGKILL)
"""


def opened_without_its_log(path: Path, last: str) -> SqliteJournal:
    """A journal whose log was deleted after its engine was killed, with this commit in it."""
    with Child(CUT.format(last), path) as child:
        child.wait()
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink()
    return SqliteJournal(path)


def test_a_deleted_log_is_missed_if_it_had_entries(tmp_path: Path) -> None:
    store = opened_without_its_log(tmp_path / "journal.db", 'commit(store, append("r", b"2"))')
    with pytest.raises(StorageDamaged, match="1 of the last entries of a run are missing"):
        bodies(store, "r")
    store.close()


def test_a_deleted_log_is_missed_if_it_had_a_run(tmp_path: Path) -> None:
    with pytest.raises(StorageDamaged, match="the last 1 runs that were created are missing"):
        opened_without_its_log(tmp_path / "journal.db", 'commit(store, create("s"))')


def test_a_deleted_log_without_entries_equals_a_crash_before_its_commits(tmp_path: Path) -> None:
    store = opened_without_its_log(tmp_path / "journal.db", 'commit(store, Claim("r", "me", 1))')
    row = store.get_run("r")
    assert row is not None
    assert (row.epoch, row.owner) == (1, None)
    assert damage(store) == []
    store.close()


def test_marks_that_are_damaged_say_nothing(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "journal.db")
    marks.belong_to("0123456789abcdef")
    marks.create()
    marks.reset()
    marks.note(5, [(5, 7)])
    marks.note(0, [(6, 9)])
    marks.note(0, [(6 + SLOTS, 1)])
    assert (marks.last.number, marks.entries(5), marks.entries(6), marks.entries(6 + SLOTS)) == (5, 7, 0, 1)
    marks.close()
    path = path_of(tmp_path / "journal.db")
    content = bytearray(path.read_bytes())
    for offset in (16, 32 + 5 * 16 + 8):
        content[offset] ^= 1
    path.write_bytes(content)
    marks = Marks(tmp_path / "journal.db")
    marks.belong_to("0123456789abcdef")
    assert (marks.last.number, marks.entries(5)) == (0, 0)
    assert marks.are_ready
    marks.close()


def test_damage_of_one_run_is_no_failure_of_the_journal(lasting: Opening, change: Change) -> None:
    store = filled(lasting)
    store.close()
    change("UPDATE run SET epoch = 5 WHERE id = 'r'")
    store = lasting()
    failures: list[Exception] = []
    store.when_failed(failures.append)
    assert not commit(store, append("r", b"4", epoch=5)).ok
    assert failures == []
    store.close()


def test_looking_needs_no_turn_and_makes_no_marks(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteJournal(path)
    commit(store, create("r"), append("r", b"1"))
    store.close()
    path_of(path).unlink()
    turns = Turns(path)
    assert turns.try_to_acquire()
    store = SqliteJournal(path, lock_timeout=0)
    assert bodies(store, "r") == [b"1"]
    assert not path_of(path).exists()
    turns.close()
    assert commit(store, append("r", b"2")).ok
    assert path_of(path).exists()
    store.close()


def test_a_last_run_that_is_deleted_while_another_program_opens_the_journal_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = SqliteJournal(path)
    commit(store, create("r"))
    commit(store, create("s"))
    looks = iter([lambda: None, lambda: commit(store, DeleteRun("s", 1)), lambda: commit(store, create("t"))])

    class Slow(Marks):
        @property
        def last(self) -> Last:
            found = super().last
            next(looks, lambda: None)()
            return found

    marks = Slow(path)
    with contextlib.closing(connect_to_read(path, 0)) as reader:
        assert marks.last.number == 2
        check_last_run(reader, path, marks)
    marks.close()
    store.close()
