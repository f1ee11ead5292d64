"""Found by reading: loops whose items fail, and what handlers say about that."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow import TaskFailed, for_each, reduce, task, transaction, workflow
from onceflow.handlers import break_, handler, ignore, retry
from onceflow.testing import MemoryEngine, crash_everywhere


@task(threads=True)
def wait(number: int) -> int:
    if number == 0:
        raise ValueError("zero")
    return number


def test_an_item_behind_a_failed_one_of_a_chunk_waits_also_if_it_is_a_node_of_its_own() -> None:
    def scenario(engine: MemoryEngine) -> None:
        with pytest.raises(TaskFailed, match="ValueError: zero"):
            engine.run(for_each(wait, [1, 0, 2], chunk=3))

    crash_everywhere(scenario)


minus = handler(ValueError, ignore(-1))


@task
def plain(number: int) -> int:
    return number


@task
def tenfold(number: int) -> int:
    if number == 2:
        raise ValueError("two")
    return 10 * number


@task
def append(found: list[Any], item: Any) -> list[Any]:
    if item == 3:
        raise ValueError("three")
    return [*found, item]


def test_handlers_of_a_loop_over_the_results_of_a_loop_are_in_force() -> None:
    def scenario(engine: MemoryEngine) -> None:
        loop = for_each(tenfold, for_each(plain, [1, 2, 3]), handlers=[minus])
        assert engine.run(loop) == [10, -1, 30]

    crash_everywhere(scenario)


def test_handlers_of_a_loop_are_not_those_of_a_loop_over_its_results() -> None:
    engine = MemoryEngine()
    with pytest.raises(TaskFailed, match="two"):
        engine.run(for_each(tenfold, for_each(plain, [1, 2, 3], handlers=[minus])))


def test_handlers_of_a_loop_are_not_those_of_what_reduces_its_results() -> None:
    engine = MemoryEngine()
    with pytest.raises(TaskFailed, match="three"):
        engine.run(reduce(append, for_each(plain, [1, 2, 3], handlers=[minus]), []))


@workflow(handlers=[minus])
def handled() -> list[Any]:
    return reduce(append, for_each(tenfold, for_each(plain, [1, 2, 3])), [])


def test_loops_that_have_the_same_handlers_are_still_run_as_one() -> None:
    engine = MemoryEngine()
    assert engine.run(handled.bind()) == [10, -1, 30]
    assert "each_plain" not in engine.story


@task(handlers=[handler(ValueError, break_())])
def breaking(number: int) -> int:
    if number == 0:
        raise ValueError("zero")
    return number


@task
def as_it_is(item: Any) -> Any:
    return item


def test_a_loop_over_results_takes_what_an_ended_item_leaves_as_one_item() -> None:
    def scenario(engine: MemoryEngine) -> None:
        assert engine.run(for_each(as_it_is, for_each(breaking, [0, 1]))) == [None, 1]

    crash_everywhere(scenario)


def test_what_reduces_results_takes_what_an_ended_item_leaves_as_one_item() -> None:
    def scenario(engine: MemoryEngine) -> None:
        assert engine.run(reduce(append, for_each(breaking, [0, 1]), [])) == [None, 1]

    crash_everywhere(scenario)


calls: list[int] = []


@task
def flaky(number: int) -> int:
    calls.append(number)
    if len(calls) == 1:
        raise ValueError("the first call of all")
    return number


@transaction
def both() -> Any:
    return for_each(flaky, [1, 2], chunk=2)


def test_an_item_that_failed_runs_when_the_transaction_around_its_loop_is_tried_again() -> None:
    """Each try raised what the item had raised the first time, and ran nothing."""
    calls.clear()
    with MemoryEngine() as engine:
        assert engine.run(both.options(handlers=[handler(ValueError, retry(1))]).bind()) == [1, 2]
    assert sorted(calls) in ([1, 1, 2], [1, 1, 2, 2])
