"""What can go wrong on demand: crashes, lost workers, failures, delays, cancelling, a full disk; and stand-ins."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from onceflow import RetryPolicy, RunCancelled, TaskFailed, task
from onceflow.errors import InvalidOption, RunInterrupted, RunTimedOut, StorageFull, TaskTimedOut, WorkerDied
from onceflow.testing import Crashed, MemoryEngine, When
from tests.testing.common import ROME, Declined, book_room, charge, check_card, quote, trip, world


def named(function: Callable[[], str]) -> Any:
    return task(name="work")(function)


@pytest.mark.parametrize("when", ["before", "after effect", "before save", "after save"])
@pytest.mark.parametrize("what", ["book_room", "charge", "check_card"])
def test_a_run_survives_a_crash(onceflow_engine: MemoryEngine, what: str, when: When) -> None:
    onceflow_engine.crash_at(what, when)
    assert onceflow_engine.run(trip.bind("Rome")) == ROME
    world.assert_holds("room in Rome", "400 cents")


def test_after_a_crash_what_was_saved_is_not_run_again(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.crash_at(book_room, "after save")
    onceflow_engine.run(trip.bind("Rome"))
    onceflow_engine.assert_ran(book_room, times=1)


def test_an_undoable_task_whose_effect_nobody_learnt_of_is_undone_and_done_again(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.crash_at(book_room, "after effect")
    onceflow_engine.run(trip.bind("Rome"))
    onceflow_engine.assert_ran(book_room, times=2)
    onceflow_engine.assert_undone(book_room, times=1)
    assert [attempt.outcome for attempt in onceflow_engine.ran.of(book_room)] == ["crashed", "finished"]


def test_an_irrevocable_task_is_repeated_with_the_same_key(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.crash_at(charge, "after effect")
    onceflow_engine.run(trip.bind("Rome"))
    first, second = onceflow_engine.ran.of(charge)
    assert first.key == second.key
    assert first.attempt.split(".")[0] < second.attempt.split(".")[0]
    assert world.repeated == ["400 cents"]


@pytest.mark.parametrize("when", ["before undo", "after undo"])
def test_an_undo_survives_a_crash(onceflow_engine: MemoryEngine, when: When) -> None:
    onceflow_engine.crash_at(book_room, when)
    with pytest.raises(TaskFailed) as caught:
        onceflow_engine.run(trip.bind("Rome", declined=True), on_failure="undo")
    assert caught.value.undone
    world.assert_holds()


def test_a_crash_can_wait_for_a_later_attempt(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.fail(charge, ConnectionError("x"), times=2)
    onceflow_engine.crash_at(charge, nth=3)
    assert onceflow_engine.run(trip.bind("Rome")) == ROME
    assert [attempt.outcome for attempt in onceflow_engine.ran.of(charge)] == [
        "raised",
        "raised",
        "crashed",
        "finished",
    ]


def test_a_crash_may_be_left_to_the_test() -> None:
    # given
    engine = MemoryEngine(on_crash="raise")
    engine.crash_at(charge)
    # when
    with pytest.raises(Crashed, match="after charge") as caught:
        engine.run(trip.bind("Rome"), name="rome")
    # then
    assert isinstance(caught.value, RunInterrupted)
    assert engine.status("rome") == "interrupted"
    assert [handle.result() for handle in engine.resume_all()] == [ROME]


def test_what_was_under_way_when_the_engine_dies_by_hand_is_interrupted() -> None:
    engine = MemoryEngine()
    handle = engine.run_async(trip.bind("Rome"), name="rome")
    engine.crash()
    with pytest.raises(Crashed):
        handle.result()
    assert engine.status("rome") == "interrupted"
    assert engine.run(trip.bind("Rome"), name="rome") == ROME


def test_a_crash_before_anything_is_durable_loses_nothing_that_was_promised() -> None:
    engine = MemoryEngine(crashes=[1])
    assert engine.run(trip.bind("Rome")) == ROME
    assert engine.moments[0].startswith("before the commit of the new run")
    world.assert_holds("room in Rome", "400 cents")


def test_a_crash_after_the_last_commit_does_not_change_how_a_run_failed() -> None:
    calm = MemoryEngine()
    with pytest.raises(TaskFailed):
        calm.run(trip.bind("Rome", declined=True))
    engine = MemoryEngine(crashes=[len(calm.moments)])
    with pytest.raises(TaskFailed, match="no money"):
        engine.run(trip.bind("Rome", declined=True))
    engine.assert_ran(check_card, times=1)


def test_a_lost_worker_is_no_failure_of_the_task(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.lose_worker(charge, times=2)
    assert onceflow_engine.run(trip.bind("Rome")) == ROME
    assert [attempt.outcome for attempt in onceflow_engine.ran.of(charge)] == ["lost", "lost", "finished"]


def test_a_task_that_loses_every_worker_fails_at_last(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.lose_worker(quote, "before", times=10)
    with pytest.raises(TaskFailed) as caught:
        onceflow_engine.run(trip.bind("Rome"))
    assert isinstance(caught.value.__cause__, WorkerDied)


def test_a_task_fails_as_often_as_it_is_told(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.fail(charge, ConnectionError("no line"), times=2)
    assert onceflow_engine.run(trip.bind("Rome")) == ROME
    assert [attempt.error for attempt in onceflow_engine.ran.of(charge)] == ["ConnectionError: no line"] * 2 + [""]
    assert world.repeated == []


def test_a_failure_without_an_end_exhausts_the_retries(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.fail(charge, ConnectionError("no line"))
    with pytest.raises(TaskFailed, match="ConnectionError: no line"):
        onceflow_engine.run(trip.bind("Rome"))
    onceflow_engine.assert_ran(charge, times=4)


def test_a_failure_after_the_effect_leaves_the_effect(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.fail(charge, TimeoutError("no answer"), times=1, when="after effect")
    assert onceflow_engine.run(trip.bind("Rome")) == ROME
    assert world.repeated == ["400 cents"]


def test_an_undo_can_fail(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.fail(book_room, OSError("closed"), times=1, when="before undo")
    with pytest.raises(TaskFailed):
        onceflow_engine.run(trip.bind("Rome", declined=True), on_failure="undo")
    assert [attempt.outcome for attempt in onceflow_engine.undone] == ["raised", "finished"]
    world.assert_holds()


def test_a_task_that_takes_too_long_is_stopped(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.delay(charge, 60)
    began = onceflow_engine.clock.now
    with pytest.raises(TaskFailed) as caught:
        onceflow_engine.run(charge.options(timeout=5, retry=0).bind(1, "x"))
    assert isinstance(caught.value.__cause__, TaskTimedOut)
    assert onceflow_engine.clock.now == began + 5
    assert onceflow_engine.ran[0].outcome == "timed out"
    world.assert_holds("1 cents")


def test_others_run_while_one_takes_long(onceflow_engine: MemoryEngine) -> None:
    @task(can_rollback=True)
    def wait(name: str) -> str:
        return name

    @task
    def both(*names: str) -> str:
        return " ".join(names)

    onceflow_engine.delay("wait", 60)
    began = onceflow_engine.clock.now
    assert onceflow_engine.run(both.bind(wait.bind("a"), wait.bind("b"))) == "a b"
    assert onceflow_engine.clock.now == began + 60


def test_a_run_that_takes_too_long_is_cancelled(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.delay(quote, 3600)
    with pytest.raises(RunTimedOut):
        onceflow_engine.run(trip.bind("Rome"), timeout=60)
    onceflow_engine.assert_not_ran(charge)


def test_a_stand_in_is_called_with_the_arguments_of_the_task(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.replace(charge, lambda cents, room: f"paid {cents}")
    assert onceflow_engine.run(trip.bind("Rome")) == "paid 400"
    world.assert_holds("room in Rome")


def test_a_stand_in_may_be_async(onceflow_engine: MemoryEngine) -> None:
    async def pay(cents: int, room: str) -> str:
        return "later"

    onceflow_engine.replace("charge", pay)
    assert onceflow_engine.run(trip.bind("Rome")) == "later"


def test_a_stand_in_for_a_rollback_function_takes_what_it_declares(onceflow_engine: MemoryEngine) -> None:
    taken_back: list[object] = []
    onceflow_engine.replace(book_room, rollback=lambda city, output: taken_back.append((city, output)))
    with pytest.raises(TaskFailed):
        onceflow_engine.run(trip.bind("Rome", declined=True), on_failure="undo")
    assert taken_back == [("Rome", "room in Rome")]


def test_cancelling_before_a_task_starts(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.cancel_at(check_card)
    with pytest.raises(RunCancelled):
        onceflow_engine.run(trip.bind("Rome"))
    onceflow_engine.assert_not_ran(check_card, charge)
    world.assert_holds("room in Rome")


def test_cancelling_with_undo_takes_back_what_has_finished(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.cancel_at(check_card, undo=True)
    with pytest.raises(RunCancelled):
        onceflow_engine.run(trip.bind("Rome"))
    world.assert_holds()


def test_an_undoable_task_that_is_cancelled_half_way_is_taken_back(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.cancel_at(book_room, "after effect")
    with pytest.raises(RunCancelled):
        onceflow_engine.run(trip.bind("Rome"))
    onceflow_engine.assert_undone(book_room)
    world.assert_holds()


def test_an_irrevocable_task_may_finish_when_its_run_is_cancelled(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.cancel_at(charge)
    with pytest.raises(RunCancelled) as caught:
        onceflow_engine.run(check_card.bind(trip.bind("Rome"), False))
    assert caught.value.uncertain == ()
    assert onceflow_engine.ran.of(charge)[0].outcome == "finished"


def test_an_irrevocable_task_without_grace_may_have_happened(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.cancel_at(charge, "after effect", grace=0)
    with pytest.raises(RunCancelled) as caught:
        onceflow_engine.run(trip.bind("Rome"))
    assert caught.value.uncertain == ("charge",)
    assert onceflow_engine.ran.of(charge)[0].outcome == "stopped"


@pytest.mark.parametrize("commits", range(4))
def test_a_full_disk_interrupts_a_run_that_can_be_resumed_later(onceflow_engine: MemoryEngine, commits: int) -> None:
    # given
    onceflow_engine.fill_disk(after=commits)
    # when
    with pytest.raises(StorageFull):
        onceflow_engine.run(trip.bind("Rome"), name="rome")
    # then
    onceflow_engine.free_disk()
    assert onceflow_engine.run(trip.bind("Rome"), name="rome") == ROME
    world.assert_holds("room in Rome", "400 cents")


def test_a_full_disk_interrupts_all_runs_and_starts_nothing_more(onceflow_engine: MemoryEngine) -> None:
    # given several runs, whose tasks wait to be started, and room for no other commit
    cities = ["Rome", "Oslo", "Bonn"]
    handles = [onceflow_engine.run_async(trip.bind(city), name=city) for city in cities]
    began = len(onceflow_engine.ran)
    onceflow_engine.fill_disk()
    # when
    with pytest.raises(StorageFull):
        handles[0].result()
    # then
    assert all(handle.done for handle in handles)
    after = len(onceflow_engine.ran)
    for handle in handles[1:]:
        with pytest.raises(StorageFull):
            handle.result()
    assert began <= len(onceflow_engine.ran) == after
    # and when there is room
    onceflow_engine.free_disk()
    for city in cities:
        onceflow_engine.run(trip.bind(city), name=city)
    world.assert_holds(*[f"room in {city}" for city in cities], *["400 cents"] * 3)


def test_a_fault_that_never_happens_is_told() -> None:
    engine = MemoryEngine()
    engine.crash_at("chrage")
    engine.replace("quoet", len)
    engine.run(trip.bind("Rome"))
    with pytest.raises(AssertionError, match=r"crash_at\('chrage', when='after effect'\) never happened") as caught:
        engine.assert_faults_happened()
    assert "replace('quoet', len) never happened" in str(caught.value)
    assert "charge, attempt 1.4: finished" in str(caught.value)


def test_the_end_of_a_block_asserts_that_all_faults_happened() -> None:
    with pytest.raises(AssertionError, match="never happened"), MemoryEngine() as engine:
        engine.fail("nobody", ValueError())


def test_a_block_that_fails_is_not_told_of_faults() -> None:
    engine = MemoryEngine()
    engine.fail("nobody", ValueError())
    with pytest.raises(Declined), engine:
        raise Declined


def test_moments_have_names(onceflow_engine: MemoryEngine) -> None:
    with pytest.raises(InvalidOption, match="'before', 'after effect'"):
        onceflow_engine.crash_at(charge, "sometimes")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="not 'after save'"):
        onceflow_engine.fail(charge, ValueError(), when="after save")


def test_what_is_no_task_has_no_name(onceflow_engine: MemoryEngine) -> None:
    with pytest.raises(TypeError, match="a task, its name or its id is needed here, not 3"):
        onceflow_engine.crash_at(3)


def test_one_of_several_nodes_is_hit_by_its_id(onceflow_engine: MemoryEngine) -> None:
    @task
    def both(*rooms: str) -> int:
        return len(rooms)

    onceflow_engine.fail("book_room_1", Declined("full"))
    with pytest.raises(TaskFailed) as caught:
        onceflow_engine.run(both.bind(book_room.bind("Rome"), book_room.bind("Oslo")))
    assert caught.value.failed == ("book_room_1",)


def test_a_retry_waits_for_its_delay(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.fail(charge, ConnectionError("x"), times=3)
    onceflow_engine.run(charge.options(retry=RetryPolicy(3, delay=10, backoff=2, jitter=0)).bind(1, "x"))
    starts = [attempt.started for attempt in onceflow_engine.ran]
    assert [later - earlier for earlier, later in itertools.pairwise(starts)] == [10, 20, 40]


def test_a_mended_function_is_the_one_that_goes_on_after_a_crash(onceflow_engine: MemoryEngine) -> None:
    # given a run that failed because of its code
    def broken() -> str:
        raise ValueError("wrong")

    with pytest.raises(TaskFailed):
        onceflow_engine.run(named(broken).bind(), name="job")

    # when the code is mended, and the engine dies while it goes on
    def mended() -> str:
        return "right"

    onceflow_engine.crash_at("work")
    # then
    assert onceflow_engine.run(named(mended).bind(), name="job") == "right"
