"""Which home directories are opened: those that no other user could have written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onceflow.errors import StorageNotTrusted
from onceflow.storage import home as home_module
from onceflow.storage.blobs import Author
from onceflow.storage.home import ENTRIES, Home
from tests.conftest import NOBODY
from tests.storage.common import Child, append, commit, create

Give = Callable[[Path], None]

FILL = """
import os, sys
from pathlib import Path
from onceflow import Engine, Secret, task
from onceflow.values import sealed_bytes
os.umask(int(sys.argv[2], 8))
@task
def large() -> bytes:
    print("written to the log")
    return bytes(200_000)
with Engine(Path(sys.argv[1]), workers=1, object_memory=1, output="store") as engine:
    engine.run(large.bind())
    with sealed_bytes.using(engine.settings.home):
        sealed_bytes.seal(b"text")
    engine._collecting._collect()
    print("filled", flush=True)
    sys.stdin.readline()
"""
"""Makes everything that can be in a home directory."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a home directory with something in it."""
    made = tmp_path / "home"
    with Home(made, durability="process") as home:
        commit(home.journal, create("r"), append("r", b"1"))
    for name in ENTRIES:
        if not (made / name).exists():
            (made / name).touch(0o600)
    return made


def everything(path: Path) -> Iterator[Path]:
    yield path
    yield from path.rglob("*")


def test_a_home_of_another_user_is_refused_and_nothing_in_it_is_touched(path: Path, give_away: Give) -> None:
    before = {file: file.lstat().st_mtime_ns for file in everything(path)}
    give_away(path)

    with pytest.raises(StorageNotTrusted, match=f"cannot use {path}: it belongs to user"):
        Home(path)

    assert {file: file.lstat().st_mtime_ns for file in everything(path)} == before


@pytest.mark.parametrize("name", ENTRIES)
def test_a_home_with_an_entry_of_another_user_is_refused(path: Path, give_away: Give, name: str) -> None:
    give_away(path / name)

    with pytest.raises(StorageNotTrusted, match=f"cannot use {path / name}: it belongs to user"):
        Home(path)


@pytest.mark.parametrize("name", ["", *ENTRIES])
def test_a_home_that_all_can_write_to_is_refused(path: Path, name: str) -> None:
    (path / name).chmod(0o777)

    with pytest.raises(StorageNotTrusted, match="every user can write to it"):
        Home(path)


def test_a_new_home_in_a_folder_of_another_user_is_not_made(tmp_path: Path, give_away: Give) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    give_away(theirs)

    with pytest.raises(StorageNotTrusted):
        Home(theirs / ".onceflow")

    assert list(theirs.iterdir()) == []


def test_a_home_that_another_user_makes_in_the_last_moment_is_refused(
    tmp_path: Path, give_away: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)

    def be_quicker(path: Path, *, parents: bool = False) -> None:
        path.mkdir()
        give_away(path)

    monkeypatch.setattr(home_module, "create_folder", be_quicker)
    with pytest.raises(StorageNotTrusted):
        Home(shared / "home")


def test_a_home_behind_a_link_of_another_user_is_refused(tmp_path: Path, path: Path, give_away: Give) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    Home(link).close()
    give_away(link)

    with pytest.raises(StorageNotTrusted, match="symbolic link"):
        Home(link)


def test_a_home_in_a_folder_of_a_trusted_owner_is_opened(tmp_path: Path, give_away: Give) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o777)
    give_away(theirs)

    with Home(theirs / ".onceflow", trusted_owners=[NOBODY]) as home:
        commit(home.journal, create("r"))
        assert stat.S_IMODE((theirs / ".onceflow").stat().st_mode) == 0o700


def test_files_that_a_file_system_gives_to_a_trusted_owner_are_read(path: Path, give_away: Give) -> None:
    with Home(path) as home:
        reference = home.blobs.write(Author("r", 1, home.engine), "node", [b"large"])
    for file in everything(path):
        give_away(file)
        file.chmod(0o777)

    with Home(path, trusted_owners=[NOBODY]) as home:
        assert home.blobs.read(reference) == b"large"
        assert home.journal.get_run("r") is not None


def test_a_blob_of_another_user_is_not_read(path: Path, give_away: Give) -> None:
    with Home(path) as home:
        reference = home.blobs.write(Author("r", 1, home.engine), "node", [b"large"])
        give_away(path / "blobs" / reference)

        for read in (home.blobs.read, home.blobs.map, home.blobs.open):
            with pytest.raises(StorageNotTrusted, match="it belongs to user"):
                read(reference)


def test_blobs_in_a_folder_of_another_user_are_refused(tmp_path: Path, path: Path, give_away: Give) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    give_away(theirs)

    with pytest.raises(StorageNotTrusted, match="another place for `blobs`"):
        Home(path, blobs=f"file://{theirs}/blobs")
    assert list(theirs.iterdir()) == []

    with Home(path, blobs=f"file://{theirs}/blobs", trusted_owners=[NOBODY]) as home:
        reference = home.blobs.write(Author("r", 1, home.engine), "node", [b"large"])
        assert home.blobs.read(reference) == b"large"


@pytest.mark.parametrize("umask", ["000", "022", "027", "777"])
def test_files_and_folders_are_for_their_user_only_whatever_the_umask(tmp_path: Path, umask: str) -> None:
    path = tmp_path / "missing" / "home"

    with Child(FILL, path, umask) as child:
        assert child.read() == "filled"
        modes = {file: file.lstat() for file in (path.parent, *everything(path))}

    for file, found in modes.items():
        expected = 0o700 if stat.S_ISDIR(found.st_mode) else 0o600
        assert stat.S_IMODE(found.st_mode) == expected, file
    assert {name for name in ENTRIES if not (path / name).exists()} <= {"spill"}


def test_missing_folders_above_a_home_are_made_for_this_user_only(tmp_path: Path) -> None:
    Home(tmp_path / "one" / "two" / "home").close()
    for folder in ("one", "one/two"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
    assert os.listdir(tmp_path / "one") == ["two"]
