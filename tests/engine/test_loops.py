"""Loops over items that are known only while the run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, Ref, RetryPolicy, TaskFailed, current, for_each, parallel, put, reduce, ref, task, workflow
from onceflow.authoring.loops import chunk_sizes
from onceflow.engine.inspect.overview import Loop
from onceflow.errors import InvalidOption, RunNotActive, WrongArguments
from onceflow.handlers import break_, handler, ignore
from onceflow.loops import FailedItem
from onceflow.testing import Ledger, MemoryEngine, crash_everywhere
from tests.helpers.doors import Door, knock
from tests.helpers.traces import note, traces

broken: set[int] = set()
"""Items that fail."""

calls: list[int] = []
"""Items that were tried."""

world = Ledger()


@pytest.fixture(autouse=True)
def _clean() -> None:
    broken.clear()
    calls.clear()


@pytest.fixture
def memory(onceflow_engine: MemoryEngine) -> MemoryEngine:
    return onceflow_engine


@task.pure
def square(x: int) -> int:
    return x * x


@task.pure
def power(x: int, exponent: int = 2) -> int:
    return int(x**exponent)


@task
def order(x: int) -> str:
    calls.append(x)
    if x in broken:
        raise ValueError(f"no {x}")
    return f"{x} ordered"


@task(retry=RetryPolicy(2, delay=10))
def order_again(x: int) -> str:
    calls.append(x)
    if x in broken and calls.count(x) < 3:
        raise ValueError(f"no {x}")
    return f"{x} ordered"


@task
def key_of(x: int) -> str:
    return current().key


@task.pure
def numbers(count: int) -> list[int]:
    return list(range(count))


@task.pure
def total(values: list[int]) -> int:
    return sum(values)


@workflow
def fourth_power(x: int) -> int:
    return square.bind(square.bind(x))


# -- what it gives -----------------------------------------------------------------------------------------------------


def test_results_are_in_the_order_of_the_items(memory: MemoryEngine) -> None:
    assert memory.run(for_each(square, [3, 1, 2])) == [9, 1, 4]


@pytest.mark.parametrize("items", [range(5), (0, 1, 2, 3, 4), iter([0, 1, 2, 3, 4]), dict.fromkeys(range(5), "x")])
def test_items_may_be_anything_that_can_be_iterated(memory: MemoryEngine, items: Any) -> None:
    assert memory.run(for_each(square, items)) == [0, 1, 4, 9, 16]


def test_items_may_be_known_only_when_a_task_has_run(memory: MemoryEngine) -> None:
    assert memory.run(total.bind(for_each(square, numbers.bind(4)))) == 14


def test_items_may_be_nodes_themselves(memory: MemoryEngine) -> None:
    assert memory.run(for_each(square, [square.bind(2), 3, square.bind(4)])) == [16, 9, 256]


def test_a_loop_over_nothing_gives_an_empty_list(memory: MemoryEngine) -> None:
    assert memory.run(for_each(square, [])) == []


def test_arguments_that_all_items_share_may_be_given(memory: MemoryEngine) -> None:
    assert memory.run(for_each(power.partial(exponent=3), [1, 2])) == [1, 8]


def test_shared_arguments_may_be_nodes(memory: MemoryEngine) -> None:
    assert memory.run(for_each(power.partial(exponent=square.bind(2)), [1, 2, 3])) == [1, 16, 81]


def test_each_item_may_be_a_workflow(memory: MemoryEngine) -> None:
    assert memory.run(for_each(fourth_power, [1, 2, 3])) == [1, 16, 81]


@task
async def increment(x: int) -> int:
    return x + 1


@pytest.mark.parametrize("chunk", [1, 2, 10])
def test_items_of_async_tasks_run_at_the_same_time(memory: MemoryEngine, chunk: int) -> None:
    assert memory.run(for_each(increment, range(5), chunk=chunk)) == [1, 2, 3, 4, 5]


@task.pure
def squared_later(x: int) -> int:
    return square.bind(x) if x % 2 else x


def test_items_may_return_graphs(memory: MemoryEngine) -> None:
    assert memory.run(for_each(squared_later, range(6), chunk=4)) == [0, 1, 2, 9, 4, 25]


@task.pure
def table(size: int) -> list[int]:
    return for_each(square, range(size))


@task.pure
def tables(size: int) -> list[list[int]]:
    return for_each(table, range(size))


def test_loops_nest_to_any_depth(memory: MemoryEngine) -> None:
    found = memory.run(for_each(tables, range(4), chunk=2))
    assert found == [[[n * n for n in range(size)] for size in range(most)] for most in range(4)]


@task.pure
def total_behind(found: Ref[list[int]]) -> int:
    return sum(found.get())


@task.pure
def put_numbers(count: int) -> Ref[list[int]]:
    return put(list(range(count)))


def test_items_and_results_may_be_refs(memory: MemoryEngine) -> None:
    refs = for_each(put_numbers, [3, 4], chunk=1)
    assert memory.run(for_each(total_behind, refs, chunk=2)) == [3, 6]
    assert memory.run(for_each(total_behind, [ref(numbers.bind(3)), put([5, 6])])) == [3, 11]
    assert memory.run(for_each(square, ref(numbers.bind(3)))) == [0, 1, 4]


def test_parallel_gives_what_several_nodes_give(memory: MemoryEngine) -> None:
    assert memory.run(parallel(square.bind(2), numbers.bind(2))) == [4, [0, 1]]
    assert memory.run(parallel([square.bind(n) for n in range(3)])) == [0, 1, 4]
    assert memory.run(parallel([])) == []


# -- results as they come ----------------------------------------------------------------------------------------------


@task.pure
def add(before: int, value: int, weight: int = 1) -> int:
    return before + weight * value


@task.pure
def join(before: str, value: int) -> str:
    return f"{before}{value}"


def test_results_are_reduced_in_order(memory: MemoryEngine) -> None:
    assert memory.run(reduce(join, for_each(square, range(5), chunk=2), ">")) == ">014916"
    memory.assert_ran("reduce_join", times=1 + 3)
    memory.assert_not_ran("gather")


def test_results_are_reduced_as_they_come(memory: MemoryEngine) -> None:
    memory.run(reduce(join, for_each(square, range(6), chunk=2, spawn_limit=1), ""))
    ran = [attempt.task.rpartition("/")[2] for attempt in memory.ran]
    assert ran.index("reduce_join_1") < ran.index("square_chunk_2")


def test_a_list_can_be_reduced_as_well(memory: MemoryEngine) -> None:
    assert memory.run(reduce(add, [1, 2, 3], 10)) == 16
    assert memory.run(reduce(add, numbers.bind(4), 0)) == 6
    assert memory.run(reduce(add, [], 7)) == 7
    assert memory.run(reduce(add, for_each(square, []), 7)) == 7


def test_shared_arguments_of_what_reduces_may_be_nodes(memory: MemoryEngine) -> None:
    assert memory.run(reduce(add.partial(weight=square.bind(3)), for_each(square, range(4)), 0)) == 9 * 14


def test_what_begins_a_reduction_may_be_a_node(memory: MemoryEngine) -> None:
    assert memory.run(reduce(add, for_each(square, range(4)), square.bind(10))) == 114


def test_a_loop_over_the_results_of_a_loop_takes_them_as_they_come(memory: MemoryEngine) -> None:
    inner = for_each(order, range(4), chunk=2, spawn_limit=1)
    assert memory.run(for_each(first_word, inner)) == ["0", "1", "2", "3"]
    ran = [attempt.task.rpartition("/")[2] for attempt in memory.ran]
    assert ran.index("first_word_chunk") < ran.index("order_chunk_1")


@task.pure
def first_word(text: str) -> str:
    return text.split()[0]


def test_three_loops_in_a_row(memory: MemoryEngine) -> None:
    words = for_each(first_word, for_each(order, range(5), chunk=2))
    assert memory.run(reduce(join_words, for_each(word_length, words), "")) == "11111"


@task
def word_length(word: str) -> int:
    return len(word)


@task
def join_words(before: str, length: int) -> str:
    return before + str(length)


def test_what_others_read_too_runs_once(memory: MemoryEngine) -> None:
    inner = for_each(order, range(3))
    assert memory.run(parallel(inner, for_each(first_word, inner))) == [
        ["0 ordered", "1 ordered", "2 ordered"],
        ["0", "1", "2"],
    ]
    assert sorted(calls) == [0, 1, 2]


def test_items_with_results_that_can_be_taken_back(memory: MemoryEngine) -> None:
    global world
    world = Ledger()
    assert memory.run(for_each(book, for_each(square, range(3), chunk=2))) == [0, 1, 4]
    world.assert_holds("room 0", "room 1", "room 4")


def test_loops_in_a_row_survive_every_crash() -> None:
    def scenario(engine: MemoryEngine) -> None:
        global world
        world = Ledger()
        assert engine.run(reduce(add, for_each(enter, for_each(square, range(4), chunk=2)), 0)) == 14
        world.assert_holds(*[f"item {n * n}" for n in range(4)])

    crash_everywhere(scenario)


# -- chunks ------------------------------------------------------------------------------------------------------------


def test_a_chunk_is_one_attempt(memory: MemoryEngine) -> None:
    memory.run(for_each(order, range(10), chunk=4))
    memory.assert_ran("order_chunk", times=3)


def test_chunks_are_saved_if_the_task_is(memory: MemoryEngine) -> None:
    memory.run(for_each(order, range(4), chunk=2), name="saved")
    saved = [found.id for found in memory.list_tasks("saved") if found.saved]
    assert {"each_order", "each_order/order_chunk", "each_order/order_chunk_1"} <= set(saved)


def test_items_that_take_long_get_chunks_of_their_own(memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the first chunks has four items. After two of them its time is up, and the others take one each."""
    now = iter(range(100_000))
    monkeypatch.setattr("onceflow.authoring.loops.chunk_runner.perf_counter", lambda: next(now) * 0.03)
    assert memory.run(for_each(square, range(128))) == [n * n for n in range(128)]
    memory.assert_ran("square_chunk", times=32 + 32 * 2)


def test_a_chunk_that_is_lost_is_not_split_when_it_runs_again(
    memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last_item(x: int) -> int:
        if x == 63:
            monkeypatch.setattr(chunk_sizes, "ENOUGH", 0.0)
        return x

    memory.lose_output("last_item_chunk", before="gather")
    assert memory.run(for_each(task.pure(last_item), range(64))) == list(range(64))


def test_items_that_take_no_time_stay_together(memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceflow.authoring.loops.chunk_runner.perf_counter", lambda: 0.0)
    memory.run(for_each(square, range(3200)))
    memory.assert_ran("square_chunk", times=32)


def test_very_many_chunks_are_opened_block_by_block(memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_sizes, "WIDEST", 3)
    assert memory.run(for_each(order, range(10), chunk=1)) == [f"{n} ordered" for n in range(10)]
    assert calls == list(range(10)), "one block after the other"
    memory.assert_ran("order_block", times=3)


def test_of_what_is_not_saved_there_are_never_too_many_chunks(
    memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_sizes, "UNSAVED", 5)
    assert memory.run(for_each(square, range(20), chunk=1)) == [n * n for n in range(20)]
    memory.assert_ran("square_chunk", times=5)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_each_item_has_a_key_of_its_own(memory: MemoryEngine) -> None:
    keys = memory.run(for_each(key_of, range(5), chunk=2))
    assert [key.partition("/")[2] for key in keys] == [f"each_key_of[{n}]/0" for n in range(5)]


keys: dict[int, set[str]] = {}


@task(retry=RetryPolicy(1, delay=1))
def once_more(x: int) -> int:
    keys.setdefault(x, set()).add(current().key)
    calls.append(x)
    if x == 2 and calls.count(2) == 1:
        raise ValueError(x)
    return x


def test_an_item_keeps_its_key_when_it_becomes_a_node_of_its_own(memory: MemoryEngine) -> None:
    keys.clear()
    assert memory.run(for_each(once_more, range(4), chunk=4)) == [0, 1, 2, 3]
    assert calls == [0, 1, 2, 3, 2]
    assert all(len(of_item) == 1 for of_item in keys.values())


# -- failures ----------------------------------------------------------------------------------------------------------


def test_an_item_that_fails_fails_the_run_with_its_error(memory: MemoryEngine) -> None:
    broken.add(3)
    with pytest.raises(TaskFailed) as caught:
        memory.run(for_each(order, range(6), chunk=6))
    assert isinstance(caught.value.__cause__, ValueError)
    assert calls == [0, 1, 2, 3], "it is not tried twice, and what comes behind it does not start"


def test_after_a_fix_only_what_is_missing_runs(memory: MemoryEngine) -> None:
    broken.add(3)
    with pytest.raises(TaskFailed):
        memory.run(for_each(order, range(6), chunk=6), name="fixed")
    broken.clear()
    calls.clear()
    assert memory.resume("fixed") == [f"{n} ordered" for n in range(6)]
    assert calls == [3, 4, 5]


def test_an_item_is_retried_as_the_task_says(memory: MemoryEngine) -> None:
    broken.update({1, 3})
    before = memory.clock.now
    assert memory.run(for_each(order_again, range(5), chunk=5)) == [f"{n} ordered" for n in range(5)]
    assert sorted(calls) == [0, 1, 1, 1, 2, 3, 3, 3, 4]
    assert memory.clock.now - before >= 25, "the delays of the policy"


def test_a_single_item_is_retried_as_the_task_says(memory: MemoryEngine) -> None:
    broken.add(1)
    assert memory.run(for_each(order_again, [1], chunk=5)) == ["1 ordered"]
    assert calls == [1, 1, 1]


def test_failed_items_may_be_left_out(memory: MemoryEngine) -> None:
    broken.update({0, 3})
    assert memory.run(for_each(order, range(5), chunk=2, on_error="skip")) == [f"{n} ordered" for n in (1, 2, 4)]


def test_errors_may_be_collected(memory: MemoryEngine) -> None:
    broken.update({1})
    first, failed, last = memory.run(for_each(order, range(3), chunk=3, on_error="collect"))
    assert (first, last) == ("0 ordered", "2 ordered")
    assert isinstance(failed, FailedItem)
    assert failed.index == 1
    assert isinstance(failed.error, ValueError)
    assert repr(failed) == "<item 1 failed: ValueError: no 1>"


@task(retry=RetryPolicy(2, delay=10, on=ConnectionError))
def stubborn(x: int) -> int:
    calls.append(x)
    if x in broken:
        raise ConnectionError(x) if x < 10 else KeyError(x)
    return x


@pytest.mark.parametrize("chunk", [1, 3])
def test_an_item_is_given_up_after_its_retries_and_not_before(memory: MemoryEngine, chunk: int) -> None:
    broken.update({2, 11})
    found = memory.run(for_each(stubborn, [1, 2, 11], chunk=chunk, on_error="skip"))
    assert found == [1]
    assert sorted(calls) == [1, 2, 2, 2, 11], "only what the policy covers is tried again"


@task
async def async_order(x: int) -> str:
    calls.append(x)
    if x in broken:
        raise ValueError(f"no {x}")
    return f"{x} ordered"


def test_async_items_fail_one_by_one(memory: MemoryEngine) -> None:
    broken.update({1})
    with pytest.raises(TaskFailed):
        memory.run(for_each(async_order, range(4), chunk=4), name="async")
    broken.clear()
    calls.clear()
    assert memory.resume("async") == [f"{n} ordered" for n in range(4)]
    assert calls == [1]


# -- handlers ----------------------------------------------------------------------------------------------------------

instead = handler(ValueError, ignore("nothing"))


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_a_handler_of_the_task_is_asked_for_each_item(memory: MemoryEngine, chunk: int) -> None:
    broken.update({1, 4})
    careful = order.options(handlers=[instead])
    found = memory.run(for_each(careful, range(5), chunk=chunk))
    assert found == ["0 ordered", "nothing", "2 ordered", "3 ordered", "nothing"]
    assert sorted(calls) == list(range(5)), "none is tried twice"


@pytest.mark.parametrize("chunk", [1, 3])
def test_handlers_of_a_loop_are_in_force_for_its_items(memory: MemoryEngine, chunk: int) -> None:
    broken.add(1)
    assert memory.run(for_each(order, range(3), chunk=chunk, handlers=[instead])) == [
        "0 ordered",
        "nothing",
        "2 ordered",
    ]


@pytest.mark.parametrize("chunk", [1, 3])
def test_so_are_those_of_the_workflow_that_binds_it(memory: MemoryEngine, chunk: int) -> None:
    @workflow(handlers=[instead])
    def orders() -> Any:
        return for_each(order, range(3), chunk=chunk)

    broken.add(1)
    assert memory.run(orders.bind()) == ["0 ordered", "nothing", "2 ordered"]


@pytest.mark.parametrize(("on_error", "left"), [("skip", ["0 ordered", "2 ordered"]), ("collect", 3)])
def test_a_loop_that_says_what_becomes_of_errors_leaves_none_for_the_workflow(
    memory: MemoryEngine, on_error: Any, left: Any
) -> None:
    @workflow(handlers=[instead])
    def orders() -> Any:
        return for_each(order, range(3), on_error=on_error)

    broken.add(1)
    found = memory.run(orders.bind())
    assert (found if on_error == "skip" else len(found)) == left
    assert "nothing" not in found


@task.pure
def divide(one: int, other: int) -> float:
    return one / other


def test_handlers_of_a_workflow_are_in_force_where_results_are_reduced(memory: MemoryEngine) -> None:
    @workflow(handlers=[handler(ZeroDivisionError, ignore())])
    def ratio() -> Any:
        return reduce(divide, [1, 0], 1)

    assert memory.run(ratio.bind()) is None


@pytest.mark.parametrize("chunk", [1, 3])
def test_what_breaks_off_an_item_leaves_the_others_alone(memory: MemoryEngine, chunk: int) -> None:
    broken.add(1)
    stop = handler(ValueError, break_())
    assert memory.run(for_each(order, range(3), chunk=chunk, handlers=[stop])) == ["0 ordered", None, "2 ordered"]


def test_items_that_can_be_taken_back_are_broken_off_by_themselves(memory: MemoryEngine) -> None:
    global world
    world = Ledger()
    broken.add(1)
    assert memory.run(for_each(book, range(3), handlers=[handler(ValueError, break_())])) == [0, None, 2]
    world.assert_holds("room 0", "room 2")


def test_errors_of_items_may_be_caught(memory: MemoryEngine) -> None:
    broken.add(1)
    (first, no_error), (nothing, error) = memory.run(for_each(order.options(catch=True), range(2)))
    assert (first, no_error, nothing) == ("0 ordered", None, None)
    assert isinstance(error, ValueError)


# -- effects -----------------------------------------------------------------------------------------------------------


@task
def enter(x: int) -> int:
    world.enter(f"item {x}")
    return x


def cancel(*, key: str) -> None:
    world.take_back(key)


@task(rollback=cancel)
def book(x: int) -> int:
    if x in broken:
        raise ValueError(x)
    world.enter(f"room {x}")
    return x


def test_a_loop_survives_every_crash() -> None:
    def scenario(engine: MemoryEngine) -> None:
        global world
        world = Ledger()
        assert engine.run(total.bind(for_each(enter, range(5), chunk=2))) == 10
        world.assert_holds(*[f"item {n}" for n in range(5)])

    crash_everywhere(scenario)


def test_a_loop_with_failing_items_survives_every_crash() -> None:
    def scenario(engine: MemoryEngine) -> None:
        calls.clear()
        broken.update({1, 3})
        assert engine.run(for_each(order_again, range(5), chunk=5)) == [f"{n} ordered" for n in range(5)]

    crash_everywhere(scenario)


@task(can_rollback=True)
def enter_both(x: int) -> list[int]:
    return for_each(enter, [x, x + 10], chunk=2)


def test_loops_inside_loops_survive_every_crash() -> None:
    def scenario(engine: MemoryEngine) -> None:
        global world
        world = Ledger()
        assert engine.run(for_each(enter_both, range(2), chunk=2)) == [[0, 10], [1, 11]]
        world.assert_holds(*[f"item {n}" for n in (0, 10, 1, 11)])

    crash_everywhere(scenario)


def test_a_loop_behind_one_that_can_be_taken_back_survives_every_crash() -> None:
    def scenario(engine: MemoryEngine) -> None:
        global world
        world = Ledger()
        assert engine.run(for_each(enter, for_each(book, range(2)), spawn_limit=1)) == [0, 1]
        world.assert_holds("item 0", "item 1", "room 0", "room 1")

    crash_everywhere(scenario)


def test_items_that_can_be_taken_back_are_tasks_of_their_own(memory: MemoryEngine) -> None:
    global world
    world = Ledger()
    broken.add(2)
    with pytest.raises(TaskFailed) as caught:
        memory.run(for_each(book, range(3)), on_failure="undo")
    assert caught.value.undone
    world.assert_holds()


# -- limits ------------------------------------------------------------------------------------------------------------


def test_no_more_chunks_are_in_flight_than_the_limit_allows(memory: MemoryEngine) -> None:
    assert memory.run(for_each(square, range(10), chunk=1, spawn_limit=2)) == [n * n for n in range(10)]


# -- chains ------------------------------------------------------------------------------------------------------------


@task(can_rollback=True)
def count_down(number: int) -> str:
    return count_down.bind(number - 1) if number else "the end"


def test_items_may_be_chains_of_graphs(memory: MemoryEngine) -> None:
    assert memory.run(for_each(count_down, [200, 100], chunk=1)) == ["the end", "the end"]


@pytest.mark.parametrize("chunk", [1, 3])
def test_another_function_may_stand_in_for_the_task(memory: MemoryEngine, chunk: int) -> None:
    memory.replace(order, lambda x: f"{x} on the house")
    assert memory.run(for_each(order, range(3), chunk=chunk)) == [f"{n} on the house" for n in range(3)]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"chunk": 0}, "chunk must be a number of items or 'auto', not 0"),
        ({"chunk": "many"}, "chunk must be a number of items"),
        ({"spawn_limit": 0}, "spawn_limit must be an int of at least 1"),
        ({"on_error": "ignore"}, "on_error must be 'stop', 'skip' or 'collect'"),
        ({"name": 3}, "name must be a text"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        for_each(square, [1], **options)


def test_what_is_taken_back_by_itself_is_not_chunked() -> None:
    with pytest.raises(InvalidOption, match="chunk must be 1 or 'auto', not 5: it has a rollback function"):
        for_each(book, [1], chunk=5)
    with pytest.raises(InvalidOption, match="not possible for a task with a rollback function"):
        for_each(book, [1], on_error="skip")
    with pytest.raises(InvalidOption, match="it is a workflow"):
        for_each(fourth_power, [1], chunk=5)


def test_a_plain_function_is_refused() -> None:
    with pytest.raises(InvalidOption, match="Decorate it with @task"):
        for_each(len, ["a"])


def test_a_task_must_fit() -> None:
    with pytest.raises(WrongArguments, match="count"):
        for_each(numbers.partial(count=2), [1])
    with pytest.raises(WrongArguments, match="no parameter 'base'"):
        power.partial(base=2)


def test_items_must_be_items() -> None:
    with pytest.raises(TypeError, match="for_each needs items"):
        for_each(square, 5)  # type: ignore[arg-type]


# -- in real workers ---------------------------------------------------------------------------------------------------


@task
def append(item: tuple[str, int]) -> int:
    path, number = item
    note(path, number)
    return number


@task.pure
def paths(path: str, count: int) -> Iterator[tuple[str, int]]:
    return [(path, number) for number in range(count)]  # type: ignore[return-value]


@pytest.mark.parametrize("chunk", ["auto", 7])
def test_workers_run_each_item_once(engine: Engine, tmp_path: Path, chunk: Any) -> None:
    trace = tmp_path / "trace"
    found = engine.run(total.bind(for_each(append, paths.bind(str(trace), 300), chunk=chunk)))
    assert found == sum(range(300))
    assert sorted(map(int, traces(trace))) == list(range(300))


@task
def pass_door(item: tuple[str, int]) -> int:
    knock(item[0])
    return item[1]


def test_a_limit_can_be_raised_while_the_run_goes_on(engine: Engine, door: Door) -> None:
    handle = engine.run_async(for_each(pass_door, [(door.path, n) for n in range(4)], chunk=1, spawn_limit=1))
    door.wait()
    reasons = [found.reason for found in engine.list_tasks(handle.id) if found.state == "ready"]
    assert reasons == ["1 of each_pass_door may be in flight at a time, and so many are"] * 3
    assert engine.survey(handle.id).loops == [Loop("each_pass_door", 0, 4)]
    handle.limit("each_pass_door", 2)
    door.wait()
    door.open(4)
    assert handle.result() == [0, 1, 2, 3]


def test_another_engine_may_raise_it(engine: Engine, home: Path, door: Door) -> None:
    handle = engine.run_async(for_each(pass_door, [(door.path, n) for n in range(4)], chunk=1, spawn_limit=1))
    door.wait()
    with Engine(home) as other:
        other.limit(handle.id, "each_pass_door", 2)
        door.wait()
    door.open(4)
    assert handle.result() == [0, 1, 2, 3]


def test_only_a_run_that_goes_on_can_be_limited(engine: Engine) -> None:
    engine.run(for_each(square, [1]), name="over")
    with pytest.raises(RunNotActive, match="run over is succeeded"):
        engine.limit("over", "each_square", 3)
    with pytest.raises(InvalidOption, match="at least 1"):
        engine.limit("over", "each_square", 0)


def test_workers_run_three_levels_of_loops(engine: Engine) -> None:
    found = engine.run(for_each(tables, range(5)))
    assert found == [[[n * n for n in range(size)] for size in range(most)] for most in range(5)]


@task
def pass_one(x: int, path: str, trail: str) -> int:
    note(trail, x)
    if x == 0:
        knock(path)
    return x


@task
def leave_trace(trail: str) -> None:
    note(trail, "other")


def test_a_chunk_makes_room_for_a_run_that_has_just_begun(tmp_path: Path, door: Door) -> None:
    trail = str(tmp_path / "trail")
    with Engine(tmp_path / "home", workers=1) as engine:
        loop = engine.run_async(for_each(pass_one.partial(path=door.path, trail=trail), range(64)))
        door.wait()
        other = engine.run_async(leave_trace.bind(trail))
        for _ in range(2):  # each is a turn of the engine, which gives out what there is
            engine.list_tasks(other.id)
        door.open()
        assert loop.result() == list(range(64))
    assert traces(trail)[:2] == ["0", "other"]
