"""A journal that another program keeps locked: looking goes on, writing waits and says for what, nothing is lost."""

from __future__ import annotations

import logging
import math
import os
import queue
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onceflow.errors import StorageBusy
from onceflow.storage import journal, lock_holders, lock_waits
from onceflow.storage.journal import Failed, Outcome
from onceflow.storage.sqlite import SqliteJournal
from tests.storage.common import Child, append, bodies, commit, create, quick

COMMITTING = """
import sqlite3, sys
from pathlib import Path
from onceflow.storage.fair_lock import Turns
turns = Turns(Path(sys.argv[1]))
assert turns.try_to_acquire()
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("PRAGMA user_version = 1000")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
turns.release()
print("released", flush=True)
sys.stdin.readline()
"""
"""What a program holds in the middle of a commit."""

IN_TURN = """
import sys
from pathlib import Path
from onceflow.storage.fair_lock import Turns
turns = Turns(Path(sys.argv[1]))
assert turns.try_to_acquire()
print("held", flush=True)
sys.stdin.readline()
turns.release()
print("released", flush=True)
sys.stdin.readline()
"""

READING = """
import fcntl, os, sys
file = os.open(sys.argv[1] + "-shm", os.O_RDONLY)
fcntl.lockf(file, fcntl.LOCK_SH, 8, 120)
print("held", flush=True)
sys.stdin.readline()
fcntl.lockf(file, fcntl.LOCK_UN, 8, 120)
print("released", flush=True)
sys.stdin.readline()
"""
"""A program that may only read, and locks all that SQLite locks in the index of the log."""


@pytest.fixture(autouse=True)
def _told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_waits, "TELL_AFTER", 0.0)
    monkeypatch.setattr(lock_waits, "CHECK_EVERY", 0.001)


class Said(logging.Handler):
    """Lines of the log, for a test that waits for one."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.put(record.getMessage())


@pytest.fixture
def said() -> Iterator[Callable[[], str]]:
    """Waits for the next line of the log."""
    handler = Said()
    lock_waits.logger.addHandler(handler)
    yield handler.lines.get
    lock_waits.logger.removeHandler(handler)


def stopped(child: Child) -> int:
    """Stops it as Ctrl-Z does. Returns its process."""
    assert child.read() == "held"
    child.stop()
    return child.process


@pytest.mark.parametrize("script", [COMMITTING, IN_TURN])
def test_a_journal_is_opened_read_and_closed_while_a_program_is_stopped_in_a_commit(
    tmp_path: Path, script: str
) -> None:
    before = quick(tmp_path)
    commit(before, create("r"), append("r", b"1"))
    before.close()
    with Child(script, tmp_path / "journal.db") as child:
        stopped(child)

        store = SqliteJournal(tmp_path / "journal.db")

        assert bodies(store, "r") == [b"1"]
        assert [row.id for row in store.list_runs()] == ["r"]
        store.close()


@pytest.mark.parametrize("script", [COMMITTING, IN_TURN, READING])
def test_a_commit_waits_names_the_holder_and_goes_on_when_the_lock_is_free(
    tmp_path: Path, script: str, said: Callable[[], str]
) -> None:
    store = quick(tmp_path)
    commit(store, create("r"))
    with Child(script, tmp_path / "journal.db") as child:
        process = stopped(child)
        answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        store.submit([append("r", b"1")], answers.put)
        store.submit([append("r", b"2")], answers.put)

        line = said()
        waiting = answers.empty()
        child.go_on()
        child.resume()

        assert waiting
        assert f"process {process} (" in line
        assert "which is stopped (Ctrl-Z); `fg` in its terminal" in line
        assert f"kill -CONT {process}" in line
        assert (answers.get().ok, answers.get().ok) == (True, True)
        assert "is free again" in said()
    assert commit(store, append("r", b"3")).ok
    assert bodies(store, "r") == [b"1", b"2", b"3"]
    store.close()


@pytest.mark.parametrize("script", [COMMITTING, IN_TURN, READING])
def test_nothing_is_committed_at_once_while_another_program_has_a_lock(tmp_path: Path, script: str) -> None:
    store = quick(tmp_path)
    commit(store, create("r"))
    with Child(script, tmp_path / "journal.db") as child:
        stopped(child)

        assert store.commit_at_once([append("r", b"1")]) is None

        child.kill()
    assert store.commit_at_once([append("r", b"2")]) is not None
    assert bodies(store, "r") == [b"2"]
    store.close()


@pytest.mark.parametrize("script", [COMMITTING, IN_TURN, READING])
def test_a_caller_waits_no_longer_than_the_limit_and_what_was_withdrawn_never_happens(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "AGAIN", 0.001)
    store = SqliteJournal(tmp_path / "journal.db", durability="process")
    commit(store, create("r"))
    store.lock_timeout = 0.001
    with Child(script, tmp_path / "journal.db") as child:
        process = stopped(child)

        refusal = commit(store, append("r", b"withdrawn")).refusal

        child.kill()
    store.lock_timeout = math.inf
    assert isinstance(refusal, Failed)
    assert isinstance(refusal.error, StorageBusy)
    assert refusal.error.processes == (process,)
    assert "stopped (Ctrl-Z)" in str(refusal.error)
    assert commit(store, append("r", b"1")).ok
    assert bodies(store, "r") == [b"1"]
    store.close()


@pytest.mark.parametrize("script", [COMMITTING, IN_TURN, READING])
def test_closing_waits_no_longer_than_the_limit_and_answers_what_was_not_written(tmp_path: Path, script: str) -> None:
    store = SqliteJournal(tmp_path / "journal.db", durability="process", lock_timeout=0.001)
    commit(store, create("r"))
    with Child(script, tmp_path / "journal.db") as child:
        stopped(child)
        answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        store.submit([append("r", b"1")], answers.put)
        store.submit([append("r", b"2")], answers.put)

        store.close()

        for refusal in (answers.get().refusal, answers.get().refusal):
            assert isinstance(refusal, Failed)
            assert isinstance(refusal.error, StorageBusy)
        child.kill()
    store = quick(tmp_path)
    assert bodies(store, "r") == []
    store.close()


def test_a_new_journal_is_not_waited_for_longer_than_the_limit(tmp_path: Path) -> None:
    with Child(IN_TURN, tmp_path / "journal.db") as child:
        process = stopped(child)

        with pytest.raises(StorageBusy) as caught:
            SqliteJournal(tmp_path / "journal.db", lock_timeout=0.001)

    assert caught.value.processes == (process,)


def test_a_reader_that_meets_a_lock_names_the_holder_and_goes_on(tmp_path: Path, said: Callable[[], str]) -> None:
    store = quick(tmp_path)
    commit(store, create("r"))
    script = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
connection.close()
print("released", flush=True)
sys.stdin.readline()
"""
    store.close()
    with Child(script, tmp_path / "journal.db") as child:
        process = stopped(child)
        found: queue.SimpleQueue[bool] = queue.SimpleQueue()

        def let_go() -> None:
            line = said()
            child.go_on()
            child.resume()
            found.put(f"process {process} (" in line)

        thread = threading.Thread(target=let_go)
        thread.start()
        store = quick(tmp_path)
        thread.join()

        assert found.get()
        assert store.get_run("r") is not None
        store.close()


def test_the_files_of_a_journal_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        store = quick(tmp_path)
        commit(store, create("r"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(umask)

    suffixes = ("", "-marks", "-next", "-shm", "-turn", "-wal")
    assert modes == dict.fromkeys([f"journal.db{suffix}" for suffix in suffixes], 0o600)


def test_the_last_journal_to_close_leaves_an_empty_log_and_others_keep_theirs(tmp_path: Path) -> None:
    log = tmp_path / "journal.db-wal"
    store = quick(tmp_path)
    commit(store, create("r"))
    with Child(
        """
import sys
from pathlib import Path
from onceflow.storage.sqlite import SqliteJournal
store = SqliteJournal(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.readline()
""",
        tmp_path / "journal.db",
    ) as other:
        assert other.read() == "open"
        store.close()
        assert log.stat().st_size > 0

    store = quick(tmp_path)
    commit(store, append("r", b"1"))
    store.close()
    assert log.stat().st_size == 0


def test_a_process_is_described_by_its_command_and_what_it_does() -> None:
    with Child("import sys; print('held', flush=True); sys.stdin.readline()") as child:
        process = stopped(child)

        holder = lock_holders.describe(process)

    assert holder.is_stopped
    assert "-c import sys;" in holder.command
    assert str(holder).endswith("which is stopped (Ctrl-Z)")
    assert lock_holders.tell([]) == "another process"


def test_only_locks_on_the_same_file_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "journal.db-turn").touch()
    inode = (tmp_path / "journal.db-turn").stat().st_ino
    listed = tmp_path / "locks"
    listed.write_text(
        f"1: FLOCK  ADVISORY  WRITE 11 ff:ff:{inode + 1} 0 EOF\n"
        f"2: FLOCK  ADVISORY  WRITE 12 ff:ff:{inode} 0 EOF\n"
        f"2: -> FLOCK  ADVISORY  WRITE 13 ff:ff:{inode} 0 EOF\n"
        f"3: POSIX  ADVISORY  WRITE 14 ff:ff:{inode} 0 EOF\n"
    )
    monkeypatch.setattr(lock_holders, "LOCKS", listed)

    assert [holder.process for holder in lock_holders.of_turn(tmp_path / "journal.db")] == [12]


def test_where_nothing_is_known_of_locks_nobody_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_holders, "LOCKS", tmp_path / "no such file")

    assert lock_holders.of_turn(tmp_path / "journal.db") == []
    assert lock_holders.of_database(tmp_path / "journal.db") == []
