"""Giving the result of a failed task by hand, and going on."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine, task
from onceflow.errors import NoSuchTask, ResultRefused
from tests.engine.common import trace
from tests.engine.runs import failed
from tests.helpers.traces import traces
from tests.helpers.waiting import LONG


def leave(file: str, line: str) -> None:
    with Path(file).open("a") as traces:
        traces.write(line + "\n")


@task
def charge(file: str, pounds: int) -> int:
    leave(file, "charged")
    raise ConnectionError("nobody knows")


@task(can_rollback=True, checkpoint=False)
def unsaved(pounds: int) -> int:
    raise ValueError("no")


def take_back(file: str) -> None:
    leave(file, "taken back")


@task(rollback=take_back)
def book(file: str) -> str:
    leave(file, "booked")
    raise ConnectionError("nobody knows")


@task(num_returns=2)
def pair() -> tuple[int, str]:
    raise ValueError("no")


@task
def join(file: str, *values: object) -> str:
    leave(file, "joined")
    return ", ".join(map(str, values))


@task
def around(file: str) -> object:
    return join.bind(file, charge.bind(file, 3))


def test_the_task_is_done_with_that_and_does_not_run(engine: Engine, tmp_path: Path) -> None:
    # given a run in which one task has failed and another one is saved
    file = str(tmp_path / "trace")
    order = failed(engine, join.bind(file, trace.bind(file, "saved"), charge.bind(file, 3)))
    before = traces(file)

    # when somebody says what its result is
    engine.set_result(order, "charge", 3)
    assert engine.status(order) == "failed"

    # then the run goes on from there
    assert engine.resume(order) == "saved, 3"
    assert traces(file) == [*before, "joined"]
    assert engine.get_output(order, "charge") == 3


def test_it_outlives_a_restart_before_and_after_the_run_goes_on(home: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "trace")
    with Engine(home) as engine:
        order = failed(engine, charge.bind(file, 3))
        engine.set_result(order, "charge", 4)
    with Engine(home) as engine:
        assert engine.resume(order) == 4
    with Engine(home) as engine:
        assert engine.resume(order) == 4
    assert traces(file) == ["charged"]


def test_one_that_is_not_to_be_saved_is_all_the_same(engine: Engine) -> None:
    order = failed(engine, unsaved.bind(3))
    engine.set_result(order, "unsaved", 5)
    assert engine.resume(order) == 5


def test_what_an_undoable_task_has_done_is_undone_first(engine: Engine, tmp_path: Path) -> None:
    file = str(tmp_path / "trace")
    order = failed(engine, book.bind(file))
    engine.set_result(order, "book", "by telephone")
    assert engine.resume(order) == "by telephone"
    assert traces(file)[0] == "booked"
    assert set(traces(file)[1:]) == {"taken back"}


def test_a_task_of_a_returned_graph_is_given_one_too(engine: Engine, tmp_path: Path) -> None:
    file = str(tmp_path / "trace")
    order = failed(engine, around.bind(file))
    engine.set_result(order, "around/charge", 7)
    assert engine.resume(order) == "7"


def test_several_values_are_a_list(engine: Engine, tmp_path: Path) -> None:
    first, second = pair.bind()
    order = failed(engine, join.bind(str(tmp_path / "trace"), second, first))
    with pytest.raises(ResultRefused, match="length 2"):
        engine.set_result(order, "pair", [1, "a", "b"])
    engine.set_result(order, "pair", [1, "a"])
    assert engine.resume(order) == "a, 1"


def test_what_does_not_fit_is_refused(engine: Engine, tmp_path: Path) -> None:
    file = str(tmp_path / "trace")
    order = failed(engine, join.bind(file, trace.bind(file, "saved"), charge.bind(file, 3)))
    with pytest.raises(ResultRefused, match="it returns int"):
        engine.set_result(order, "charge", "three")
    with pytest.raises(ResultRefused, match="it has a result"):
        engine.set_result(order, "trace", "else")
    with pytest.raises(ResultRefused, match="it has not failed"):
        engine.set_result(order, "join", "else")
    with pytest.raises(NoSuchTask):
        engine.set_result(order, "nobody", 3)
    fine = engine.run_async(trace.bind(file, "fine"))
    fine.result(LONG)
    with pytest.raises(ResultRefused, match="the run is succeeded"):
        engine.set_result(fine.id, "trace", "else")
