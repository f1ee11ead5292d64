"""What a pool does with a job."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

from onceflow import task
from onceflow.backends.local.messages import Job
from onceflow.backends.local.reports import Finished, Raised
from onceflow.errors import FunctionNotLoaded, OutputNotSent, UnpicklableOutput, WrongParts
from onceflow.values import snapshot
from onceflow.values.context import running
from onceflow.values.functions import Shipped
from tests.backends.common import Gate, Loop, pass_gate, running_pool, write_line


def add(a: int, b: int) -> int:
    return a + b


def process_id() -> int:
    return os.getpid()


def test_a_job_runs_in_another_process_and_returns_its_output(loop: Loop) -> None:
    assert loop.call(add, 1, kwargs={"b": 2}) == 3
    assert loop.call(process_id) != os.getpid()


def test_a_report_says_when_and_where_the_job_ran(loop: Loop) -> None:
    report = loop.report(loop.start(process_id))

    assert isinstance(report, Finished)
    assert report.started <= report.ended
    assert report.worker == pickle.loads(report.parts[0])


def test_inputs_go_where_placeholders_and_holes_are(loop: Loop) -> None:
    def listed(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return (*args, kwargs)

    inputs = [pickle.dumps("first"), pickle.dumps([2])]

    assert loop.call(listed, None, 1, inputs=inputs, holes=[(0, 0), ("key", 1)]) == ("first", 1, {"key": [2]})


def test_an_input_that_stands_in_two_places_is_one_object(loop: Loop) -> None:
    def same(pair: list[Any]) -> bool:
        return pair[0] is pair[1]

    handle = _Handle()
    frozen = snapshot.take((([handle, handle],), {}))
    token = loop.start(same, [handle, handle], inputs=[pickle.dumps([1])])

    assert len(frozen.handles) == 1
    assert loop.result(token) is True


class _Handle(snapshot.Handle):
    def _place(self) -> tuple[int, int]:
        return 0, 0


def test_parts_are_pickled_apart(loop: Loop) -> None:
    report = loop.report(loop.start(lambda: (1, "two"), parts=2))

    assert isinstance(report, Finished)
    assert [pickle.loads(part) for part in report.parts] == [1, "two"]


@pytest.mark.parametrize(("returned", "named"), [((1, 2, 3), "a tuple of 3"), ([1, 2], "a list")])
def test_a_wrong_number_of_parts_is_a_permanent_error(loop: Loop, returned: Any, named: str) -> None:
    token = loop.start(lambda: returned, parts=2)

    with pytest.raises(WrongParts, match=named):
        loop.result(token)
    report = loop.report(token)
    assert isinstance(report, Raised)
    assert report.permanent


def test_arguments_and_outputs_may_be_larger_than_a_packet(loop: Loop) -> None:
    content = os.urandom(3_000_000)

    assert loop.call(bytes.fromhex, content.hex()) == content


def test_large_buffers_of_arguments_are_put_back_in_their_places(loop: Loop) -> None:
    numbers = numpy.arange(100_000)
    content = os.urandom(100_000)

    total, returned = loop.call(lambda array, data: (int(array.sum()), data), numbers, content, parts=2)

    assert total == numbers.sum()
    assert returned == content


def test_an_output_that_cannot_be_pickled_is_a_permanent_error_that_names_the_task(loop: Loop) -> None:
    def make_lock() -> Any:
        return threading.Lock()

    token = loop.start(make_lock)

    with pytest.raises(UnpicklableOutput, match="make_lock"):
        loop.result(token)
    report = loop.report(token)
    assert isinstance(report, Raised)
    assert report.permanent


class Row:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()


def _make_rows() -> Any:
    return {"rows": [1, 2, 3, Row()]}


def _make_function() -> Any:
    lock = threading.Lock()
    return [lambda: lock]


def _make_parts() -> Any:
    return 1, Room([threading.Lock()])


class Room:
    def __init__(self, shelf: Any) -> None:
        self.shelf = shelf


def _make_deep() -> Any:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    ("make", "parts", "path", "reason"),
    [
        (_make_rows, 1, "output['rows'][3].lock", "cannot pickle '_thread.lock' object"),
        (_make_function, 1, "output[0]'s variable 'lock'", "cannot pickle '_thread.lock' object"),
        (_make_parts, 2, "output[1].shelf[0]", "cannot pickle '_thread.lock' object"),
        (_make_deep, 1, "output", "it is nested too deeply"),
    ],
)
def test_the_error_says_where_inside_the_output(loop: Loop, make: Any, parts: int, path: str, reason: str) -> None:
    token = loop.start(make, parts=parts)
    with pytest.raises(UnpicklableOutput) as caught:
        loop.result(token)
    assert caught.value.path == path
    assert f"{make.__name__}: {path}, of type " in str(caught.value)
    assert reason in str(caught.value)
    report = loop.report(token)
    assert isinstance(report, Raised)
    assert report.permanent


def _make_large_output_without_room(size: int) -> bytes:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    return bytes(size)


@pytest.mark.parametrize("options", [{}, {"threads": True}])
def test_an_output_for_which_there_is_no_room_is_told_and_the_worker_goes_on(
    loop: Loop, options: dict[str, Any]
) -> None:
    small = loop.start(_make_large_output_without_room, 10, **options)
    token = loop.start(_make_large_output_without_room, 200_000, **options)
    with pytest.raises(
        OutputNotSent, match=r"its output of 200\d\d\d bytes cannot leave the worker: OSError.*File too"
    ):
        loop.result(token)
    assert loop.result(small) == bytes(10)
    report = loop.report(token)
    assert isinstance(report, Raised)
    assert not report.permanent
    assert loop.pool.statistics().deaths == 0


def test_a_job_that_returns_a_node_returns_its_graph(loop: Loop) -> None:
    report = loop.report(loop.start(_plan, 3, parts=2))

    assert isinstance(report, Finished)
    assert report.graph
    graph = pickle.loads(report.parts[0])
    assert [node.task for node in graph.nodes] == ["step", "step", "step"]
    assert graph.nodes[0].call.function is step.function


@task
def step(number: int) -> int:
    return number + 1


def _plan(steps: int) -> int:
    number = 0
    for _ in range(steps):
        number = step.bind(number)
    return number


def test_a_node_inside_of_an_output_is_a_permanent_error(loop: Loop) -> None:
    with pytest.raises(UnpicklableOutput, match="node"):
        loop.call(lambda: [step.bind(1)])


def test_a_module_that_a_worker_does_not_have_is_a_permanent_error_that_names_the_task(loop: Loop) -> None:
    shipped = Shipped("hash", "no_such_module", "function", 0, b"")
    loop.pool.ship(shipped)
    loop.pool.start(Job(100, "hash", "lookup", pickle.dumps(((), {}))))

    with pytest.raises(FunctionNotLoaded, match=r"lookup: its function cannot be loaded: .*no_such_module"):
        loop.result(100)
    report = loop.report(100)
    assert isinstance(report, Raised)
    assert report.permanent


def test_an_input_that_a_worker_cannot_load_is_named(loop: Loop) -> None:
    gone = pickle.dumps(os.getcwd).replace(b"getcwd", b"getxyz")
    token = loop.start(len, None, inputs=[pickle.dumps(1), gone], holes=[(0, 1)])
    with pytest.raises(FunctionNotLoaded, match="the output that is its argument number 1 cannot be loaded") as caught:
        loop.result(token)
    assert caught.value.task == "len"
    token = loop.start(dict, inputs=[gone], holes=[("rows", 0)])
    with pytest.raises(FunctionNotLoaded, match="the output that is its argument 'rows' cannot be loaded"):
        loop.result(token)


def test_a_job_sees_its_context_and_only_its_own(loop: Loop) -> None:
    assert loop.call(_context, context={"run": "r1", "attempt": 2}) == {"run": "r1", "attempt": 2}
    assert loop.call(_context) == {}


def _context() -> Any:
    return running.get()


def test_exit_in_user_code_does_not_end_the_worker(loop: Loop) -> None:
    with pytest.raises(SystemExit):
        loop.call(exit, 3)
    assert loop.pool.statistics().deaths == 0


def test_many_short_jobs_run_once_each(loop: Loop, tmp_path: Path) -> None:
    trace = str(tmp_path / "trace")
    tokens = [loop.start(write_line, trace, str(number)) for number in range(2_000)]

    assert [loop.result(token) for token in tokens] == [str(number) for number in range(2_000)]
    assert sorted(map(int, Path(trace).read_text().split())) == list(range(2_000))


def test_a_job_does_not_wait_behind_a_long_one_while_another_worker_is_free(loop: Loop, door: Gate) -> None:
    loop.call(pass_gate, _opened(door))
    held = loop.start(pass_gate, door.path)
    door.wait(loop)

    assert [loop.call(add, number, 1) for number in range(20)] == list(range(1, 21))

    door.open()
    assert loop.result(held) == "through"


def _opened(door: Gate) -> str:
    door.open()
    return door.path


def test_jobs_behind_one_that_is_unexpectedly_long_are_given_back_and_run_elsewhere(loop: Loop, door: Gate) -> None:
    loop.warm_up()
    loop.learn_that_it_is_short(_sometimes_long, "")
    tokens = [loop.start(_sometimes_long, door.path if number == 3 else "") for number in range(50)]

    others = [token for number, token in enumerate(tokens) if number != 3]
    loop.until(lambda: all(token in loop.reports for token in others))

    assert tokens[3] not in loop.reports
    assert loop.pool.statistics().returned > 0
    door.open()
    assert loop.result(tokens[3]) == "through"


def _sometimes_long(path: str) -> str:
    return pass_gate(path) if path else "short"


def test_async_jobs_of_one_worker_run_at_the_same_time(loop: Loop) -> None:
    tokens = [loop.start(_meet, 10, is_async=True) for _ in range(20)]

    assert {loop.result(token) for token in tokens} == {"met"}


_met: list[asyncio.Future[None]] = []


async def _meet(count: int) -> str:
    """Waits until so many are there, in this process."""
    mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _met.append(mine)
    if len(_met) == count:
        for future in _met:
            future.set_result(None)
        _met.clear()
    await mine
    return "met"


def test_async_jobs_and_threads_do_not_wait_for_the_main_thread(tmp_path: Path, door: Gate) -> None:
    with running_pool(tmp_path, workers=1) as loop:
        held = loop.start(pass_gate, door.path)
        door.wait(loop)

        assert loop.call(_meet, 1, is_async=True) == "met"
        assert loop.call(threading.get_ident, threads=True) != threading.get_ident()

        door.open()
        assert loop.result(held) == "through"


def test_jobs_in_threads_share_a_process(tmp_path: Path, door: Gate) -> None:
    with running_pool(tmp_path, workers=1) as loop:
        tokens = [loop.start(pass_gate, door.path, threads=True) for _ in range(3)]
        pids = {door.wait(loop) for _ in range(3)}

        assert len(pids) == 1
        door.open(3)
        assert [loop.result(token) for token in tokens] == ["through"] * 3
