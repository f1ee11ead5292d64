"""Task variables in the memory engine, with a crash at every moment."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from onceflow import TaskFailed, Variable, task
from onceflow.errors import InvalidVariable, NotInTask
from onceflow.testing import MemoryEngine, crash_everywhere

count = Variable("count", 0)
names: Variable[list[str]] = Variable("names", [])
flag = Variable("exit flag", False)


@task(writes=[count], can_rollback=True)
def bump(by: int) -> int:
    count.update(lambda so_far: so_far + by)
    return by


@task
def total(*parts: Any) -> int:
    return count.get()


@task(writes=[count], can_rollback=True)
def assign(value: int) -> int:
    count.set(value)
    return value


def test_no_update_is_lost_and_none_counts_twice_whatever_crashes_when() -> None:
    def scenario(engine: MemoryEngine) -> None:
        handle = engine.run_async(total.bind(*[bump.bind(by) for by in (1, 10, 100)]))
        assert handle.result() == 111
        assert handle.variables == {"count": 111}

    crash_everywhere(scenario, seeds=range(8))


def test_two_crashes_do_not_count_an_update_twice_either() -> None:
    def scenario(engine: MemoryEngine) -> None:
        assert engine.run(total.bind(bump.bind(1), bump.bind(2))) == 3

    crash_everywhere(scenario, crashes=2)


def test_what_comes_after_a_writer_sees_what_it_wrote_whatever_crashes_when() -> None:
    @task.pure
    def between(value: int) -> int:
        return value

    @task(can_rollback=True)
    def look(value: int) -> tuple[int, int]:
        return value, count.get()

    def scenario(engine: MemoryEngine) -> None:
        assert engine.run(look.bind(between.bind(assign.bind(7)))) == (7, 7)

    crash_everywhere(scenario, seeds=range(4))


def test_an_attempt_sees_what_it_has_written_itself() -> None:
    @task(writes=[count])
    def write() -> list[int]:
        seen = [count.get()]
        count.update(lambda so_far: so_far + 1)
        seen.append(count.get())
        count.set(10)
        count.update(lambda so_far: so_far * 2)
        return [*seen, count.get()]

    engine = MemoryEngine()
    handle = engine.run_async(write.bind())
    assert handle.result() == [0, 1, 20]
    assert handle.variables == {"count": 20}


def test_what_an_attempt_wrote_that_raised_or_was_lost_counts_for_nothing() -> None:
    engine = MemoryEngine()
    engine.lose_worker(bump)
    assert engine.run(total.bind(bump.options(retry=1).bind(1))) == 1
    engine.fail(bump, ValueError("after all"), when="after effect", times=1)
    assert engine.run(total.bind(bump.options(retry=1).bind(1))) == 1


def test_each_run_has_variables_of_its_own() -> None:
    engine = MemoryEngine()
    assert engine.run(total.bind(bump.bind(1))) == 1
    assert engine.run(total.bind(bump.bind(1))) == 1


def test_nobody_changes_the_default_of_others() -> None:
    @task(can_rollback=True)
    def spoil() -> list[str]:
        names.get().append("mine")
        return names.get()

    assert MemoryEngine().run(spoil.bind()) == []


@pytest.mark.parametrize("seed", range(5))
def test_the_exit_flag_of_the_paper_stops_what_has_not_begun(seed: int) -> None:
    """Gozer, listing 4: the squares of numbers, until one of them is -1."""

    @task(writes=[flag], can_rollback=True)
    def square(number: int) -> int | None:
        if flag.get():
            return None  # do nothing if the flag is set
        if number == -1:
            flag.set(True)  # tell everybody to stop working
            return None
        return number * number

    @task(can_rollback=True)
    def gather(*squares: int | None) -> list[int]:
        return [number for number in squares if number is not None]

    def first_half_then_the_rest(engine: MemoryEngine) -> None:
        before = gather.bind(*[square.bind(number) for number in (1, 2, -1)])
        after = [square.options(after=[before]).bind(number) for number in (3, 4)]
        handle = engine.run_async(gather.bind(*after))
        assert handle.result() == []
        assert handle.variables == {"exit flag": True}

    crash_everywhere(first_half_then_the_rest, seeds=[seed])


def test_a_committed_write_is_kept_by_a_saga_together_with_what_it_stands_on() -> None:
    undone: list[str] = []

    @task(rollback=lambda: undone.append("room"))
    def book() -> str:
        return "room"

    @task(can_rollback=True)
    def decline(_: Any) -> None:
        raise ValueError("no money")

    engine = MemoryEngine()
    with pytest.raises(TaskFailed) as caught:
        engine.run(decline.bind(bump.options(after=[book.bind()]).bind(1)), name="trip", on_failure="undo")
    assert caught.value.kept == ("book",)
    assert engine.variables("trip") == {"count": 1}


def test_a_task_that_writes_without_saying_so_is_told_what_to_declare() -> None:
    @task(retry=3)
    def sneak() -> None:
        count.set(1)

    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(sneak.bind())
    assert isinstance(caught.value.__cause__, InvalidVariable)
    assert "sneak, variable 'count': it writes there without saying so" in str(caught.value.__cause__)


def test_a_deterministic_task_may_not_read() -> None:
    @task.pure
    def peek() -> int:
        return count.get()

    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(peek.bind())
    assert "it is declared deterministic" in str(caught.value.__cause__)


def test_what_is_too_large_or_cannot_be_pickled_is_refused() -> None:
    @task(writes=[names])
    def stuff(value: str) -> None:
        names.set([value] if value else [threading.Lock()])  # type: ignore[list-item]

    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(stuff.bind("x" * 70_000))
    assert "too large for it; 65,536 is the limit" in str(caught.value.__cause__)
    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(stuff.bind(""))
    assert "a list cannot be kept there" in str(caught.value.__cause__)


def test_an_update_that_raises_when_it_counts_fails_the_run() -> None:
    def no_more_than_one(so_far: int) -> int:
        if so_far:
            raise ValueError("one is enough")
        return 1

    @task(writes=[count], can_rollback=True)
    def once(_: int) -> None:
        count.update(no_more_than_one)

    with pytest.raises(TaskFailed) as caught:
        MemoryEngine().run(total.bind(once.bind(1), once.bind(2)), name="twice")
    assert isinstance(caught.value.__cause__, ValueError)


def test_outside_of_tasks_a_variable_has_no_value() -> None:
    with pytest.raises(NotInTask, match=r"handle\.variables"):
        count.get()


def test_a_resumed_run_goes_on_with_what_was_committed() -> None:
    engine = MemoryEngine(on_crash="raise")
    engine.fail(total, ValueError("not yet"), times=1)
    with pytest.raises(TaskFailed):
        engine.run(total.bind(bump.bind(2), bump.bind(3)), name="sum")
    assert engine.variables("sum") == {"count": 5}
    assert engine.resume("sum") == 5
