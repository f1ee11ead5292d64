"""The home directory."""

from __future__ import annotations

import select
import stat
from pathlib import Path

import pytest

from onceflow.errors import StorageError, StorageReadOnly, StorageTooNew
from onceflow.storage import schema
from onceflow.storage.blobs import Author
from onceflow.storage.home import Home
from tests.storage.common import Child, append, bodies, commit, create

OPEN_WITHOUT_POWERS = """
import ctypes, os, sys
from pathlib import Path
from onceflow.errors import StorageError
from onceflow.storage.home import Home
# Root may write where permissions forbid it. Without its capabilities it may not.
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
try:
    Home(Path(sys.argv[1]))
except StorageError as error:
    print(type(error).__name__, flush=True)
"""


def test_a_home_is_made_for_its_user_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".onceflow"

    with Home(path) as home:
        commit(home.journal, create("r"), append("r", b"1"))
        reference = home.blobs.write(Author("r", 1, home.engine), "node", [b"large"])
        assert home.engines.is_alive(home.engine)

    for made in (path, path / "blobs", path / "engines"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    with Home(path) as again:
        assert again.engine != home.engine
        assert not again.engines.is_alive(home.engine)
        assert bodies(again.journal, "r") == [b"1"]
        assert again.blobs.read(reference) == b"large"


def test_two_engines_share_a_home(tmp_path: Path) -> None:
    with Home(tmp_path) as first, Home(tmp_path) as second:
        commit(first.journal, create("r"))
        commit(second.journal, append("r", b"1"))

        assert bodies(first.journal, "r") == [b"1"]
        assert first.engines.is_alive(second.engine)
        assert second.engines.is_alive(first.engine)


def test_opening_removes_the_locks_of_dead_engines(tmp_path: Path) -> None:
    Home(tmp_path).close()
    (tmp_path / "engines" / "dead").touch()
    for suffix in (".bell", ".socket"):
        (tmp_path / "engines" / f"dead{suffix}").touch()
        (tmp_path / "engines" / f"long-dead{suffix}").touch()

    with Home(tmp_path) as home:
        left = {file.name for file in (tmp_path / "engines").iterdir()}
        assert left == {home.engine, f"{home.engine}.bell", f"{home.engine}.socket"}


@pytest.mark.parametrize("inside", ["", "blobs", "engines"])
def test_a_file_where_a_directory_should_be_is_refused(tmp_path: Path, inside: str) -> None:
    path = tmp_path / "home"
    path.mkdir()
    (path / inside if inside else path / "file").write_text("mine")

    with pytest.raises(StorageError, match="not a directory"):
        Home(path if inside else path / "file")


def test_a_newer_home_is_refused_and_holds_no_lock_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, lambda connection: None))
        Home(tmp_path).close()

    with pytest.raises(StorageTooNew):
        Home(tmp_path)

    assert list((tmp_path / "engines").iterdir()) == []


@pytest.mark.parametrize("what", ["parent", "home", "engines", "journal.db"])
def test_a_home_without_write_permission_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "parent" / "home"
    if what == "parent":
        path.parent.mkdir()
        forbidden = path.parent
    else:
        Home(path).close()
        forbidden = path if what == "home" else path / what
    mode = forbidden.stat().st_mode
    forbidden.chmod(0o500)
    try:
        with Child(OPEN_WITHOUT_POWERS, path) as child:
            assert child.read() == StorageReadOnly.__name__
    finally:
        forbidden.chmod(mode)


def test_an_engine_hears_its_bell_and_no_other(tmp_path: Path) -> None:
    with Home(tmp_path) as ours, Home(tmp_path) as theirs:
        ours.ring(theirs.engine)
        ours.ring(theirs.engine)

        assert select.select([ours.bell, theirs.bell], [], [], 0)[0] == [theirs.bell]
        theirs.bell.hush()
        assert select.select([theirs.bell], [], [], 0)[0] == []


def test_ringing_the_bell_of_a_dead_engine_does_nothing(tmp_path: Path) -> None:
    with Home(tmp_path) as gone:
        engine = gone.engine

    with Home(tmp_path) as home:
        home.ring(engine)
        home.ring("never-was")


def test_a_bell_that_nobody_answers_can_be_rung_for_ever(tmp_path: Path) -> None:
    with Home(tmp_path) as ours, Home(tmp_path) as theirs:
        for _ in range(70_000):
            ours.ring(theirs.engine)
        theirs.bell.hush()
