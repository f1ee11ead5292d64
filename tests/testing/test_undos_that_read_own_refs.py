"""Undos that read refs of a user's own, when what these refer to is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import TaskFailed, task
from onceflow.testing import MemoryEngine
from tests.testing.test_own_refs_made_anew import FileRef

taken_back: list[str] = []


@task.pure
def write(path: str) -> FileRef:
    Path(path).write_text("content")
    return FileRef(path)


def take_back(file: FileRef) -> None:
    taken_back.append(file.get())


@task(rollback=take_back)
def book(file: FileRef) -> str:
    return file.get()


@task(can_rollback=True)
def check(room: str) -> str:
    raise ValueError("no")


@pytest.mark.parametrize("crashes", [False, True])
def test_what_a_ref_in_an_input_refers_to_is_made_again_for_an_undo(crashes: bool, tmp_path: Path) -> None:
    """Given a begun task that reads a ref which was not saved, when what that refers to is gone, also with the engine,
    then its undo finds what the attempt has seen."""
    taken_back.clear()
    path = tmp_path / "file"
    engine = MemoryEngine(on_crash="raise")

    def check_without_file(room: str) -> str:
        path.unlink()
        raise ValueError("no")

    if crashes:
        engine.crash_at(book, "after effect")
        with pytest.raises(Exception, match="crashed"):
            engine.run(check.bind(book.bind(write.bind(str(path)))), name="trip", on_failure="undo")
        path.unlink()
        with pytest.raises(TaskFailed):
            engine.resume("trip")
    else:
        engine.replace(check, check_without_file)
        with pytest.raises(TaskFailed):
            engine.run(check.bind(book.bind(write.bind(str(path)))), name="trip", on_failure="undo")
    assert set(taken_back) == {"content"}
    engine.assert_undone(book)


def test_what_was_made_again_for_an_undo_and_is_lost_is_made_once_more(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tries: list[str] = []

    def take_back_late(file: FileRef) -> None:
        tries.append("")
        if len(tries) < 3:
            path.unlink()
        tries[-1] = file.get()

    late = task(rollback=take_back_late, name="late")(lambda file: file.get())
    engine = MemoryEngine()
    with pytest.raises(TaskFailed):
        engine.run(check.bind(late.bind(write.bind(str(path)))), on_failure="undo")
    assert tries == ["", "", "content"]
