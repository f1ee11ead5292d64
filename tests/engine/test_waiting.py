"""Events and time with a real engine: runs that only wait are parked, and woken when it is time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from onceflow import Engine, sleep, task, wait_event
from onceflow.driver.driver import Driver
from onceflow.engine.runtime.facade import Hub
from onceflow.errors import EventRefused, InvalidOption, NoSuchRun, RunActive, RunPaused, RunTimedOut
from onceflow.storage.journal import Request
from tests.engine.common import pass_door
from tests.helpers.doors import Door
from tests.helpers.scripts import kill, run_script, started
from tests.helpers.waiting import LONG, until


@task(can_rollback=True)
def double(number: int) -> int:
    return 2 * number


@task(can_rollback=True)
def done() -> str:
    return "done"


def parked(engine: Engine) -> int:
    hub = engine._hub
    assert isinstance(hub, Hub)
    return len(hub.parked.parking)


def test_a_run_that_only_waits_is_in_nobodys_memory_until_an_event_comes(engine: Engine) -> None:
    handle = engine.run_async(double.bind(wait_event("number", int)), name="parked")
    until(lambda: parked(engine) == 1)
    assert handle.id not in engine.active
    assert engine.status("parked") == "waiting"
    engine.send_event("parked", "number", 21)
    assert handle.result() == 42
    assert parked(engine) == 0


def test_a_run_that_was_woken_is_claimed_with_what_it_has_done(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = engine.run_async(double.bind(wait_event("number", int)), name="quick")
    until(lambda: parked(engine) == 1)
    batches: list[list[str]] = []
    host = engine._hub.host
    commit = host.commit

    def listen(driver: Driver, requests: Sequence[Request]) -> None:
        batches.append([type(request).__name__ for request in requests])
        commit(driver, requests)

    monkeypatch.setattr(host, "commit", listen)
    monkeypatch.setattr("onceflow.engine.runtime.turn.PATIENCE", LONG)
    engine.send_event("quick", "number", 21)
    assert handle.result() == 42
    assert batches == [["Claim", "AppendEntries", "MarkEvents", "SetStatus"]]


def test_a_run_that_was_woken_and_takes_longer_is_claimed_before_its_end(engine: Engine, door: Door) -> None:
    passing = pass_door.options(can_rollback=True)
    handle = engine.run_async(passing.bind(door.path, wait_event("go", str)), name="slow")
    until(lambda: parked(engine) == 1)
    engine.send_event("slow", "go", "gone")
    door.wait()
    until(lambda: engine._home.journal.find_name("slow").status == "running")
    door.open()
    assert handle.result() == "gone"


def test_an_event_may_come_before_the_wait(engine: Engine) -> None:
    first = wait_event("first", int)
    handle = engine.run_async(double.bind(wait_event("second", int, after=[first])), name="early")
    engine.send_event("early", "second", 2)
    engine.send_event("early", "first", 1)
    assert handle.result() == 4


def test_a_sleep_takes_no_worker_and_ends(engine: Engine) -> None:
    assert engine.run(done.options(after=[sleep(0.05)]).bind()) == "done"


def test_a_run_that_sleeps_is_woken_when_it_is_time(engine: Engine) -> None:
    handle = engine.run_async(done.options(after=[sleep(1.5)]).bind())
    until(lambda: parked(engine) == 1)
    assert handle.result() == "done"


def test_parked_runs_are_picked_up_by_the_next_engine(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as first:
        for number in range(5):
            first.run_async(double.bind(wait_event("number", int)), name=f"run-{number}")
        until(lambda: parked(first) == 5)
    with Engine(tmp_path / "home", workers=1) as between:
        assert between.status("run-0") == "interrupted"
        between.send_event("run-0", "number", 1)
    with Engine(tmp_path / "home", workers=1, recover=True) as second:
        until(lambda: second.status("run-0") == "succeeded")
        assert parked(second) == 4
        assert second.get_output("run-0") == 2
        second.send_event("run-3", "number", 3)
        assert second.resume("run-3") == 6


def test_whoever_waits_is_told_when_the_engine_is_closed(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "home", workers=1)
    handle = engine.run_async(double.bind(wait_event("number", int)))
    until(lambda: parked(engine) == 1)
    engine.close()
    with pytest.raises(Exception, match="interrupted"):
        handle.result()


def test_a_parked_run_can_be_cancelled_and_takes_no_more_events(engine: Engine) -> None:
    engine.run_async(double.bind(wait_event("number", int)), name="no more")
    until(lambda: parked(engine) == 1)
    assert engine.cancel("no more") == "cancelled"
    with pytest.raises(EventRefused, match="it has ended"):
        engine.send_event("no more", "number", 1)


@pytest.mark.parametrize(("verb", "status"), [("cancel", "cancelled"), ("pause", "paused")])
def test_whoever_is_elsewhere_cancels_or_pauses_a_parked_run(
    engine: Engine, home: Path, verb: str, status: str
) -> None:
    engine.run_async(double.bind(wait_event("number", int)), name=f"{verb} it")
    until(lambda: parked(engine) == 1)
    with Engine(home, workers=1) as other:
        assert getattr(other, verb)(f"{verb} it") == status


def test_whoever_waits_for_a_run_is_the_same_however_often_it_is_woken(engine: Engine) -> None:
    first, second = wait_event("first", int), wait_event("second", int)
    handle = engine.run_async(double.options(after=[first, second]).bind(wait_event("third", int)), name="often")
    hub = engine._hub
    assert isinstance(hub, Hub)
    waiting = []
    for epoch, key in enumerate(["first", "second", "third"], 1):
        until(
            lambda epoch=epoch: (
                handle.id in hub.parked.parking and engine._home.journal.find_name("often").epoch == epoch
            )
        )
        _, completion = hub.parked.parking._parked[handle.id]
        assert completion is not None
        waiting.append(completion())
        engine.send_event("often", key, 4)
    assert handle.result() == 8
    assert waiting[0] is not None
    assert len(set(waiting)) == 1


def test_an_event_comes_from_another_process(engine: Engine, tmp_path: Path, home: Path) -> None:
    handle = engine.run_async(double.bind(wait_event("number", int)), name="other process")
    until(lambda: parked(engine) == 1)
    script = """
        import sys
        from onceflow import Engine
        with Engine(sys.argv[1]) as engine:
            engine.send_event("other process", "number", 8)
    """
    run_script(tmp_path, script, str(home))
    assert handle.result() == 16


def test_it_is_told_what_a_run_waits_for(engine: Engine) -> None:
    engine.run_async(double.bind(wait_event("number", int)), name="told")
    until(lambda: parked(engine) == 1)
    waits, consumer = engine.list_tasks("told")
    assert (waits.state, waits.reason) == ("waiting", "waits for event 'number'")
    assert consumer.reason == "waits for wait_event"
    assert engine.cancel("told") == "cancelled"


def test_a_task_may_return_a_graph_that_waits(engine: Engine) -> None:
    @task
    def expand(key: str) -> int:
        return double.bind(wait_event(key, int))

    handle = engine.run_async(double.bind(expand.bind("late")), name="expanded")
    until(lambda: parked(engine) == 1)
    engine.send_event("expanded", "late", 3)
    assert handle.result() == 12


def test_a_run_that_waits_for_too_long_runs_out_of_time(engine: Engine) -> None:
    handle = engine.run_async(double.bind(wait_event("number", int)), timeout=1.5)
    until(lambda: parked(engine) == 1)
    with pytest.raises(RunTimedOut):
        handle.result()


def test_whoever_waits_for_a_parked_run_is_told_that_it_was_paused(engine: Engine) -> None:
    handle = engine.run_async(double.bind(wait_event("number", int)), name="rested")
    until(lambda: parked(engine) == 1)
    assert engine.pause("rested") == "paused"
    with pytest.raises(RunPaused):
        handle.result()
    engine.send_event("rested", "number", 5)
    assert engine.resume("rested") == 10


def test_a_parked_run_cannot_be_deleted(engine: Engine) -> None:
    engine.run_async(double.bind(wait_event("number", int)), name="stays")
    until(lambda: parked(engine) == 1)
    with pytest.raises(RunActive):
        engine.delete("stays")
    engine.cancel("stays")


DRIVING = """
    import sys, threading
    from onceflow import Engine
    with Engine(sys.argv[1], workers=1, recover=True):
        print("here", flush=True)
        threading.Event().wait()
"""


def test_each_event_is_taken_once_though_engines_are_killed(tmp_path: Path) -> None:
    home, count = tmp_path / "home", 30
    with Engine(home, workers=1) as engine:
        for number in range(count):
            engine.run_async(double.bind(wait_event("number", int)), name=f"run-{number}")
        until(lambda: parked(engine) == count)
    with Engine(home, workers=1) as sender:
        for killed in range(3):
            with started(tmp_path, DRIVING, str(home)) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "here\n"
                for number in range(10 * killed, 10 * killed + 10):
                    sender.send_event(f"run-{number}", "number", number)
                kill(process)
        with started(tmp_path, DRIVING, str(home)):
            until(lambda: len(sender.list_runs(status="succeeded")) == count)
        assert [sender.get_output(f"run-{number}") for number in range(count)] == [2 * n for n in range(count)]


def test_many_events_are_sent_at_once(engine: Engine) -> None:
    handles = [engine.run_async(double.bind(wait_event("number", int)), name=f"run-{place}") for place in range(20)]
    events = [(handle.id if place % 2 else f"run-{place}", "number", place) for place, handle in enumerate(handles)]
    engine.send_events(events, ids=[f"event-{place}" for place in range(20)])
    engine.send_events(events[:3], ids=["event-0", "event-1", "event-2"])  # each is there once
    assert [handle.result() for handle in handles] == [2 * place for place in range(20)]


def test_if_one_event_is_refused_none_is_sent(engine: Engine) -> None:
    handle = engine.run_async(double.bind(wait_event("number", int)), name="first")
    for wrong, refused in [
        (("nobody", "number", 1), NoSuchRun),
        (("first", "number", "a word"), EventRefused),
    ]:
        with pytest.raises(refused):
            engine.send_events([("first", "number", 1), wrong])
    with pytest.raises(InvalidOption):
        engine.send_events([("first", "number", 1)], ids=[])
    engine.send_events([])
    engine.send_event("first", "number", 21)
    assert handle.result() == 42
