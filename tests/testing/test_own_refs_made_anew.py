"""Refs of a user's own that are made anew, look the same, and refer to something else."""

from __future__ import annotations

from pathlib import Path

from onceflow import current, task, transaction
from onceflow.handlers import handler, retry
from onceflow.testing import MemoryEngine
from tests.helpers.file_refs import FileRef


class Busy(Exception):
    pass


def take_back(key: str) -> None:
    pass


@task(rollback=take_back)
def book() -> str:
    """Another room each time."""
    return f"room {current().attempt}"


@task(can_rollback=True)
def write(path: str, room: str) -> FileRef:
    Path(path).write_text(room)
    return FileRef(path)


@task(can_rollback=True)
def check(file: FileRef, room: str) -> tuple[FileRef, str]:
    return file, room


@transaction(handlers=[handler(Busy, retry(1))])
def trip(path: str) -> tuple[FileRef, str]:
    room = book.bind()
    return check.bind(write.bind(path, room), room)  # type: ignore[return-value]


def test_what_a_ref_refers_to_is_saved_again_when_it_was_made_anew(tmp_path: Path) -> None:
    """Given a file that is saved, and written again with another content in a transaction that is tried again, when the
    file is gone, then what is restored is what counts."""
    engine = MemoryEngine()
    engine.fail(check, Busy(), times=1)
    path = tmp_path / "file"
    engine.run(trip.bind(str(path)), name="trip")
    engine.assert_undone(book)
    path.unlink()
    file, room = engine.run(trip.bind(str(path)), name="trip")
    assert file.get() == room
