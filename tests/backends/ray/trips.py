"""Trips whose effects are written down, so that it can be seen afterwards whether each happened once."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

from onceflow import actor, current, task
from onceflow.actors import Exclusive, const, create
from tests.helpers.traces import note

LARGE = 200_000


@actor
class Purse:
    def __init__(self) -> None:
        self.cents = 0

    def take(self, cents: int) -> None:
        self.cents += cents

    @const
    def look(self) -> int:
        return self.cents


def _dwell() -> None:
    """Long enough that somebody may be killed meanwhile."""
    time.sleep(random.random() * 0.4)


@task
def quote(trip: int, ledger: str) -> int:
    """Nobody can say what it will be."""
    _dwell()
    return random.randrange(1_000_000)


@task.pure
def guide(trip: int) -> bytes:
    return trip.to_bytes(4, "big") * (LARGE // 4)


def cancel(trip: int, ledger: str, key: str) -> None:
    note(ledger, f"cancelled {trip} {key}")


@task(rollback=cancel)
def book(trip: int, ledger: str, cents: int, pages: bytes) -> tuple[int, int]:
    note(ledger, f"booked {trip} {current().key} {cents}")
    _dwell()
    return cents, len(pages)


@task
def charge(trip: int, ledger: str, booked: tuple[int, int]) -> int:
    note(ledger, f"charged {trip} {current().key} {booked[0]}")
    _dwell()
    return booked[0]


@task(can_rollback=True)
def pack() -> Purse:
    return create(Purse)


@task(can_rollback=True)
def fill(purse: Exclusive[Purse], cents: int) -> Purse:
    purse.take(cents)
    return purse


@task(can_rollback=True)
def travel(trip: int, purse: Purse, cents: int) -> tuple[int, int, int]:
    _dwell()
    return trip, purse.look(), cents


def graph(trip: int, ledger: str) -> Any:
    cents = quote.bind(trip, ledger)
    paid = charge.bind(trip, ledger, book.bind(trip, ledger, cents, guide.bind(trip)))
    return travel.bind(trip, fill.bind(pack.bind(), cents), paid)


def judge(ledger: Path, trips: int) -> list[str]:
    """What is wrong with what has happened."""
    lines = [line.split() for line in ledger.read_text().splitlines()]
    problems = []
    for trip in range(trips):
        mine = [line for line in lines if line[1] == str(trip)]
        charged = {tuple(line[2:]) for line in mine if line[0] == "charged"}
        cancelled = {line[2] for line in mine if line[0] == "cancelled"}
        booked = {tuple(line[2:]) for line in mine if line[0] == "booked" and line[2] not in cancelled}
        if len(charged) != 1 or len(booked) != 1:
            problems.append(f"trip {trip}: charged {charged}, booked {booked}, cancelled {cancelled}")
        elif {amount for _, amount in charged} != {amount for _, amount in booked}:
            problems.append(f"trip {trip}: charged {charged} for what was booked as {booked}")
    return problems


def process_names() -> dict[int, str]:
    """Process id → what it calls itself, of all processes of Ray."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                command = Path("/proc", name, "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
            except OSError:
                continue
            if command.startswith("ray::"):
                found[int(name)] = command
    return found
