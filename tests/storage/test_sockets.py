"""Sockets of engines."""

from __future__ import annotations

import os
import select
import stat
from pathlib import Path

import pytest

from onceflow.errors import StorageError
from onceflow.storage import sockets
from onceflow.storage.sockets import Listener
from tests.storage.common import Child

LISTEN_AND_FORK = """
import os, sys
from pathlib import Path
from onceflow.storage.sockets import Listener
listener = Listener(Path(sys.argv[1]), "parent")
if os.fork() == 0:
    print("forked", flush=True)
sys.stdin.readline()
"""


def test_who_connects_is_heard(tmp_path: Path) -> None:
    listener = Listener(tmp_path, "here")
    assert listener.accept() is None

    with sockets.connect(tmp_path, "here", 10) as asking:
        assert select.select([listener], [], [], 10)[0] == [listener]
        answering = listener.accept()
        assert answering is not None
        asking.sendall(b"?")
        assert select.select([answering], [], [], 10)[0] == [answering]
        assert answering.recv(9) == b"?"
        answering.close()
    listener.close()


def test_only_its_user_may_connect_and_nothing_is_left(tmp_path: Path) -> None:
    listener = Listener(tmp_path, "here")
    assert stat.S_IMODE((tmp_path / "here.socket").stat().st_mode) == 0o600
    listener.close()
    listener.close()
    assert os.listdir(tmp_path) == []


def test_a_path_may_be_longer_than_the_name_of_a_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 200) / ("b" * 200)
    folder.mkdir(parents=True)
    listener = Listener(folder, "here")
    sockets.connect(folder, "here", 10).close()
    listener.close()


def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sockets.connect(tmp_path, "nobody", 10)
    with pytest.raises(FileNotFoundError):
        sockets.connect(tmp_path / "nowhere", "nobody", 10)
    Listener(tmp_path, "here").leave_to_parent()  # as if it had died: the file stays
    with pytest.raises(ConnectionRefusedError):
        sockets.connect(tmp_path, "here", 10)


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        Listener(tmp_path / "missing", "here")


def test_a_forked_child_does_not_listen_in_the_place_of_its_parent(tmp_path: Path) -> None:
    with Child(LISTEN_AND_FORK, tmp_path) as parent:
        assert parent.read() == "forked"
        sockets.connect(tmp_path, "parent", 10).close()
        parent.kill()

        with pytest.raises(ConnectionRefusedError):
            sockets.connect(tmp_path, "parent", 10)


def test_who_asks_does_not_listen_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(tmp_path, "here")
    monkeypatch.setattr(sockets, "_user_of", lambda connection: os.geteuid() + 1)
    with pytest.raises(PermissionError, match="another user"):
        sockets.connect(tmp_path, "here", 10)
    listener.close()
