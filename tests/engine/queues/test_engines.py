"""Queues of real engines: several of them, and such that die."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine
from onceflow.engine.submission import decode_settings
from onceflow.errors import QueueFull
from tests.engine.queues import flows
from tests.helpers.doors import Door
from tests.helpers.scripts import kill, started
from tests.helpers.traces import traces
from tests.helpers.waiting import until

Place = dict[str, Any]


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where engines keep their runs that share them."""
    found: Place = {"home": tmp_path / "home"}
    if request.param == "postgres":
        found["journal"] = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def trail(tmp_path: Path) -> str:
    return str(tmp_path / "trail")


def test_who_waits_is_told_for_what_and_behind_whom(tmp_path: Path, door: Door, trail: str) -> None:
    with Engine(tmp_path / "home", workers=2) as engine:
        engine.queue("q", concurrency=1)
        first = engine.run_async(flows.pass_door.bind(door.path, trail, "first"))
        door.wait()
        others = [engine.run_async(flows.trace.bind(trail, who)) for who in "ab"]
        texts = [engine.why(other.id).obstacles[0].text for other in others]
        assert texts[0] == (
            f"waits for a place in queue q: 1 may go on at a time, and so many do (held by pass_door of run {first.id})"
        )
        assert "; another before it" in texts[1]
        assert [task.reason for task in engine.list_tasks(others[0].id)] == [texts[0]]
        info = engine.get_queue("q")
        assert [(held.run, held.task) for held in info.places] == [(first.id, "pass_door")]
        assert info.waiting > 0
        door.open()
        assert [handle.result() for handle in (first, *others)] == ["first", "a", "b"]


def test_engines_that_share_a_journal_share_its_queues(place: Place, door: Door, trail: str) -> None:
    with Engine(**place, workers=1) as one, Engine(**place, workers=1) as other:
        one.queue("q", concurrency=1)
        first = one.run_async(flows.pass_door.bind(door.path, trail, "first"))
        door.wait()
        second = other.run_async(flows.trace.bind(trail, "second"))
        until(lambda: len(one.get_queue("q").places) == 1 and one.get_queue("q").waiting == 1)
        assert first.id in other.why(second.id).obstacles[0].text
        door.open()
        assert (first.result(), second.result()) == ("first", "second")
    assert traces(trail) == ["+first", "-first", "+second", "-second"]


def test_never_more_than_allowed_at_once_in_several_engines(place: Place, trail: str) -> None:
    with Engine(**place, workers=2) as one, Engine(**place, workers=2) as other:
        one.queue("q", concurrency=2)
        handles = [
            engine.run_async(flows.gather.bind(*[flows.linger.bind(trail, f"{who}{n}") for n in range(15)]))
            for who, engine in (("a", one), ("b", other))
        ]
        assert [handle.result() for handle in handles] == [15, 15]
        until(lambda: not one.get_queue("q").places)
    lines = traces(trail)
    assert len(lines) == 60
    assert flows.most_at_once(lines) <= 2


def test_a_place_of_an_engine_that_was_killed_comes_back(tmp_path: Path, door: Door, trail: str) -> None:
    script = """
        import sys, onceflow
        from tests.engine.queues import flows

        onceflow.queues.queue("q", concurrency=1)
        onceflow.run(flows.pass_door.bind(*sys.argv[1:], "killed"))
    """
    with started(tmp_path, script, door.path, trail) as process, Engine(tmp_path / "home", workers=1) as engine:
        door.wait()
        waiting = engine.run_async(flows.trace.bind(trail, "heir"))
        until(lambda: engine.get_queue("q").waiting == 1)
        kill(process)
        assert waiting.result() == "heir"
        until(lambda: not engine.get_queue("q").places)


def test_places_of_an_engine_that_was_killed_are_not_shown_although_nobody_needs_them(
    tmp_path: Path, door: Door, trail: str
) -> None:
    script = """
        import sys, onceflow
        from tests.engine.queues import flows

        onceflow.queues.queue("q", concurrency=1, max_pending=1)
        onceflow.run_async(flows.pass_door.bind(*sys.argv[1:], "killed"))
        onceflow.run(flows.trace.bind(sys.argv[2], "waits"))
    """
    with started(tmp_path, script, door.path, trail) as process, Engine(tmp_path / "home", workers=1) as engine:
        door.wait()
        until(lambda: engine.get_queue("q").waiting == 1)
        assert len(engine.get_queue("q").places) == 1
        kill(process)
        until(lambda: not engine.get_queue("q").places)
        assert [info.waiting for info in engine.list_queues()] == [0]


def test_an_attempt_whose_worker_died_gives_its_place_back(tmp_path: Path, trail: str) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.queue("q", concurrency=1)
        assert engine.run(flows.die_once.bind(trail)) == "lived"
        until(lambda: not engine.get_queue("q").places)


def test_what_is_stopped_while_it_runs_gives_its_place_back(tmp_path: Path, door: Door, trail: str) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.queue("q", concurrency=1)
        stopped = engine.run_async(flows.pass_door.options(can_rollback=True).bind(door.path, trail, "stopped"))
        door.wait()
        assert stopped.cancel() == "cancelled"
        assert engine.run(flows.trace.bind(trail, "next")) == "next"


def test_limits_that_are_changed_elsewhere_hold_here(place: Place, door: Door, trail: str) -> None:
    with Engine(**place, workers=2) as one, Engine(**place, workers=1) as other:
        one.queue("q", concurrency=1)
        first = one.run_async(flows.pass_door.bind(door.path, trail, "first"))
        door.wait()
        second = one.run_async(flows.pass_door.bind(door.path, trail, "second"))
        other.set_queue("q", concurrency=2)
        door.wait()  # both are there
        door.open(2)
        assert {first.result(), second.result()} == {"first", "second"}


def test_an_engine_drives_no_more_runs_than_it_may(tmp_path: Path, door: Door, trail: str) -> None:
    with Engine(tmp_path / "home", workers=2, max_running=1, max_pending=2) as engine:
        first = engine.run_async(flows.pass_door.bind(door.path, trail, "first"))
        door.wait()
        low = engine.run_async(flows.trace.bind(trail, "low"), priority=-1)
        high = engine.run_async(flows.trace.bind(trail, "high"), priority=1)
        assert (low.status, high.status) == ("pending", "pending")
        assert "1 may be driven at a time" in engine.why(low.id).obstacles[0].text
        with pytest.raises(QueueFull, match="raise max_pending"):
            engine.run_async(flows.trace.bind(trail, "too much"))
        door.open()
        assert [handle.result() for handle in (first, low, high)] == ["first", "low", "high"]
    assert traces(trail) == ["+first", "-first", "+high", "-high", "+low", "-low"]


def test_of_those_that_were_left_to_others_the_highest_priority_is_taken_first(
    tmp_path: Path, door: Door, trail: str
) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.serve(capacity=1)
        first = engine.submit(flows.pass_door.bind(door.path, trail, "first"))
        door.wait()
        later = [engine.submit(flows.trace.bind(trail, f"p{n}"), priority=n) for n in (0, 2, 1)]
        door.open()
        assert [handle.result() for handle in (first, *later)] == ["first", "p0", "p2", "p1"]
    assert [line for line in traces(trail) if line[0] == "+"] == ["+first", "+p2", "+p1", "+p0"]


def test_a_queue_has_room_for_so_many_that_were_left_to_others(tmp_path: Path, trail: str) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.queue("reports", concurrency=1, max_pending=2)
        handles = [engine.submit(flows.trace.bind(trail, name), queue="reports") for name in ("a", "b")]
        other = engine.submit(flows.trace.bind(trail, "elsewhere"))
        with pytest.raises(QueueFull, match="onceflow queue set reports --max-pending"):
            engine.submit(flows.trace.bind(trail, "c"), queue="reports")
        engine.serve()
        assert [handle.result() for handle in (*handles, other)] == ["a", "b", "elsewhere"]
        assert engine.submit(flows.trace.bind(trail, "c"), queue="reports").result() == "c"


def test_a_run_that_is_run_again_has_its_queue_and_priority(tmp_path: Path, trail: str) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.queue("reports", concurrency=1)
        engine.run(flows.trace.bind(trail, "a"), name="first", queue="reports", priority=3)
        same = engine.rerun_async("first", from_task="trace")
        changed = engine.rerun_async("first", node=flows.trace.bind(trail, "b"))
        assert [same.result(), changed.result()] == ["a", "b"]
        for handle in (same, changed):
            with engine._home.journal.load(handle.id) as loaded:
                settings = decode_settings(loaded.settings)
            assert (settings.queue, settings.priority) == ("reports", 3)
