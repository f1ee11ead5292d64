"""Actors (design 2.7) in a real engine: processes of their own, versions, snapshots, and what becomes of them when
something dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy
import pytest

from onceflow import Engine, TaskFailed, UnsafeGraph, check, task
from onceflow.errors import ActorNotReturned, InvalidRef, LostForGood, SharedActor, UnfinishedCalls
from tests.engine import acting
from tests.engine.acting import (
    add,
    add_and_raise_once,
    add_and_save,
    add_async,
    add_at_door,
    add_many,
    add_without_leave,
    begin_diary,
    echo_large,
    fail_inside,
    gather,
    keep_for_oneself,
    leave_calls_open,
    look,
    make,
    make_saved,
    note_process,
    pass_on,
    read,
    through_door,
    where,
    write,
)
from tests.helpers.doors import Door
from tests.helpers.scripts import kill, run_script, started
from tests.helpers.traces import traces
from tests.helpers.waiting import until


def cause_of(engine: Engine, node: object) -> BaseException:
    with pytest.raises(TaskFailed) as caught:
        engine.run(node)
    assert caught.value.__cause__ is not None
    return caught.value.__cause__


# -- use -------------------------------------------------------------------------------------------------------------


def test_an_actor_lives_in_a_process_of_its_own_and_moves_through_the_graph(engine: Engine):
    first = make.bind(3)
    second = add.bind(first, 4)
    values = engine.run(gather.bind(look.bind(first), look.bind(second), where.bind(first), where.bind(second)))
    assert values[:2] == [3, 7]
    assert values[2] == values[3] != os.getpid()


def test_outside_of_tasks_an_actor_is_an_ordinary_object(engine: Engine):
    found = engine.run(add_and_save.bind(make.bind(1), 2))
    assert type(found) is acting.Counter
    assert found.value() == 3
    assert acting.add(acting.make(4), 1).value() == 5


def test_methods_are_called_in_order_and_answered_later(engine: Engine):
    numbers, counter = engine.run(add_many.bind(make.bind(), 500))
    assert numbers == list(range(1, 501))
    assert counter.value() == 500


def test_an_async_task_awaits_what_it_calls(engine: Engine):
    assert engine.run(add_async.bind(make.bind())).value() == 5


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_arguments_and_results_of_any_size_arrive_and_belong_to_who_gets_them(engine: Engine, size: int):
    assert engine.run(echo_large.bind(make.bind(), size)) is True


def test_what_a_method_raises_is_raised_in_the_task(engine: Engine):
    error = cause_of(engine, fail_inside.bind(make.bind()))
    assert isinstance(error, KeyError)
    assert "no such thing" in str(error)


def test_what_the_constructor_raises_is_raised_in_the_task_that_makes_it(engine: Engine):
    assert isinstance(cause_of(engine, look.bind(make.bind(-1))), ValueError)


def test_a_class_may_have_a_method_called_get(engine: Engine):
    @task(can_rollback=True)
    def get(counter: acting.Exclusive[acting.Counter]) -> acting.Counter:
        assert counter.get() == 6
        return counter

    assert engine.run(get.bind(make.bind(6))).value() == 6


def test_what_is_no_method_cannot_be_seen(engine: Engine):
    @task(can_rollback=True)
    def peek(counter: acting.Counter) -> int:
        return counter.count

    assert isinstance(cause_of(engine, peek.bind(make.bind())), AttributeError)


# -- the rules -------------------------------------------------------------------------------------------------------


def test_who_shares_an_actor_may_not_change_it(engine: Engine):
    error = cause_of(engine, add_without_leave.bind(make.bind()))
    assert isinstance(error, SharedActor)
    assert (error.actor, error.method) == ("Counter", "add")
    assert "add_without_leave" in error.holder


def test_both_holders_are_named(engine: Engine, door: Door):
    @task(can_rollback=True)
    def hold(counter: acting.Counter, path: str) -> int:
        counter.value()
        acting.knock(path)
        return counter.value()

    @task(can_rollback=True)
    def meddle(counter: acting.Counter, path: str) -> list[str]:
        counter.value()
        acting.knock(path)
        try:
            counter.add(1)
        except SharedActor as error:
            return [error.holder, *error.others]
        return []

    counter = make.bind()
    handle = engine.run_async(gather.bind(hold.bind(counter, door.path), meddle.bind(counter, door.path)))
    door.wait()
    door.wait()
    door.open(2)
    _, names = handle.result()
    assert "meddle" in names[0]
    assert not names[1:] or "hold" in names[1]


def test_who_takes_an_actor_returns_it(engine: Engine):
    assert isinstance(cause_of(engine, keep_for_oneself.bind(make.bind())), ActorNotReturned)


def test_who_shares_an_actor_does_not_pass_it_on(engine: Engine):
    assert isinstance(cause_of(engine, pass_on.bind(make.bind())), InvalidRef)


def test_all_calls_are_answered_when_a_task_returns(engine: Engine):
    error = cause_of(engine, leave_calls_open.bind(make.bind()))
    assert isinstance(error, UnfinishedCalls)
    assert error.methods == ("add",)


def test_an_actor_is_not_bound_into_a_graph_that_a_task_returns(engine: Engine):
    @task(can_rollback=True)
    def go_on(counter: acting.Exclusive[acting.Counter]) -> int:
        return look.bind(counter)

    assert isinstance(cause_of(engine, go_on.bind(make.bind())), InvalidRef)


def test_an_actor_is_in_one_part_of_an_output(engine: Engine):
    @task(can_rollback=True, num_returns=2)
    def twice(counter: acting.Exclusive[acting.Counter]) -> tuple[acting.Counter, acting.Counter]:
        return counter, counter

    assert isinstance(cause_of(engine, twice.bind(make.bind())[0]), InvalidRef)


def test_two_tasks_that_take_one_unsaved_version_are_refused_before_the_run():
    counter = task(can_rollback=True, checkpoint=False)(lambda: None).options(name="unsaved").bind()
    with pytest.raises(UnsafeGraph, match="checkpoint=True on unsaved"):
        check(gather.bind(add.bind(counter, 1), add.bind(counter, 2)))
    check(gather.bind(add.bind(make_saved.bind(), 1), look.bind(make_saved.bind())))


def test_two_tasks_that_take_one_saved_version_get_one_each(engine: Engine):
    counter = make_saved.bind(10)
    one, two = add_and_save.bind(counter, 1), add_and_save.bind(counter, 2)
    assert engine.run(gather.bind(look.bind(counter), look.bind(one), look.bind(two))) == [10, 11, 12]


def test_an_old_version_is_read_from_what_was_saved(engine: Engine):
    counter = make_saved.bind(10)
    later = add_and_save.bind(counter, 5)
    assert engine.run(gather.bind(look.bind(counter, wait=later), look.bind(later))) == [10, 15]


def test_what_a_task_makes_and_does_not_return_ends_with_it(engine: Engine):
    @task(can_rollback=True)
    def make_and_forget() -> int:
        return acting.create(acting.Counter).process()

    process = engine.run(make_and_forget.bind())
    until(lambda: not os.path.exists(f"/proc/{process}"))


def test_an_actor_ends_when_nobody_needs_it(engine: Engine):
    process = engine.run(where.bind(make.bind()))
    until(lambda: not os.path.exists(f"/proc/{process}"))


# -- when something dies ---------------------------------------------------------------------------------------------


def test_what_followed_the_last_saved_version_is_done_again_when_an_actor_dies(
    engine: Engine, door: Door, tmp_path: Path
):
    # given: two versions were made since the last one that is saved, and an attempt uses the actor
    trace = str(tmp_path / "trace")
    saved = add_and_save.bind(make.bind(1, trace), 1, trace)
    unsaved = add.bind(add.bind(saved, 2, trace), 3, trace)
    at_door = str(tmp_path / "at door")
    end = add_at_door.bind(unsaved, door.path, at_door)
    handle = engine.run_async(gather.bind(look.bind(end), where.bind(saved)))
    door.wait()
    # when
    os.kill(int(traces(at_door)[0]), signal.SIGKILL)
    door.open()
    # then
    assert handle.result()[0] == 1 + 1 + 2 + 3 + 11
    assert traces(trace) == ["made", "added 1", "added 2", "added 3", "added 2", "added 3"]
    assert len(traces(at_door)) == 2


def test_an_actor_that_ends_itself_is_a_lost_one(engine: Engine, tmp_path: Path):
    @task(can_rollback=True)
    def leave_once(counter: acting.Exclusive[acting.Counter], trace: str) -> acting.Counter:
        acting.note(trace, "came")
        if traces(trace) == ["came"]:
            counter.leave()
        counter.add(1)
        return counter

    assert engine.run(look.bind(leave_once.bind(make.bind(1), str(tmp_path / "trace")))) == 2


def test_an_attempt_that_raises_leaves_nothing_of_what_it_did(engine: Engine, tmp_path: Path):
    trace = str(tmp_path / "trace")
    assert engine.run(add_and_raise_once.bind(make.bind(1), trace)).value() == 101
    assert traces(trace) == ["tried", "tried"]


def test_an_attempt_whose_worker_dies_leaves_nothing_of_what_it_did(engine: Engine, door: Door, tmp_path: Path):
    trace = str(tmp_path / "trace")
    handle = engine.run_async(add_at_door.bind(make_saved.bind(1), door.path, trace))
    os.kill(door.wait(), signal.SIGKILL)
    assert handle.result().value() == 12


def test_actors_die_with_their_engine_and_are_restored_by_the_next_one(tmp_path: Path):
    body = """
        import os, sys, time
        from onceflow import actor, run, task
        from onceflow.actors import Exclusive, const, create

        @actor
        class Counter:
            def __init__(self): self.count = 0
            def add(self): self.count += 1
            @const
            def state(self): return self.count, os.getpid()

        @task(can_rollback=True)
        def make() -> Counter:
            counter = create(Counter)
            counter.add()
            return counter

        @task(can_rollback=True)
        def wait(counter: Exclusive[Counter]) -> Counter:
            counter.add()
            if "wait" in sys.argv or os.path.exists("wait"):
                os.remove("wait")
                print(counter.state()[1], flush=True)
                time.sleep(100)
            return counter

        print(run(wait.bind(make.bind()), name="n").state()[0])
    """
    (tmp_path / "wait").touch()
    with started(tmp_path, body) as process:
        actor = int(process.stdout.readline().split()[-1])
        kill(process)
    until(lambda: not os.path.exists(f"/proc/{actor}"))
    assert run_script(tmp_path, body).split() == ["2"]


# -- snapshots -------------------------------------------------------------------------------------------------------


def test_a_class_says_what_has_to_be_saved_and_an_idle_actor_is_restored(engine: Engine, door: Door, tmp_path: Path):
    trace = str(tmp_path / "trace")
    diary = write.bind(begin_diary.bind(), "one")
    handle = engine.run_async(read.bind(diary, through_door.bind(door.path, note_process.bind(diary, trace))))
    door.wait()
    (process,) = traces(trace)
    until(lambda: not os.path.exists(f"/proc/{process}"))
    door.open()
    assert handle.result() == (["begun", "one"], 1)


def test_a_large_state_is_saved_and_restored(engine: Engine):
    @acting.actor
    class Weights:
        def __init__(self, size: int) -> None:
            self.weights = numpy.zeros(size)

        def step(self) -> None:
            self.weights += 1

        @acting.const
        def total(self) -> float:
            return float(self.weights.sum())

    @task(can_rollback=True)
    def begin() -> Weights:
        return acting.create(Weights, 1_000_000)

    @task(can_rollback=True)
    def step(weights: acting.Exclusive[Weights], wait: object = None) -> Weights:
        weights.step()
        return weights

    @task(can_rollback=True)
    def total(weights: Weights, wait: object = None) -> float:
        return weights.total()

    first = step.bind(begin.bind())
    second = step.bind(first)
    other = step.bind(first, second)  # restored from the saved first one
    assert engine.run(gather.bind(total.bind(first, second), total.bind(second), total.bind(other))) == [1e6, 2e6, 2e6]


def test_an_actor_that_dies_whenever_it_is_saved_fails_its_task(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    assert isinstance(cause_of(engine, acting.make_mortal.bind(str(path))), LostForGood)
    assert traces(path) == ["asked"] * 3
