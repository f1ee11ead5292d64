"""What the rollback function of a task sees of an output that nobody keeps any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine, TaskFailed, task
from tests.helpers.traces import note, traces


def take_back(path: str, name: str, output: str | None) -> None:
    note(path, f"{name} {output}")


@task(rollback=take_back, checkpoint=False)
def book(path: str, name: str) -> str:
    return f"a {name}"


@task(can_rollback=True)
def keep(value: object) -> object:
    return value


@task(can_rollback=True)
def fail(value: object) -> None:
    raise ValueError


def test_an_output_that_was_released_unsaved_is_none(tmp_path: Path) -> None:
    path = str(tmp_path / "traces")
    with Engine(tmp_path / "home", workers=1) as engine, pytest.raises(TaskFailed) as failure:
        engine.run(fail.bind(keep.bind(book.bind(path, "room"))), on_failure="undo")
    assert failure.value.undone
    assert traces(path) == ["room None"]


def test_so_is_one_that_others_only_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "traces")
    waiting = keep.options(after=[book.bind(path, "room")]).bind(None)
    with Engine(tmp_path / "home", workers=1) as engine, pytest.raises(TaskFailed) as failure:
        engine.run(fail.bind(waiting), on_failure="undo")
    assert failure.value.undone
    assert traces(path) == ["room None"]
