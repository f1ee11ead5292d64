"""Fair turns between processes that write to the same file."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

from tests.storage.common import Child, append, bodies, commit, create, quick

SATURATE = """
import sys, threading
from pathlib import Path
from onceflow.storage.sqlite import SqliteJournal
from tests.storage.common import append, bodies
path, run, commits = sys.argv[1:]
store = SqliteJournal(Path(path), durability="process")
print("ready", flush=True)
sys.stdin.readline()
counted = 0
over = threading.Event()

def answer(outcome):  # the next batch is there before the writer can run out of work
    global counted
    counted += 1
    if counted == int(commits):
        over.set()
    elif counted < int(commits):
        store.submit([append(run, b"x" * 500)], answer)

answer(None)
over.wait()
print(*(len(bodies(store, run)) + 1 for run in ("a", "b")), flush=True)
sys.stdin.readline()
"""

HOLD = """
import sys
from pathlib import Path
from onceflow.storage.fair_lock import Turns
turns = Turns(Path(sys.argv[1]))
assert turns.try_to_acquire()
print("held", flush=True)
sys.stdin.readline()
"""

HOLD_AND_FORK = """
import os, sys
from pathlib import Path
from onceflow.storage.fair_lock import Turns
turns = Turns(Path(sys.argv[1]))
assert turns.try_to_acquire()
print("held", flush=True)
if os.fork() == 0:
    print("forked", flush=True)
sys.stdin.readline()
os._exit(0)
"""

DIE_ANSWERING = """
import os, sys, threading
from pathlib import Path
from onceflow.storage.sqlite import SqliteJournal
from tests.storage.common import append, commit
store = SqliteJournal(Path(sys.argv[1]))
commit(store, append("r", b"1"))
store.submit([append("r", b"2")], lambda _: os.kill(os.getpid(), 9))
threading.Event().wait()
"""

USE_IN_FORK = """
import os, sys, warnings
from pathlib import Path
from onceflow.errors import StorageClosed
from onceflow.storage.sqlite import SqliteJournal
from tests.storage.common import append, commit, create
warnings.simplefilter("ignore")
store = SqliteJournal(Path(sys.argv[1]), durability="process")
commit(store, create("r"))
store.get_run("r")
if os.fork() == 0:
    said = []
    for use in (lambda: store.get_run("r"), lambda: store.submit([], print)):
        try:
            use()
        except StorageClosed as error:
            said.append(type(error).__name__)
    print(*said, flush=True)
    sys.exit()
os.wait()
print(commit(store, append("r", b"1")).ok, flush=True)
store.close()
"""


def test_two_processes_that_saturate_a_file_commit_equally_often(tmp_path: Path) -> None:
    path, commits = tmp_path / "journal.db", 1_000
    store = quick(tmp_path)
    commit(store, create("a"), create("b"))
    store.close()
    with Child(SATURATE, path, "a", commits) as first, Child(SATURATE, path, "b", commits) as second:
        assert (first.read(), second.read()) == ("ready", "ready")
        first.go_on()
        second.go_on()

        # Each says how far both were when it was through. The first to finish had written everything of its own.
        reached = [sorted(map(int, child.read().split())) for child in (first, second)]

    slower, faster = min(reached)
    assert faster == commits
    assert slower >= commits / 2


def test_a_killed_process_gives_its_turn_back(tmp_path: Path) -> None:
    with Child(HOLD, tmp_path / "journal.db") as holder:
        assert holder.read() == "held"
        assert not is_free(tmp_path)
        holder.kill()

    assert is_free(tmp_path)


def test_a_forked_child_does_not_keep_the_turn_of_its_dead_parent(tmp_path: Path) -> None:
    with Child(HOLD_AND_FORK, tmp_path / "journal.db") as parent:
        assert (parent.read(), parent.read()) == ("held", "forked")
        assert not is_free(tmp_path)
        parent.kill()

        assert is_free(tmp_path)


def test_a_journal_left_by_a_killed_writer_is_written_on_at_once(tmp_path: Path) -> None:
    store = quick(tmp_path)
    commit(store, create("r"))
    store.close()
    with Child(DIE_ANSWERING, tmp_path / "journal.db") as writer:
        assert writer.wait() == -signal.SIGKILL

    store = quick(tmp_path)
    assert commit(store, append("r", b"3")).ok
    assert bodies(store, "r") == [b"1", b"2", b"3"]
    store.close()


def test_a_forked_child_cannot_use_the_journal_of_its_parent(tmp_path: Path) -> None:
    with Child(USE_IN_FORK, tmp_path / "journal.db") as parent:
        assert parent.read() == "StorageClosed StorageClosed"
        assert parent.read() == "True"
        assert parent.wait() == 0


def is_free(path: Path) -> bool:
    with (path / "journal.db-turn").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    quick(tmp_path).close()
    before = set(os.listdir("/proc/self/fd"))
    store = quick(tmp_path)
    commit(store, create("r"), append("r", b"1"))
    bodies(store, "r")

    store.close()

    assert set(os.listdir("/proc/self/fd")) == before
