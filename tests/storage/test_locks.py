"""Proof of death by lock."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from onceflow.storage.locks import Engines
from onceflow.storage.run_stores import EngineRow, Introduction
from tests.storage.common import Child

HOLD = """
import os, subprocess, sys
from pathlib import Path
from onceflow.storage.locks import Engines
lock = Engines(Path(sys.argv[1])).hold()
print(lock.id, flush=True)
"""

LIVE = f"{HOLD}\nsys.stdin.readline()"

FORK = f"""{HOLD}
if os.fork() == 0:
    lock.close()  # it is the parent's: nothing happens
    print("forked", flush=True)
sys.stdin.readline()
"""

START = f"""{HOLD}
child = subprocess.Popen(["cat"], close_fds=False)
print("started", flush=True)
child.wait()
"""


def test_an_engine_lives_until_its_lock_is_closed(tmp_path: Path) -> None:
    engines = Engines(tmp_path)
    lock = engines.hold()

    assert engines.is_alive(lock.id)
    assert Engines(tmp_path).is_alive(lock.id)
    lock.close()

    assert not engines.is_alive(lock.id)
    assert os.listdir(tmp_path) == []


def test_an_engine_that_never_was_is_not_alive(tmp_path: Path) -> None:
    assert not Engines(tmp_path).is_alive("nobody")


def test_a_killed_engine_is_known_to_be_dead_and_its_file_is_removed(tmp_path: Path) -> None:
    engines = Engines(tmp_path)
    mine = engines.hold()
    with Child(LIVE, tmp_path) as other:
        id = other.read()
        assert engines.is_alive(id)
        assert engines.remove_dead() == []
        other.kill()

    assert not engines.is_alive(id)
    assert engines.remove_dead() == [id]
    assert os.listdir(tmp_path) == [mine.id]
    mine.close()


def test_a_forked_child_does_not_keep_a_dead_engine_alive(tmp_path: Path) -> None:
    engines = Engines(tmp_path)
    with Child(FORK, tmp_path) as parent:
        id = parent.read()
        assert parent.read() == "forked"
        assert engines.is_alive(id)
        parent.kill()

        assert not engines.is_alive(id)


def test_a_program_started_by_an_engine_does_not_keep_it_alive(tmp_path: Path) -> None:
    with Child(START, tmp_path) as parent:
        id = parent.read()
        assert parent.read() == "started"
        parent.kill()

        assert not Engines(tmp_path).is_alive(id)


def test_engines_started_while_others_clean_up_are_all_alive(tmp_path: Path) -> None:
    """The race of `hold` with `remove_dead`, many times."""
    engines = Engines(tmp_path)
    over = threading.Event()

    def clean() -> None:
        while not over.is_set():
            engines.remove_dead()

    cleaners = [threading.Thread(target=clean) for _ in range(2)]
    for cleaner in cleaners:
        cleaner.start()
    locks = [engines.hold() for _ in range(300)]
    over.set()
    for cleaner in cleaners:
        cleaner.join()

    assert all(engines.is_alive(lock.id) for lock in locks)
    for lock in locks:
        lock.close()
    assert os.listdir(tmp_path) == []


def test_many_may_ask_at_once_without_taking_each_other_for_the_engine(tmp_path: Path) -> None:
    (tmp_path / "dead").touch()
    answers: list[bool] = []

    def ask() -> None:
        engines = Engines(tmp_path)
        answers.extend([engines.is_alive("dead") for _ in range(200)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not any(answers)
    assert len(answers) == 800


def test_on_a_full_disk_an_engine_lives_although_nobody_can_see_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    engines = Engines(tmp_path)
    lock = engines.hold()
    monkeypatch.setattr(os, "pwrite", full)
    lock.introduce(Introduction(pid=1))

    assert engines.members() == [EngineRow(lock.id, Introduction(), True)]
    lock.close()
