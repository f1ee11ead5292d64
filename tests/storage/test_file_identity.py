"""Files that are moved, replaced or deleted under an engine are noticed, with one look at their directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from onceflow.errors import StorageMoved
from onceflow.storage import file_identity
from onceflow.storage.file_identity import FileIdentity

LONG_AGO = 1_600_000_000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "engines").mkdir(parents=True)
    (home / "journal.db").touch()
    (home / "engines" / "lock").touch()
    os.utime(home, (LONG_AGO, LONG_AGO))
    return home


@pytest.fixture
def identity(home: Path, monkeypatch: pytest.MonkeyPatch) -> FileIdentity:
    monkeypatch.setattr(file_identity, "LOOK_EVERY", 3600)
    identity = FileIdentity(home, home / "journal.db", home / "engines" / "lock")
    assert identity.check()
    return identity


def delete(home: Path) -> None:
    shutil.rmtree(home)


def move(home: Path) -> None:
    home.rename(home.with_name("moved"))


def replace(home: Path) -> None:
    copy = shutil.copytree(home, home.with_name("copy"))
    os.utime(copy, (LONG_AGO, LONG_AGO))
    move(home)
    copy.rename(home)


def delete_file(home: Path) -> None:
    (home / "journal.db").unlink()


def replace_file(home: Path) -> None:
    (home / "new").touch()
    (home / "new").rename(home / "journal.db")


def replace_folder(home: Path) -> None:
    delete(home)
    home.touch()


@pytest.mark.parametrize("trouble", [delete, move, replace, delete_file, replace_file, replace_folder])
def test_files_that_are_not_at_their_paths_any_more_are_noticed_at_the_next_check(
    home: Path, identity: FileIdentity, trouble: Callable[[Path], None]
) -> None:
    assert not identity.check()
    trouble(home)
    with pytest.raises(StorageMoved, match=str(home)):
        identity.check()


def test_two_changes_that_bear_the_same_time_are_both_noticed(home: Path) -> None:
    # given a directory whose last change is so recent that the next one may bear its time
    os.utime(home)
    identity = FileIdentity(home, home / "journal.db")
    assert identity.check()
    changed = os.stat(home).st_mtime_ns
    # when
    replace_file(home)
    os.utime(home, ns=(changed, changed))
    # then
    with pytest.raises(StorageMoved, match=r"another journal\.db"):
        identity.check()


def test_a_lock_in_a_subdirectory_is_looked_at_from_time_to_time(
    home: Path, identity: FileIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "engines" / "lock").unlink()
    assert not identity.check()
    now = file_identity.time.monotonic() + 3601
    monkeypatch.setattr(file_identity.time, "monotonic", lambda: now)
    with pytest.raises(StorageMoved, match="lock is not there"):
        identity.check()


def test_other_changes_of_the_directory_are_told_and_are_no_trouble(home: Path, identity: FileIdentity) -> None:
    (home / "notes.txt").touch()
    assert identity.check()
