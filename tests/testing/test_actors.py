"""Actors in the memory engine: as in a real one, but that they are objects of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceflow import TaskFailed, task
from onceflow.actors import Exclusive
from onceflow.errors import ActorNotReturned, InvalidRef, SharedActor, UnfinishedCalls
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.engine import acting
from tests.engine.acting import (
    add,
    add_and_raise_once,
    add_and_save,
    add_async,
    add_many,
    add_without_leave,
    gather,
    keep_for_oneself,
    leave_calls_open,
    look,
    make,
    make_saved,
    pass_on,
)
from tests.helpers.traces import traces


@pytest.fixture
def engine():
    with MemoryEngine() as made:
        yield made


def test_an_actor_moves_through_the_graph(engine):
    first = make.bind(3)
    second = add.bind(first, 4)
    assert engine.run(gather.bind(look.bind(first), look.bind(second))) == [3, 7]


def test_an_old_version_is_read_from_what_was_saved(engine):
    counter = make_saved.bind(10)
    one, two = add_and_save.bind(counter, 1), add_and_save.bind(counter, 2)
    assert engine.run(gather.bind(look.bind(counter, wait=one), look.bind(one), look.bind(two))) == [10, 11, 12]


def test_outside_of_tasks_an_actor_is_an_ordinary_object(engine):
    assert type(engine.run(add_and_save.bind(make.bind(1), 2))) is acting.Counter


def test_calls_are_answered_later(engine):
    numbers, counter = engine.run(add_many.bind(make.bind(), 3))
    assert (numbers, counter.value()) == ([1, 2, 3], 3)
    assert engine.run(add_async.bind(make.bind())).value() == 5


@pytest.mark.parametrize(
    ("node", "error"),
    [
        (add_without_leave, SharedActor),
        (keep_for_oneself, ActorNotReturned),
        (pass_on, InvalidRef),
        (leave_calls_open, UnfinishedCalls),
    ],
)
def test_the_rules_are_those_of_a_real_engine(engine, node, error):
    with pytest.raises(TaskFailed) as caught:
        engine.run(node.bind(make.bind()))
    assert isinstance(caught.value.__cause__, error)


def test_an_attempt_that_does_not_finish_leaves_nothing_of_what_it_did(engine, tmp_path: Path):
    assert engine.run(add_and_raise_once.bind(make.bind(1), str(tmp_path / "trace"))).value() == 101


def test_a_lost_worker_takes_with_it_what_followed_the_last_saved_version(engine, tmp_path: Path):
    trace = str(tmp_path / "trace")
    engine.lose_worker("add_2")
    saved = add_and_save.bind(make.bind(1, trace), 1, trace)
    end = add.bind(add.bind(add.bind(saved, 2, trace), 3, trace), 4, trace)
    assert engine.run(look.bind(end)) == 11
    assert traces(trace) == ["made", "added 1", "added 2", "added 3", "added 4", "added 2", "added 3", "added 4"]


def scenario(engine: MemoryEngine) -> None:
    saved = add_and_save.bind(make.bind(1), 1)
    unsaved = add.bind(saved, 2)
    end = add_and_save.bind(unsaved, 3)
    assert engine.run(gather.bind(look.bind(saved), look.bind(unsaved), look.bind(end))) == [2, 4, 7]


def test_a_crash_at_any_moment_changes_nothing():
    crash_everywhere(scenario)


SEEN: list[int] = []


def note_again(counter: acting.Counter, *, key: str) -> None:
    SEEN.append(counter.value())


@task(rollback=note_again)
def note(counter: acting.Counter) -> int:
    return counter.value()


@task(can_rollback=True)
def fail(number: int) -> int:
    raise ValueError("no")


@pytest.mark.parametrize("maker", [make, make_saved])
def test_an_undo_sees_the_actor_that_its_task_saw_whatever_crashes(maker):
    def scenario(engine: MemoryEngine) -> None:
        SEEN.clear()
        with pytest.raises(TaskFailed):
            engine.run(fail.bind(note.bind(maker.bind(3))), name="saga", on_failure="undo")
        assert set(SEEN) <= {3}

    crash_everywhere(scenario)


@task.pure
def seen_by(counter: Any, *before: Any) -> int:
    return counter.value()


@task.pure
def take_after(counter: Exclusive[Any], before: int) -> Any:
    counter.add(before)
    return counter


def test_a_taker_is_not_prepared_while_somebody_else_is_to_read(engine):
    # given a task that reads what is taken as soon as it has ended
    counter = make.bind(3)
    reader = seen_by.bind(counter)
    # then it finds the actor
    assert engine.run(look.bind(take_after.bind(counter, reader))) == 6


def forget(counter: Any, *, output: Any, key: str) -> None:
    SEEN.append(counter.value())


SEEN: list[int] = []


@task(rollback=forget, checkpoint=False)
def observe(counter: Any) -> int:
    return counter.value()


@task.pure
def raise_in_vain(*values: Any) -> Any:
    raise ValueError("no")


def test_an_undo_sees_the_version_of_the_actor_that_the_task_saw(engine):
    # given an actor that is not saved, somebody who reads it, and somebody who takes it
    SEEN.clear()
    counter = make.bind(3)
    noted = observe.bind(counter)
    # when the run fails, and what was read is undone
    with pytest.raises(TaskFailed) as caught:
        engine.run(raise_in_vain.bind(noted, add.bind(counter, 4)), on_failure="undo")
    # then the undo sees what was there before it was taken
    assert caught.value.undone
    assert SEEN == [3]
