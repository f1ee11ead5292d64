"""What `run` returns: results of all shapes, from all kinds of tasks and graphs."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

from onceflow import Engine, UnsafeGraph, task, workflow
from tests.engine.common import add, double, keep, pass_door, trace
from tests.helpers.doors import Door
from tests.helpers.traces import note, traces

LARGE = 300_000
"""More bytes than stand in the journal itself."""


@task(num_returns=2)
def split(text: str) -> tuple[str, str]:
    left, _, right = text.partition("-")
    return left, right


@task
def measure_bytes(size: int) -> int:
    return length.bind(b"x" * size)


@task(num_returns=2)
def split_largely(size: int) -> tuple[bytes, int]:
    return b"x" * size, size


@task
def gather(**things: Any) -> dict[str, Any]:
    return things


@task
async def nap(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


@task(threads=True)
def where(_: int) -> tuple[int, bool]:
    return os.getpid(), threading.current_thread() is threading.main_thread()


@task(threads=True)
def meet(path: str) -> str:
    pass_door(path)
    return "met"


@task(can_rollback=True)
def read_traces(path: str) -> list[str]:
    return traces(path)


@workflow
def sum_of(*numbers: int) -> int:
    total = 0
    for number in numbers:
        total = add.bind(total, number)
    return total


@task
def count_down(number: int, trail: int = 0) -> int:
    return trail if number == 0 else count_down.bind(number - 1, trail + 1)


@task
def fan_out(count: int) -> int:
    return add.bind(add.bind(count, 1), double.bind(count))


@task
def returns_workflow(*numbers: int) -> int:
    return sum_of.bind(*numbers)


@task
def make_bytes(size: int) -> bytes:
    return b"y" * size


@task
def make_array(size: int) -> Any:
    return numpy.arange(size)


@task
def total_of(array: Any) -> int:
    return int(array.sum())


@task
def length(value: bytes) -> int:
    return len(value)


def test_a_task_gives_its_result(engine: Engine) -> None:
    assert engine.run(add.bind(1, 2)) == 3


def test_a_pure_task_gives_its_result(engine: Engine) -> None:
    assert engine.run(double.bind(4)) == 8


def test_a_task_may_return_nothing(engine: Engine) -> None:
    assert engine.run(keep.bind(None)) is None


def test_results_of_a_chain_flow_through(engine: Engine) -> None:
    assert engine.run(double.bind(add.bind(double.bind(2), 1))) == 10


def test_a_node_that_several_read_runs_once(engine: Engine, tmp_path: Path) -> None:
    # given
    shared = trace.bind(str(tmp_path / "trace"), "x")
    # when
    result = engine.run(gather.bind(a=shared, b=shared, c=[shared]))
    # then
    assert result == {"a": "x", "b": "x", "c": ["x"]}
    assert traces(tmp_path / "trace") == ["x"]


def test_parts_can_be_unpacked(engine: Engine) -> None:
    left, right = split.bind("tea-milk")
    assert engine.run(gather.bind(left=left, right=right)) == {"left": "tea", "right": "milk"}


def test_one_part_can_be_the_result(engine: Engine) -> None:
    assert engine.run(split.bind("tea-milk")[1]) == "milk"


def test_all_parts_together_are_a_tuple(engine: Engine) -> None:
    assert engine.run(split.bind("tea-milk")) == ("tea", "milk")


def test_all_parts_together_are_a_tuple_as_an_argument_too(engine: Engine) -> None:
    assert engine.run(keep.bind(split.bind("tea-milk"))) == ("tea", "milk")


def test_parts_may_be_of_very_different_sizes(engine: Engine) -> None:
    assert engine.run(split_largely.bind(LARGE)) == (b"x" * LARGE, LARGE)


def test_nodes_may_stand_anywhere_in_arguments(engine: Engine) -> None:
    # given
    three, four = add.bind(1, 2), double.bind(2)
    # when
    result = engine.run(gather.bind(list=[three, {"deep": (four, [three])}], plain=5, set=frozenset([6])))
    # then
    assert result == {"list": [3, {"deep": (4, [3])}], "plain": 5, "set": frozenset([6])}


def test_async_tasks_give_their_results(engine: Engine) -> None:
    assert engine.run(nap.bind(nap.bind(1))) == 3


def test_a_task_with_threads_runs_in_a_thread_of_another_process(engine: Engine) -> None:
    pid, is_main = engine.run(where.bind(0))
    assert pid != os.getpid()
    assert not is_main


def test_more_tasks_with_threads_run_at_once_than_there_are_workers(engine: Engine, door: Door) -> None:
    # when
    handle = engine.run_async(gather.bind(**{f"n{number}": meet.bind(door.path) for number in range(5)}))
    for _ in range(5):
        door.wait()
    # then all five stand at the door at the same time
    door.open(5)
    assert set(handle.result(60).values()) == {"met"}


def test_after_orders_without_passing_values(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")
    first = trace.bind(path, "first")
    # when
    result = engine.run(read_traces.options(after=[first]).bind(path))
    # then
    assert result == ["first"]


def test_after_a_task_without_a_value_to_read(engine: Engine, tmp_path: Path) -> None:
    path = str(tmp_path / "trace")
    many = [trace.bind(path, str(number)) for number in range(10)]
    assert sorted(engine.run(read_traces.options(after=many).bind(path))) == sorted(map(str, range(10)))


def test_a_workflow_runs(engine: Engine) -> None:
    assert engine.run(sum_of.bind(1, 2, 3, 4)) == 10


def test_a_graph_that_a_task_returns_gives_its_result(engine: Engine) -> None:
    assert engine.run(fan_out.bind(3)) == 10


def test_the_result_of_a_returned_graph_goes_to_whoever_reads_the_task(engine: Engine) -> None:
    assert engine.run(add.bind(fan_out.bind(3), 1)) == 11


def test_a_task_may_return_a_workflow(engine: Engine) -> None:
    assert engine.run(returns_workflow.bind(1, 2, 3)) == 6


def test_a_chain_of_graphs_may_be_hundreds_long(engine: Engine) -> None:
    assert engine.run(count_down.bind(400)) == 400


def test_many_tasks_side_by_side(engine: Engine) -> None:
    assert engine.run(keep.bind([double.bind(number) for number in range(300)])) == [2 * n for n in range(300)]


def test_a_large_result_comes_back_whole(engine: Engine) -> None:
    assert engine.run(make_bytes.bind(LARGE)) == b"y" * LARGE


def test_a_large_output_reaches_the_next_task(engine: Engine) -> None:
    assert engine.run(length.bind(make_bytes.bind(LARGE))) == LARGE


def test_a_large_argument_reaches_its_task(engine: Engine) -> None:
    assert engine.run(length.bind(b"z" * LARGE)) == LARGE


@pytest.mark.parametrize("size", [70_000, LARGE])
def test_a_graph_that_a_task_returns_may_have_large_arguments(engine: Engine, size: int) -> None:
    assert engine.run(measure_bytes.bind(size)) == size


def test_a_large_bytearray_is_given_back_unchanged(engine: Engine) -> None:
    value = bytearray(os.urandom(LARGE))
    result = engine.run(keep.bind(value))
    assert result == value
    assert type(result) is bytearray


def test_an_array_is_an_argument(engine: Engine) -> None:
    assert engine.run(total_of.bind(numpy.arange(100_000))) == sum(range(100_000))


def test_an_array_deep_in_arguments_reaches_its_task(engine: Engine) -> None:
    result = engine.run(keep.bind({"a": [numpy.ones(50_000), 3]}))
    assert result["a"][0].sum() == 50_000
    assert result["a"][1] == 3


def test_an_array_is_an_output(engine: Engine) -> None:
    assert (engine.run(make_array.bind(100_000)) == numpy.arange(100_000)).all()


def test_an_array_goes_from_task_to_task(engine: Engine) -> None:
    assert engine.run(total_of.bind(make_array.bind(50_000))) == sum(range(50_000))


def test_a_result_array_belongs_to_the_caller_and_may_be_changed(engine: Engine) -> None:
    array = engine.run(make_array.bind(100_000))
    array[0] = 7
    assert array[0] == 7


def test_an_argument_that_is_changed_after_bind_was_copied_at_bind(engine: Engine) -> None:
    # given
    rows = [1, 2]
    node = keep.bind(rows)
    # when
    rows.append(3)
    # then
    assert engine.run(node) == [1, 2]


def test_a_node_can_be_run_twice_as_two_runs(engine: Engine, tmp_path: Path) -> None:
    # given
    node = trace.bind(str(tmp_path / "trace"), "x")
    # when
    engine.run(node)
    engine.run(node)
    # then
    assert traces(tmp_path / "trace") == ["x", "x"]


def test_a_lambda_that_sees_its_surroundings_is_a_task(engine: Engine) -> None:
    offset = 5
    assert engine.run(task(name="shift")(lambda number: number + offset).bind(1)) == 6


def test_an_unsafe_graph_is_refused_before_anything_starts(engine: Engine, tmp_path: Path) -> None:
    # given
    path = str(tmp_path / "trace")
    before = len(engine.list_runs(limit=10_000))

    def offer() -> int:
        note(path, "offered")
        return 1

    drawn = task(checkpoint=False, can_rollback=True)(offer).bind()
    # when
    with pytest.raises(UnsafeGraph) as caught:
        engine.run(add.bind(drawn, 1))
    # then
    assert caught.value.blocked == ("add",)
    assert traces(path) == []
    assert len(engine.list_runs(limit=10_000)) == before


def test_something_that_is_no_node_is_refused(engine: Engine) -> None:
    with pytest.raises(TypeError, match="node"):
        engine.run(3)


def test_results_of_one_run_are_not_shared_between_callers(engine: Engine) -> None:
    handle = engine.run_async(keep.bind([1]))
    assert handle.result(60) == [1]


def test_more_runs_than_are_let_in_at_once_come_to_their_ends(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceflow.engine.run_graphs.MOST_OPENING", 3)
    monkeypatch.setattr("onceflow.engine.runtime.turn.MOST_WAITING", 2)
    assert engine.run_many([keep.bind(number) for number in range(50)]) == list(range(50))
