"""What counts as begun: what a worker could take, and not what only waited for one, or ran out of time meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from onceflow import Engine, RunCancelled, TaskFailed, task
from onceflow.errors import TaskTimedOut
from tests.helpers.doors import Door, knock
from tests.helpers.scripts import kill, started
from tests.helpers.traces import traces
from tests.helpers.waiting import until

WINDOW = 1
"""Attempts for each worker that may have begun beyond what it runs, if they are long."""

MANY = """
    import time
    from onceflow import Engine, task

    @task
    def send(number):
        with open("ledger", "a") as ledger:
            ledger.write(f"sent {number}\\n")
        time.sleep(0.05 if number < 2 else 600)

    @task
    def collect(sent):
        return len(sent)

    if __name__ == "__main__":
        with Engine("home", workers=1) as engine:
            engine.run(collect.bind([send.bind(number) for number in range(100)]), name="many")
"""

TRIPS = """
    import time
    from onceflow import Engine, task

    def note(line):
        with open("ledger", "a") as ledger:
            ledger.write(f"{line}\\n")

    def free_room(trip):
        note(f"freed {trip}")

    @task(rollback=free_room)
    def book_room(trip):
        note(f"booked {trip}")
        return trip

    @task
    def charge(trip):
        note(f"charging {trip}")
        time.sleep(600)

    @task
    def collect(charged):
        return len(charged)

    if __name__ == "__main__":
        with Engine("home", workers=3) as engine:
            engine.run(collect.bind([charge.bind(book_room.bind(trip)) for trip in range(40)]), name="trips")
"""


@task
def collect(done: list[int]) -> int:
    return len(done)


@task
def take_a_while(number: int) -> int:
    time.sleep(0.03)
    return number


@task
def wait_at(door: str, number: int = 0) -> int:
    knock(door)
    return number


def happened(folder: Path, what: str) -> set[str]:
    return {line.split()[1] for line in traces(folder / "ledger") if line.startswith(f"{what} ")}


def begun_in(engine: Engine, run: str) -> list[str]:
    with engine._home.journal.load(engine.find(run).id) as loaded:
        return [entry.node for entry in loaded.entries if entry.kind == "begun"]


def onceflow(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "onceflow", *words, "--home", str(folder / "home")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=folder).stdout


def test_after_a_kill_only_what_a_worker_could_take_has_begun(tmp_path: Path) -> None:
    with started(tmp_path, MANY) as process:
        until(lambda: len(happened(tmp_path, "sent")) == 3)
        kill(process)
    with Engine(tmp_path / "home", workers=1) as engine:
        assert 3 <= len(begun_in(engine, "many")) <= 2 + (1 + WINDOW)


def test_after_a_kill_every_room_that_stays_booked_is_listed_with_its_uncertain_charge(tmp_path: Path) -> None:
    with started(tmp_path, TRIPS) as process:
        until(lambda: len(happened(tmp_path, "charging")) == 3)
        kill(process)
    cancelled = onceflow(tmp_path, "cancel", "trips", "--undo")
    shown = onceflow(tmp_path, "show", "trips")
    stay = happened(tmp_path, "booked") - happened(tmp_path, "freed")

    assert len(happened(tmp_path, "booked")) == 40
    assert happened(tmp_path, "charging") <= stay
    assert len(stay) <= 3 * (1 + WINDOW)
    for told in (cancelled, shown):
        assert told.count("was not undone: something irrevocable that has begun stands on it") == len(stay)
        assert told.count("may or may not have happened: it had begun and did not finish") == len(stay)


def test_of_what_waits_for_a_worker_nothing_is_recorded_and_why_says_so(tmp_path: Path, door: Door) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        run = engine.run_async(collect.bind([wait_at.bind(door.path, number) for number in range(5)]), name="five")
        door.wait()
        assert len(begun_in(engine, "five")) == 1
        reasons = [one.reason for one in engine.list_tasks("five") if one.state == "ready"]
        assert reasons == ["waits for a free worker (1 of 1 busy)"] * 4
        assert "waits for a free worker (1 of 1 busy)" in str(engine.why("five"))
        assert engine.status("five") == "running"
        door.open(5)
        assert run.result() == 5


def test_a_task_whose_time_is_over_before_it_started_has_not_begun(tmp_path: Path, door: Door) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.run(take_a_while.bind(1))  # from now on it is known how long that takes
        busy = engine.run_async(wait_at.bind(door.path))
        door.wait()
        late = engine.run_async(take_a_while.options(total_timeout=0.1).bind(2), name="late")
        with pytest.raises(TaskFailed) as caught:
            late.result()
        assert len(begun_in(engine, "late")) == 1
        assert isinstance(caught.value.__cause__, TaskTimedOut)
        assert caught.value.uncertain == ()
        door.open()
        assert busy.result() == 0


def test_runs_take_turns_for_workers_although_they_ask(tmp_path: Path, door: Door) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        busy = engine.run_async(wait_at.bind(door.path))
        door.wait()
        many = engine.run_async(collect.bind([take_a_while.bind(number) for number in range(200)]), name="many")
        until(lambda: len(engine.list_tasks("many")) == 201)
        single = engine.run_async(take_a_while.bind(1), name="single")
        door.open()
        assert single.result() == 1
        assert len(begun_in(engine, "many")) < 20
        assert busy.result() == 0
        assert many.result() == 200


def test_what_has_a_place_in_a_queue_begins_when_a_worker_can_take_it(tmp_path: Path, door: Door) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.set_queue("q", concurrency=3)
        queued = wait_at.options(queue="q")
        run = engine.run_async(collect.bind([queued.bind(door.path, number) for number in range(5)]), name="five")
        door.wait()
        until(lambda: len([one for one in engine.list_tasks("five") if "free worker" in one.reason]) == 2)
        assert len(begun_in(engine, "five")) == 1
        assert engine.cancel("five", grace=0) == "cancelled"
        with pytest.raises(RunCancelled) as cancelled:
            run.result()
        assert len(cancelled.value.uncertain) == 1
        door.open()
        door.open()
        assert engine.run(queued.bind(door.path, 7)) == 7
