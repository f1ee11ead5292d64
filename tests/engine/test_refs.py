"""References: made and passed on by tasks, put by programs, and kept with results."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

import onceflow
from onceflow import Engine, Ref, TaskFailed, put, ref, task, workflow
from onceflow.errors import InvalidRef, WorkerDied
from tests.helpers.file_refs import FileRef

LARGE = 300_000
"""Numbers: more than travels in messages."""


@dataclasses.dataclass
class Table:
    name: str
    rows: Any


@task.pure
def make(size: int) -> Ref[Any]:
    return put(numpy.arange(size))


@task.pure
def make_many(size: int) -> Any:
    return {"tables": [Table(str(n), put(numpy.full(size, n))) for n in range(3)], "size": size}


@task.pure
def pass_on(found: Any) -> Any:
    return found


@task.pure
def total(found: Ref[Any]) -> int:
    return int(found.get().sum())


@task.pure
def total_of_many(found: Any) -> list[int]:
    return [int(table.rows.get().sum()) for table in found["tables"]]


@task
def saved(found: Any) -> Any:
    return found


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_ref_that_a_task_made_is_read_by_another(engine: Engine, size: int) -> None:
    assert engine.run(total.bind(make.bind(size))) == sum(range(size))


@pytest.mark.parametrize("size", [10, LARGE])
def test_refs_may_stand_anywhere_and_pass_through_any_number_of_tasks(engine: Engine, size: int) -> None:
    found = engine.run(total_of_many.bind(pass_on.bind(saved.bind(pass_on.bind(make_many.bind(size))))))
    assert found == [0, size, 2 * size]


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_node_passed_as_a_ref_is_loaded_when_it_is_asked_for(engine: Engine, size: int) -> None:
    @task.pure
    def numbers(count: int) -> Any:
        return numpy.arange(count)

    @task.pure
    def ask(one: Ref[Any], refs: list[Ref[Any]], value: Any) -> tuple[bool, int, int]:
        return isinstance(one, Ref), int(one.get()[-1]), int(refs[0].get()[-1]) + len(value)

    node = numbers.bind(size)
    assert engine.run(ask.bind(ref(node), [ref(node)], node)) == (True, size - 1, 2 * size - 1)


def test_a_part_may_be_passed_as_a_ref(engine: Engine) -> None:
    @task(num_returns=2)
    def two() -> tuple[int, str]:
        return 1, "second"

    @task.pure
    def get(found: Ref[str]) -> str:
        return found.get()

    assert engine.run(get.bind(ref(two.bind()[1]))) == "second"
    with pytest.raises(InvalidRef, match="several parts"):
        ref(two.bind())


def test_a_ref_to_an_output_that_holds_refs_gives_them(engine: Engine) -> None:
    @task.pure
    def ask(found: Ref[Any]) -> list[int]:
        return [int(table.rows.get().sum()) for table in found.get()["tables"]]

    @task.pure
    def hand_on(found: Ref[Any]) -> Any:
        return found

    assert engine.run(ask.bind(ref(make_many.bind(10)))) == [0, 10, 20]
    with pytest.raises(TaskFailed, match="its value holds refs"):
        engine.run(ask.bind(hand_on.bind(ref(make_many.bind(10)))))


@pytest.mark.parametrize("size", [10, LARGE])
def test_what_a_program_puts_joins_each_run_it_is_bound_into(engine: Engine, size: int) -> None:
    value = numpy.arange(size)
    table = put(value)
    value[:] = 0

    @workflow
    def twice(found: Ref[Any]) -> Any:
        return add.bind(total.bind(found), total.bind(found))

    @task.pure
    def add(one: int, two: int) -> int:
        return one + two

    assert engine.run(total.bind(table)) == sum(range(size))
    assert engine.run(twice.bind(table)) == 2 * sum(range(size))
    assert table.get()[-1] == size - 1


@pytest.mark.parametrize("size", [10, LARGE])
def test_refs_in_a_result_can_be_read_by_whoever_gets_it(engine: Engine, size: int) -> None:
    found = engine.run(saved.bind(make_many.bind(size)), name=f"tables of {size}")
    assert [int(table.rows.get().sum()) for table in found["tables"]] == [0, size, 2 * size]
    again = engine.get_output(f"tables of {size}")
    again["tables"][1].rows.get()[0] = 7
    assert again["tables"][1].rows.get()[0] == 1


def test_a_ref_of_one_run_cannot_be_bound_into_another(engine: Engine) -> None:
    found = engine.run(make.bind(10))
    with pytest.raises(InvalidRef, match="belongs to a run, whose result it is in"):
        engine.run(total.bind(found))
    assert engine.run(total.bind(put(found.get()))) == 45


def test_a_ref_cannot_be_pickled_by_itself() -> None:
    with pytest.raises(InvalidRef, match="by itself"):
        pickle.dumps(put(1))


def test_a_value_with_refs_in_it_cannot_be_put() -> None:
    with pytest.raises(InvalidRef, match="beside each other"):
        put([put(1)])


def test_a_ref_that_a_task_kept_is_good_for_nothing_later(engine: Engine) -> None:
    @task.pure
    def keep(found: Ref[Any]) -> int:
        import builtins

        builtins.kept_ref = found  # type: ignore[attr-defined]
        return int(found.get()[0])

    @task.pure
    def use(before: int) -> Any:
        import builtins

        return builtins.kept_ref  # type: ignore[attr-defined]

    with pytest.raises(TaskFailed, match="belongs to the attempt of keep"):
        engine.run(use.bind(keep.bind(make.bind(10))))


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_returned_graph_may_take_refs_along(engine: Engine, size: int) -> None:
    @task
    def expand(found: Ref[Any], size: int) -> Any:
        mine = put(numpy.ones(size))
        return add.bind(total.bind(found), total.bind(mine), [found, mine])

    @task
    def add(one: int, two: int, both: list[Ref[Any]]) -> list[int]:
        return [one, two, sum(int(one.get().sum()) for one in both)]

    expected = sum(range(size))
    assert engine.run(expand.bind(make.bind(size), size)) == [expected, size, expected + size]


def test_a_ref_that_was_saved_before_is_not_saved_again(engine: Engine) -> None:
    @task
    def append(found: list[Ref[Any]]) -> list[Ref[Any]]:
        return [*found, put(numpy.zeros(LARGE))]

    @task
    def count(found: list[Ref[Any]]) -> int:
        return sum(len(one.get()) for one in found)

    before = engine.statistics().blobs
    node: Any = append.bind([])
    for _ in range(4):
        node = append.bind(node)
    assert engine.run(count.bind(node)) == 5 * LARGE
    after = engine.statistics().blobs
    if before is not None and after is not None:  # an engine in memory has no files
        assert after.written - before.written == 5


def test_an_undo_sees_the_refs_that_the_attempt_saw(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def take_back(found: Ref[Any], *, output: Any) -> None:
        with log.open("a") as file:
            file.write(f"undo {int(found.get().sum())} {int(output.get()[0])}\n")

    @task(rollback=take_back)
    def book(found: Ref[Any]) -> Ref[Any]:
        return put(numpy.array([42]))

    @task.pure
    def fail(found: Any) -> None:
        raise ValueError("no")

    with pytest.raises(TaskFailed):
        engine.run(fail.bind(book.bind(make.bind(10))), on_failure="undo")
    assert log.read_text() == "undo 45 42\n"


@task(can_rollback=True)
def write(path: str) -> FileRef:
    with Path(path + ".log").open("a") as file:
        file.write("written\n")
    Path(path).write_text("content")
    return FileRef(path)


class CountedRef(FileRef):
    def _checkpoint(self) -> Any:
        with Path(self.path + ".saves").open("a") as file:
            file.write("saved\n")
        return super()._checkpoint()


@task(can_rollback=True)
def counted(path: str) -> FileRef:
    Path(path).write_text("content")
    return CountedRef(path)


@task(can_rollback=True)
def write_and_remove_once(path: str) -> FileRef:
    Path(path).write_text("content")
    if not Path(path + ".removed").exists():
        Path(path + ".removed").touch()
        Path(path).unlink()
    return FileRef(path)


@task.pure
def remove_once(found: FileRef, path: str) -> FileRef:
    if not Path(path + ".removed").exists():
        Path(path + ".removed").touch()
        Path(path).unlink()
    return found


@task.pure
def read(found: FileRef) -> str:
    try:
        return found.get()
    except onceflow.OnceflowError:
        return "this attempt does not count"


def test_a_ref_of_ones_own_is_passed_saved_and_restored(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert engine.run(read.bind(write.bind(path)), name="own") == "content"


def test_a_ref_of_ones_own_is_made_by_a_task(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(InvalidRef, match="made by a task of the run"):
        engine.run(read.bind(FileRef(str(tmp_path / "file"))))


def test_a_ref_of_ones_own_that_lacks_something_says_what(engine: Engine) -> None:
    class Unfinished(Ref[int]):
        _id = "unfinished"

    @task
    def make_unfinished() -> Ref[int]:
        return Unfinished()

    with pytest.raises(TaskFailed, match="Unfinished has to define `_checkpoint`: what to save of it") as caught:
        engine.run(make_unfinished.bind())
    notes = "".join(getattr(caught.value.__cause__, "__notes__", []))
    assert "Unfinished._checkpoint was asked what to save of a ref that the task returned" in notes


class DeadlyRef(FileRef):
    """Kills its worker when it is saved, unless that has happened often enough."""

    def _checkpoint(self) -> Any:
        died = Path(self.path + ".died")
        before = died.read_text() if died.exists() else ""
        if len(before) < 2:
            died.write_text(before + ".")
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._checkpoint()


def deadly(path: str) -> Ref[str]:
    Path(path).write_text("content")
    return DeadlyRef(path)


def test_a_ref_whose_save_kills_its_worker_fails_its_task_after_so_many_deaths(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed) as caught:
        engine.run(task(worker_deaths=2)(deadly).bind(str(tmp_path / "file")))
    died = caught.value.__cause__
    assert isinstance(died, WorkerDied)
    assert (died.deaths, died.status) == (2, -signal.SIGKILL)
    assert "the save of a ref of deadly" in str(died)


def test_a_ref_whose_save_kills_fewer_workers_is_saved(engine: Engine, tmp_path: Path) -> None:
    found = engine.run(task(worker_deaths=3)(deadly).bind(str(tmp_path / "file")))
    assert found.get() == "content"


def test_a_ref_of_ones_own_that_cannot_be_pickled_is_named(engine: Engine) -> None:
    class Stuck(FileRef):
        def __init__(self) -> None:
            self.path, self.lock = "stuck", threading.Lock()

    @task
    def make_stuck() -> Ref[str]:
        return Stuck()

    with pytest.raises(TaskFailed, match=r"Stuck cannot be pickled: .* nothing that belongs to one process"):
        engine.run(make_stuck.bind())


def test_a_lost_ref_of_ones_own_is_restored_from_what_was_saved(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert engine.run(read.bind(remove_once.bind(saved.bind(write.bind(path)), path))) == "content"
    assert Path(path + ".log").read_text() == "written\n"


def test_a_ref_of_ones_own_is_saved_once(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    engine.run(saved.bind(saved.bind(counted.bind(path))))
    assert Path(path + ".saves").read_text() == "saved\n"


def test_a_ref_that_is_lost_before_it_is_saved_is_made_again(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert engine.run(saved.bind(write_and_remove_once.bind(path))).get() == "content"


def test_a_lost_ref_that_was_not_saved_is_made_again(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    unsaved = write.options(checkpoint=False, deterministic=True)
    assert engine.run(read.bind(remove_once.bind(unsaved.bind(path), path))) == "content"
    assert Path(path + ".log").read_text() == "written\nwritten\n"
