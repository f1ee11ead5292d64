"""Trips that are reserved in a database by two-phase locking (`examples/travel`), written in four ways: one step after
the other, side by side, with locks apart from reservations, and with saves that overlap what follows them.

One customer reserves one trip after the other, so the time of a request is the length of its longest path. Rounds of
all four alternate, and ratios are formed within a round: of the same work in the same seconds.

Measured three times. *Near*: journal and database are on this machine, where a save takes about as long as a message,
and there is little to overlap. *PostgreSQL*: the same, but the journal is in a database, too. *Far*: each transaction
of the database, and each commit of the journal, takes 20 ms longer, as if they were reached through a network. The
database with the trips is there to be locked, and does not sync; the journal does.

If all that is far takes as long, a trip whose saves overlap takes six times that, one whose saves do not takes seven:
that `finish` has begun must be durable before it does, and nothing overlaps with that.
"""

from __future__ import annotations

import contextlib
import os
import queue
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.rows import Row
from bench.workloads import _measuring
from onceflow import Engine
from onceflow.storage.journal import Answer, Journal, Outcome, Request
from onceflow.testing.servers.postgres import PostgresServer

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

ROUNDS = 12
TRIPS = 3
"""Of each variant in a round."""
WARM_UP = 4
DISTANCE = 0.02
"""Seconds to what is far."""
FAILURES = 0.1
UNLUCKY = 40
"""Trips of which so many attempts fail."""
LEAST_GAIN = 1.05
"""How many times as long a trip takes whose saves do not overlap, if everything is far."""

Took = dict[str, list[float]]
"""Milliseconds by variant."""


class FarJournal:
    """Answers later than it might."""

    def __init__(self, journal: Journal, seconds: float) -> None:
        self._journal = journal
        self._seconds = seconds
        self._answers: queue.SimpleQueue[tuple[float, Answer, Outcome]] = queue.SimpleQueue()
        threading.Thread(target=self._deliver, daemon=True).start()

    def submit(self, requests: Sequence[Request], answer: Answer) -> None:
        due = time.monotonic() + self._seconds
        self._journal.submit(requests, lambda outcome: self._answers.put((due, answer, outcome)))

    def commit_at_once(self, requests: Sequence[Request]) -> None:
        """It takes too long for that."""

    def _deliver(self) -> None:
        while True:
            due, answer, outcome = self._answers.get()
            time.sleep(max(0.0, due - time.monotonic()))
            answer(outcome)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


def measure() -> list[Row]:
    from travel import luck, world

    with contextlib.ExitStack() as opened:
        server = opened.enter_context(PostgresServer())
        folder = opened.enter_context(tempfile.TemporaryDirectory())
        opened.enter_context(set_variable(world.DATABASE, server.create_database()))
        world.create()
        with Engine(Path(folder, "near"), output="store") as engine:
            near = measure_rounds(engine)
        journal = opened.enter_context(PostgresServer(durable=True)).create_database()
        with Engine(Path(folder, "postgres"), output="store", journal=journal) as engine:
            postgres = measure_rounds(engine)
        with set_variable(world.DISTANCE, DISTANCE), Engine(Path(folder, "far"), output="store") as engine:
            engine._home.journal = FarJournal(engine._home.journal, DISTANCE)  # type: ignore[misc]
            far = measure_rounds(engine)
        with set_variable(luck.RATE, FAILURES), Engine(Path(folder, "unlucky"), output="store") as engine:
            rate = measure_unlucky(engine)
        problems = world.problems()
        world.close()
    return [
        *rows_of("near", near),
        *rows_of("PostgreSQL", postgres),
        *rows_of("far", far),
        Row(f"near, overlapped, {FAILURES:.0%} of attempts fail: trips", rate, "a second"),
        Row("places, orders or locks that do not fit", len(problems), "", "= 0", not problems),
    ]


def measure_rounds(engine: Engine) -> list[Took]:
    from travel.trips import VARIANTS

    wishes = _wishes()
    for _ in range(WARM_UP):
        for variant in VARIANTS.values():
            engine.run(variant.bind(*next(wishes)))
    rounds = []
    for _ in range(ROUNDS):
        took: Took = {name: [] for name in VARIANTS}
        for _ in range(TRIPS):
            for name, variant in VARIANTS.items():
                node = variant.bind(*next(wishes))
                started = time.perf_counter()
                engine.run(node)
                took[name].append((time.perf_counter() - started) * 1e3)
        rounds.append(took)
    return rounds


def measure_unlucky(engine: Engine) -> float:
    from travel.customers import serve

    started = time.perf_counter()
    serve(engine, UNLUCKY, reserve_only=True)
    return UNLUCKY / (time.perf_counter() - started)


def _wishes() -> Iterator[tuple[str, str, str]]:
    """Customer, hotel and flight: all that there are, again and again."""
    from travel.world import CITIES, FLIGHTS

    while True:
        for number in range(FLIGHTS):
            for city in CITIES:
                yield "customer 0", f"hotel {number} {city}", f"flight {number} {city}"


@contextlib.contextmanager
def set_variable(name: str, value: object) -> Iterator[None]:
    """Workers inherit it."""
    os.environ[name] = str(value)
    try:
        yield
    finally:
        del os.environ[name]


def rows_of(where: str, rounds: list[Took]) -> list[Row]:
    rows = []
    for name in rounds[0]:
        every = [each for took in rounds for each in took[name]]
        medians = [statistics.median(took[name]) for took in rounds]
        rows.append(Row(f"{where}, {name}: p50", statistics.median(every), "ms", low=min(medians), high=max(medians)))
        rows.append(Row(f"{where}, {name}: p99", _measuring.percentile(every, 99), "ms"))
    for name in ("serial", "parallel", "synchronous"):
        ratios = [statistics.median(took[name]) / statistics.median(took["overlapped"]) for took in rounds]
        gain = statistics.median(ratios)
        is_limited = where == "far" and name == "synchronous"
        limit = (f"≥ {LEAST_GAIN}", gain >= LEAST_GAIN) if is_limited else ("", True)
        rows.append(Row(f"{where}, {name} ÷ overlapped", gain, "×", *limit, min(ratios), max(ratios)))
    return rows
