"""Cancelling runs of which something irrevocable waits for a worker: that never starts, and what it read is undone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from onceflow import Engine, RunCancelled, task
from tests.helpers.doors import Door, knock
from tests.helpers.traces import note, traces
from tests.helpers.waiting import until

TRIPS = 20


def free_room(ledger: str, trip: int) -> None:
    note(ledger, f"freed {trip}")


@task(rollback=free_room)
def book_room(ledger: str, trip: int) -> int:
    note(ledger, f"booked {trip}")
    return trip


@task
def charge(ledger: str, door: str, trip: int) -> int:
    note(ledger, f"charging {trip}")
    knock(door)
    note(ledger, f"charged {trip}")
    return trip


@pytest.fixture
def trips(tmp_path: Path, door: Door):
    """Many of them, on two workers that are both charging."""
    ledger = str(tmp_path / "ledger")
    with Engine(tmp_path / "home", workers=2) as engine:
        handles = [
            engine.run_async(charge.bind(ledger, door.path, book_room.bind(ledger, trip)), name=f"trip-{trip}")
            for trip in range(TRIPS)
        ]
        door.wait()
        door.wait()
        yield engine, handles, ledger
        door.open(TRIPS)


def happened(ledger: str, what: str) -> set[str]:
    return {line.split()[1] for line in traces(ledger) if line.startswith(f"{what} ")}


def cancel(engine: Engine, trips: set[str]) -> list[threading.Thread]:
    """Returns when nothing is left of them but what is to be undone, for which there is no free worker."""
    threads = [
        threading.Thread(target=engine.cancel, args=[f"trip-{trip}"], kwargs={"undo": True}, name=trip)
        for trip in trips
    ]
    for thread in threads:
        thread.start()
    until(lambda: all(engine.status(f"trip-{trip}") == "undoing" for trip in trips))
    return threads


def test_no_room_stays_booked_whose_charge_never_started(trips, door: Door) -> None:
    engine, handles, ledger = trips
    until(lambda: len(happened(ledger, "booked")) == TRIPS)
    charging = happened(ledger, "charging")
    cancelling = cancel(engine, happened(ledger, "booked") - charging)
    door.open(2)
    for thread in cancelling:
        thread.join()
    for trip in charging:
        assert handles[int(trip)].result() == int(trip)

    assert happened(ledger, "charging") == happened(ledger, "charged") == charging
    assert happened(ledger, "booked") - happened(ledger, "freed") == charging


def test_a_run_that_was_cancelled_before_its_charge_started_kept_nothing_and_can_be_resumed(trips, door: Door) -> None:
    engine, handles, ledger = trips
    until(lambda: len(happened(ledger, "booked")) == TRIPS)
    waiting = min(happened(ledger, "booked") - happened(ledger, "charging"))
    (cancelling,) = cancel(engine, {waiting})
    door.open(TRIPS + 1)
    cancelling.join()
    with pytest.raises(RunCancelled) as cancelled:
        handles[int(waiting)].result()
    assert cancelled.value.kept == ()
    assert cancelled.value.uncertain == ()
    assert engine.resume(f"trip-{waiting}") == int(waiting)
    assert traces(ledger).count(f"charged {waiting}") == 1
