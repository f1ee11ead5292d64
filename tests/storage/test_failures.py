"""A full disk and a read-only file: a clear error, nothing saved is lost, nothing more is written."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from onceflow.errors import StorageDamaged, StorageError, StorageFull, StorageMoved, StorageReadOnly
from onceflow.storage import failures, sqlite
from onceflow.storage.journal import Failed
from onceflow.storage.sqlite import SqliteJournal
from tests.storage.common import Child, append, bodies, commit, create, quick

LIMITED = """
import resource, signal, sys
from pathlib import Path
from onceflow.errors import StorageFull
from onceflow.storage.blobs import Author, Blobs
from onceflow.storage.sqlite import SqliteJournal
from tests.storage.common import append, bodies, commit, create

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing beyond the limit fails instead of killing
home = Path(sys.argv[1])
"""

FILL_JOURNAL = f"""{LIMITED}
store = SqliteJournal(home / "journal.db", durability="process")
assert commit(store, create("r")).ok
limit(400_000)
number = 0
while (outcome := commit(store, append("r", b"%d" % number, b"x" * 5_000))).ok:
    number += 1
first = outcome.refusal.error
limit(resource.RLIM_INFINITY)
again = commit(store, append("r", b"there is room now")).refusal.error
store.close()
print(type(first).__name__, again is first, number, flush=True)
"""

FILL_CHECKPOINT = f"""{LIMITED}
from onceflow.storage import writer
writer.CHECKPOINT_BYTES = 200_000
store = SqliteJournal(home / "journal.db", durability="process")
assert commit(store, create("r")).ok
limit(300_000)
number = 0
while (outcome := commit(store, append("r", b"%d" % number, b"x" * 5_000))).ok:
    number += 1
store.close()
print(type(outcome.refusal.error).__name__, number, flush=True)
"""

FILL_BLOBS = f"""{LIMITED}
blobs = Blobs(home)
kept = blobs.write(Author("r", 1, "engine"), "kept", [b"x" * 1_000])
limit(100_000)
try:
    blobs.write(Author("r", 1, "engine"), "large", [b"x" * 60_000, b"y" * 60_000])
except StorageFull as error:
    print(error.path == str(home / "r"), blobs.read(kept) == b"x" * 1_000, flush=True)
"""


def test_a_full_disk_stops_the_journal_and_loses_nothing_it_answered(tmp_path: Path) -> None:
    with Child(FILL_JOURNAL, tmp_path) as child:
        kind, same, number = child.read().split()
        assert child.wait() == 0

    assert (kind, same) == ("StorageFull", "True")
    store = quick(tmp_path)
    assert bodies(store, "r")[::2] == [b"%d" % index for index in range(int(number))]
    assert int(number) > 10
    assert commit(store, append("r", b"after")).ok
    store.close()


def test_the_engine_learns_of_a_failed_commit_before_the_answers_are_given(
    tmp_path: Path, connections: list[sqlite3.Connection]
) -> None:
    story: list[object] = []
    store = quick(tmp_path)
    store.when_failed(story.append)
    commit(store, create("r"))
    connections[0].execute("PRAGMA query_only = 1")

    for body in (b"1", b"2"):
        store.submit([append("r", body)], lambda outcome: story.append(outcome.ok))
    store.close()

    assert isinstance(story[0], StorageReadOnly)
    assert story[1:] == [False, False]
    late: list[object] = []
    store.when_failed(late.append)
    assert late == story[:1]


def test_a_commit_to_a_journal_that_was_moved_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    store = quick(tmp_path / "home")
    commit(store, create("r"))
    told: list[object] = []
    store.when_failed(told.append)

    (tmp_path / "home").rename(tmp_path / "moved")
    refused = commit(store, append("r", b"1"))

    assert isinstance(refused.refusal, Failed)
    assert isinstance(refused.refusal.error, StorageMoved)
    assert told == [refused.refusal.error]
    with pytest.raises(StorageMoved):
        store.get_run("r")
    store.close()


def test_a_reader_that_finds_another_journal_fails_the_journal(tmp_path: Path) -> None:
    store = quick(tmp_path)
    commit(store, create("r"))
    (tmp_path / "journal.db").rename(tmp_path / "old.db")
    quick(tmp_path).close()

    with pytest.raises(StorageMoved, match=r"another journal\.db"):
        store.get_run("r")

    assert isinstance(commit(store, append("r", b"1")).refusal, Failed)
    store.close()


def test_a_disk_that_is_full_only_for_the_checkpoint_loses_nothing_either(tmp_path: Path) -> None:
    with Child(FILL_CHECKPOINT, tmp_path) as child:
        kind, number = child.read().split()
        assert child.wait() == 0

    assert kind == "StorageFull"
    store = quick(tmp_path)
    assert bodies(store, "r")[::2] == [b"%d" % index for index in range(int(number))]
    store.close()


def test_a_full_disk_fails_a_blob_and_leaves_no_half_of_it(tmp_path: Path) -> None:
    with Child(FILL_BLOBS, tmp_path) as child:
        assert child.read() == "True True"
        assert child.wait() == 0

    assert [file.name for file in (tmp_path / "r").iterdir()] == ["1.engine.1000-3b41c9e6.kept"]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections that are opened from here on; the first is the one that writes."""
    opened: list[sqlite3.Connection] = []

    def connect(path: Path) -> sqlite3.Connection:
        opened.append(original(path))
        return opened[-1]

    original = sqlite.connect
    monkeypatch.setattr(sqlite, "connect", connect)
    return opened


def test_a_journal_that_became_read_only_answers_everything_with_one_error_until_reopened(
    tmp_path: Path, connections: list[sqlite3.Connection]
) -> None:
    store = quick(tmp_path)
    commit(store, create("r"), append("r", b"1"))
    connections[0].execute("PRAGMA query_only = 1")

    refused = commit(store, append("r", b"2"), append("r", b"3"))
    connections[0].execute("PRAGMA query_only = 0")
    later = commit(store, append("r", b"4"))

    assert isinstance(refused.refusal, Failed)
    assert isinstance(refused.refusal.error, StorageReadOnly)
    assert refused.results == (refused.refusal, refused.refusal)
    assert later.results == (refused.refusal,)
    assert not connections[0].in_transaction
    assert bodies(store, "r") == [b"1"]
    store.close()
    store = quick(tmp_path)
    assert commit(store, append("r", b"2")).ok
    assert bodies(store, "r") == [b"1", b"2"]
    store.close()


def test_everything_that_shared_the_failed_commit_fails(tmp_path: Path, connections: list[sqlite3.Connection]) -> None:
    store = quick(tmp_path)
    commit(store, create("r"))
    hold, held = threading.Event(), threading.Event()
    store.submit([append("r", b"1")], lambda _: (held.set(), hold.wait()))  # type: ignore[arg-type, return-value]
    held.wait()
    answers: list[bool] = []
    for _ in range(5):
        store.submit([append("r", b"lost")], lambda outcome: answers.append(outcome.ok))
    connections[0].execute("PRAGMA query_only = 1")
    hold.set()
    store.close()

    assert answers == [False] * 5
    store = quick(tmp_path)
    assert bodies(store, "r") == [b"1"]
    store.close()


def test_a_failed_commit_frees_the_turn(tmp_path: Path, connections: list[sqlite3.Connection]) -> None:
    broken, other = quick(tmp_path), quick(tmp_path)
    commit(broken, create("r"))
    connections[0].execute("PRAGMA query_only = 1")
    assert not commit(broken, append("r", b"1")).ok

    assert commit(other, append("r", b"2")).ok

    broken.close()
    other.close()


def test_a_file_that_may_only_be_read_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(tmp_path).close()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # to root everything is writable

    with pytest.raises(StorageReadOnly, match="must be writable"):
        SqliteJournal(tmp_path / "journal.db")


def test_a_file_that_turns_out_to_be_read_only_is_told_by_the_first_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(tmp_path).close()

    def connect_read_only(path: Path) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)

    monkeypatch.setattr(sqlite, "connect", connect_read_only)
    store = quick(tmp_path)

    refusal = commit(store, create("r")).refusal
    store.close()

    assert isinstance(refusal, Failed)
    assert isinstance(refusal.error, StorageReadOnly)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, StorageFull),
        (errno.EDQUOT, StorageFull),
        (errno.EROFS, StorageReadOnly),
        (errno.EACCES, StorageReadOnly),
        (errno.EIO, StorageError),
    ],
)
def test_an_error_of_the_system_says_what_it_means(tmp_path: Path, number: int, kind: type[StorageError]) -> None:
    with pytest.raises(StorageError, match=os.strerror(number)) as caught, failures.told(tmp_path):
        raise OSError(number, os.strerror(number))

    assert type(caught.value) is kind
    assert caught.value.path == str(tmp_path)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, StorageFull),
        (sqlite3.SQLITE_READONLY_DBMOVED, StorageReadOnly),
        (sqlite3.SQLITE_CORRUPT, StorageDamaged),
        (sqlite3.SQLITE_IOERR_FSYNC, StorageError),
        (sqlite3.SQLITE_BUSY, StorageError),
    ],
)
def test_an_error_of_sqlite_says_what_it_means(tmp_path: Path, code: int, kind: type[StorageError]) -> None:
    (tmp_path / "journal.db").touch()
    error = sqlite3.OperationalError("as SQLite puts it")
    error.sqlite_errorcode = code

    told = failures.from_sqlite(error, tmp_path / "journal.db")

    assert type(told) is kind
    assert "as SQLite puts it" in str(told)
