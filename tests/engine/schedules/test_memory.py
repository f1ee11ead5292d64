"""Schedules of a memory engine: hours pass in no time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from onceflow import Secret, UnsafeGraph, task, workflow
from onceflow.errors import InvalidOption, NoSuchSchedule, WrongArguments
from onceflow.testing import MemoryEngine, crash_everywhere
from tests.engine.schedules import flows

START = "2000-01-01T00:00:00"


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


def names(engine: MemoryEngine) -> list[str]:
    return [str(info.name) for info in reversed(engine.list_runs(limit=None))]


def outputs(engine: MemoryEngine) -> list[str]:
    return [engine.get_output(info.id) for info in reversed(engine.list_runs(limit=None))]


def test_a_schedule_fires_runs_with_the_time_that_they_are_for(engine: MemoryEngine) -> None:
    engine.schedule("nightly", flows.telling, cron="30 2 * * *", zone="Europe/Berlin", metadata={"team": "sales"})

    engine.clock.advance(2 * 86400)

    assert names(engine) == ["nightly@2000-01-01T01:30:00Z", "nightly@2000-01-02T01:30:00Z"]
    assert outputs(engine) == ["2000-01-01T02:30:00+01:00", "2000-01-02T02:30:00+01:00"]
    assert engine.list_runs()[0].metadata == {
        "schedule": "nightly",
        "scheduled": "2000-01-02T01:30:00Z",
        "team": "sales",
    }
    info = engine.get_schedule("nightly")
    assert (info.fired, info.last_run) == (2, engine.list_runs()[0].id)
    assert info.next == datetime(2000, 1, 3, 1, 30, tzinfo=UTC).timestamp()


def test_a_task_can_be_scheduled_and_gets_its_arguments(engine: MemoryEngine) -> None:
    engine.schedule("one", flows.greet, at="2000-01-01T06:00", args=["ann"])
    engine.schedule("other", flows.greet, at="2000-01-01T06:00", kwargs={"name": "bob"})

    engine.clock.advance(86400)

    assert outputs(engine) == ["hello ann, from run-1", "hello bob, from run-2"]
    assert [info.next for info in engine.list_schedules()] == [None, None]


def test_a_fiber_can_be_scheduled(engine: MemoryEngine) -> None:
    engine.schedule("slow", flows.slowly, at="2000-01-01T06:00")

    engine.clock.advance(86400)

    assert outputs(engine) == ["2000-01-01T06:00:00+00:00"]


def test_a_moment_that_has_passed_is_fired_at_once(engine: MemoryEngine) -> None:
    engine.schedule("late", flows.greet, at=datetime(1999, 1, 1, tzinfo=UTC))

    engine.clock.advance(1)

    assert names(engine) == ["late@1999-01-01T00:00:00Z"]


def test_a_local_workflow_can_be_scheduled(engine: MemoryEngine) -> None:
    @workflow
    def here(scheduled: datetime) -> str:
        return flows.tell.bind(scheduled + timedelta(days=1))

    engine.schedule("here", here, every=timedelta(hours=1))

    engine.clock.advance(3600)

    assert outputs(engine) == ["2000-01-02T01:00:00+00:00"]


def test_intervals_are_counted_from_the_start(engine: MemoryEngine) -> None:
    engine.schedule("a", flows.greet, every=600, start="2000-01-01T00:05", end="2000-01-01T00:30")

    engine.clock.advance(86400)

    assert names(engine) == ["a@2000-01-01T00:05:00Z", "a@2000-01-01T00:15:00Z", "a@2000-01-01T00:25:00Z"]


def test_a_paused_schedule_makes_up_for_nothing(engine: MemoryEngine) -> None:
    engine.schedule("a", flows.greet, every=60, catch_up="all", overlap="allow")
    engine.clock.advance(60)

    assert engine.pause_schedule("a").paused
    engine.clock.advance(600)
    assert engine.resume_schedule("a").next == engine.clock.now + 60
    engine.clock.advance(60)

    assert names(engine) == ["a@2000-01-01T00:01:00Z", "a@2000-01-01T00:12:00Z"]


def test_a_schedule_that_is_declared_again_goes_on(engine: MemoryEngine) -> None:
    engine.schedule("a", flows.greet, every=60)
    engine.clock.advance(90)
    before = engine.get_schedule("a")

    assert engine.schedule("a", flows.greet, every=60) == before
    engine.schedule("a", flows.greet, every=60, args=["ann"])
    engine.clock.advance(30)
    engine.schedule("a", flows.greet, every=3600, args=["ann"])
    engine.clock.advance(3600)

    assert names(engine) == ["a@2000-01-01T00:01:00Z", "a@2000-01-01T00:02:00Z", "a@2000-01-01T01:00:00Z"]
    assert engine.get_schedule("a").fired == 3


def test_a_deleted_schedule_is_no_more_and_its_runs_stay(engine: MemoryEngine) -> None:
    engine.schedule("a", flows.greet, every=60)
    engine.clock.advance(60)

    engine.delete_schedule("a")
    engine.clock.advance(600)

    assert names(engine) == ["a@2000-01-01T00:01:00Z"]
    assert engine.list_schedules() == []
    with pytest.raises(NoSuchSchedule, match="there is no schedule 'a'"):
        engine.get_schedule("a")


def test_a_schedule_can_be_triggered(engine: MemoryEngine) -> None:
    engine.schedule("a", flows.telling, cron="@yearly")
    engine.pause_schedule("a")
    engine.clock.advance(1.5)

    assert engine.trigger_schedule("a").result() == "2000-01-01T00:00:01.500000+00:00"
    assert names(engine) == ["a@2000-01-01T00:00:01.500000Z"]
    assert engine.get_schedule("a").fired == 1


def test_the_next_times_are_told(engine: MemoryEngine) -> None:
    engine.schedule("a", flows.greet, cron="0 12 * * 1", zone="Europe/Berlin")
    engine.schedule("b", flows.greet, at="2000-06-01T12:00", zone="Europe/Berlin")

    assert [when.isoformat() for when in engine.next_times("a", 2)] == [
        "2000-01-03T12:00:00+01:00",
        "2000-01-10T12:00:00+01:00",
    ]
    assert [when.isoformat() for when in engine.next_times("b", 2)] == ["2000-06-01T12:00:00+02:00"]


# -- overlaps ----------------------------------------------------------------------------------------------------------


def test_a_schedule_skips_what_comes_while_it_runs(engine: MemoryEngine) -> None:
    engine.delay(flows.greet, 150)
    engine.schedule("a", flows.greet, every=60)

    engine.clock.advance(300)

    assert names(engine) == ["a@2000-01-01T00:01:00Z", "a@2000-01-01T00:04:00Z"]
    assert engine.get_schedule("a").skipped == 3


def test_a_schedule_lets_wait_what_comes_while_it_runs(engine: MemoryEngine) -> None:
    engine.delay(flows.greet, 150, times=1)
    engine.schedule("a", flows.greet, every=60, overlap="queue")

    engine.clock.advance(200)
    assert engine.get_schedule("a").waiting == 2
    engine.clock.advance(100)

    assert names(engine) == [f"a@2000-01-01T00:0{minute}:00Z" for minute in range(1, 6)]
    ran = engine.ran
    assert len(ran) == 5


def test_runs_of_a_schedule_may_overlap(engine: MemoryEngine) -> None:
    engine.delay(flows.greet, 150)
    engine.schedule("a", flows.greet, every=60, overlap="allow")

    engine.clock.advance(190)

    assert [info.status for info in engine.list_runs()] == ["running", "running", "running"]


# -- backfill ----------------------------------------------------------------------------------------------------------


def test_a_backfill_runs_what_is_missing_or_failed(engine: MemoryEngine) -> None:
    engine.schedule("daily", flows.telling, cron="@daily")
    engine.clock.advance(86400)
    engine.fail(flows.tell, ValueError("no"), times=1)
    engine.clock.advance(86400)
    engine.pause_schedule("daily")
    engine.clock.advance(2 * 86400)

    done = engine.backfill("daily", "1999-12-31", "2000-02-01")

    assert [(info.name, info.status) for info in done] == [
        ("daily@1999-12-31T00:00:00Z", "succeeded"),
        ("daily@2000-01-01T00:00:00Z", "succeeded"),
        ("daily@2000-01-03T00:00:00Z", "succeeded"),
        ("daily@2000-01-04T00:00:00Z", "succeeded"),
    ]
    assert engine.backfill("daily", "1999-12-31", "2000-02-01") == []


def test_what_was_backfilled_is_not_fired_again(engine: MemoryEngine) -> None:
    engine.schedule("a", flows.telling, every=60)
    engine.pause_schedule("a")
    engine.clock.advance(60)
    engine.backfill("a", START, "2000-01-01T01:00")
    assert names(engine) == ["a@2000-01-01T00:00:00Z"]


def test_a_backfill_may_fail_and_go_on_later(engine: MemoryEngine) -> None:
    engine.schedule("a", flows.telling, every=60)
    engine.pause_schedule("a")
    engine.clock.advance(150)
    engine.fail(flows.tell, ValueError("no"), times=1)

    first = engine.backfill("a", START, "2000-01-01T00:10", at_once=2)
    again = engine.backfill("a", START, "2000-01-01T00:10")

    assert [info.status for info in first] == ["failed", "succeeded", "succeeded"]
    assert [info.name for info in again] == ["a@2000-01-01T00:00:00Z"]


# -- what is refused ---------------------------------------------------------------------------------------------------


@task(checkpoint=False, can_rollback=True)
def roll() -> int:
    return 4


@task
def pay(cents: int) -> int:
    return cents


@workflow
def unsafe() -> int:
    return pay.bind(roll.bind())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "one of cron, every and at"),
        ({"cron": "@daily", "every": 5}, "one of cron, every and at"),
        ({"cron": "bad"}, "'bad' is no cron expression"),
        ({"every": 0}, "a number of seconds"),
        ({"every": True}, "a number of seconds or a timedelta"),
        ({"at": "tomorrow"}, "'tomorrow' is no time"),
        ({"at": float("nan")}, "seconds since 1970"),
        ({"every": 5, "zone": "Mars"}, "there is no time zone 'Mars'"),
        ({"every": 5, "start": "2000-01-02", "end": "2000-01-01"}, "later than the start"),
        ({"every": 5, "catch_up": "some"}, "one of 'none', 'latest', 'all'"),
        ({"every": 5, "overlap": "maybe"}, "one of 'skip', 'queue', 'allow'"),
        ({"every": 5, "catch_up": "all"}, "all but one would be skipped"),
        ({"every": 5, "limit": 0}, "a number from 1"),
        ({"every": 5, "jitter": -1}, "a number of seconds"),
        ({"every": 5, "timeout": 0}, "a number of seconds above 0"),
        ({"every": 5, "args": ["x" * 100_000]}, "more than 65536 bytes"),
        ({"every": 5, "args": [flows.greet.bind()]}, "an argument is a node"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(
    engine: MemoryEngine, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(InvalidOption, match=problem):
        engine.schedule("a", flows.greet, **options)  # type: ignore[arg-type]
    assert engine.list_schedules() == []


def test_what_can_never_run_is_refused_when_it_is_declared(engine: MemoryEngine) -> None:
    with pytest.raises(WrongArguments, match="greet"):
        engine.schedule("a", flows.greet, every=5, kwargs={"nobody": 1})
    with pytest.raises(UnsafeGraph):
        engine.schedule("a", unsafe, every=5)
    with pytest.raises(InvalidOption, match="not a function"):
        engine.schedule("a", names, every=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="give the workflow itself"):
        engine.schedule("a", flows.greet.bind(), every=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="a text"):
        engine.schedule("", flows.greet, every=5)


def test_schedules_are_late_by_a_part_of_the_jitter_that_is_their_own(engine: MemoryEngine) -> None:
    delays = {engine.schedule(id, flows.greet, every=5, jitter=60).jitter for id in "abcdef"}
    assert len(delays) == 6
    assert all(0 <= delay < 60 for delay in delays)


def test_a_secret_is_no_clear_text_in_the_journal(engine: MemoryEngine) -> None:
    engine.schedule("a", flows.greet, every=5, args=[Secret("clear text")])
    (row,) = engine._home.journal.list_standing("schedule")
    assert b"clear text" not in row.definition
    assert "clear text" not in engine.get_schedule("a").arguments


# -- crashes -----------------------------------------------------------------------------------------------------------


def test_every_instant_is_fired_once_wherever_the_engine_crashes() -> None:
    def scenario(engine: MemoryEngine) -> None:
        engine.schedule("a", flows.telling, every=60, catch_up="all", overlap="allow")
        engine.schedule("b", flows.telling, cron="*/2 * * * *", overlap="queue")
        engine.clock.advance(240)
        assert sorted(names(engine)) == [
            "a@2000-01-01T00:01:00Z",
            "a@2000-01-01T00:02:00Z",
            "a@2000-01-01T00:03:00Z",
            "a@2000-01-01T00:04:00Z",
            "b@2000-01-01T00:02:00Z",
            "b@2000-01-01T00:04:00Z",
        ]
        assert {info.status for info in engine.list_runs()} == {"succeeded"}
        assert [info.fired for info in engine.list_schedules()] == [4, 2]

    assert crash_everywhere(scenario, seeds=(None, 1)) > 20


def test_a_schedule_every_second_for_an_hour_fires_so_often_however_often_its_engine_dies() -> None:
    chance = random.Random(8)
    with MemoryEngine() as engine:
        engine.schedule("a", flows.telling, every=1, catch_up="all", overlap="queue", limit=1000)
        end = engine.clock.now + 3600
        while engine.clock.now < end:
            engine.clock.advance(min(chance.expovariate(1 / 20), end - engine.clock.now))
            engine.crash()
        engine.clock.advance(0.5)

        first = datetime(2000, 1, 1, tzinfo=UTC)
        expected = [(first + timedelta(seconds=second)).isoformat() for second in range(1, 3601)]
        assert outputs(engine) == expected
        assert engine.get_schedule("a").fired == 3600
