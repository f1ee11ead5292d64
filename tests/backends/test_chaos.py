"""Kills and stops at random moments: every job is reported once, none starts twice, and what it prints is its own."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from onceflow.backends.local.reports import Died, Ended, Finished, Printed
from tests.backends.common import Loop, kill, running_pool

JOBS = 300


def noted(trace: str, token: int, rounds: int, threads: bool) -> int:
    """A job: writes when it starts and when it ends."""
    file = os.open(trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b"start %d\n" % token)
    print("printed by", token)
    if not threads:  # nobody could tell whose it is
        os.write(1, b"written by %d\n" % token)
    for _ in range(rounds):
        os.stat(trace)
    os.write(file, b"end %d\n" % token)
    os.close(file)
    return token


def disturb(loop: Loop, chance: random.Random) -> None:
    """Does harm, now and then."""
    draw = chance.random()
    if draw < 0.02:
        kill(loop.pool._servers.all[-1].pid)
    elif draw < 0.10 and loop.pool._workers:
        chance.choice(list(loop.pool._workers.values())).kill()
    elif draw < 0.40:
        loop.pool.stop(chance.randrange(1, loop.count + 2))


@pytest.mark.parametrize("seed", range(3))
def test_every_job_is_reported_once_and_none_starts_twice(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    trace = str(tmp_path / "trace")
    expected: dict[int, str] = {}
    printed: dict[int, str] = defaultdict(str)

    def note(events: list[Printed]) -> None:
        for event in events:
            assert event.token not in loop.reports, "it comes before the report"
            printed[event.token] += event.text

    with running_pool(tmp_path, printed=note) as loop:
        loop.warm_up()
        while loop.count < JOBS:
            for _ in range(chance.randrange(30)):
                rounds = chance.choice((0, 0, 0, 10, 3_000))
                threads = chance.random() < 0.1
                token = loop.start(noted, trace, loop.count + 1, rounds, threads, threads=threads)
                expected[token] = f"printed by {token}\n" + ("" if threads else f"written by {token}\n")
            if loop.pool._servers.all[-1].fruitful:
                disturb(loop, chance)
            seen = len(loop.reports)
            loop.until(lambda seen=seen: len(loop.reports) > seen or len(loop.reports) == loop.count)  # type: ignore[misc]
        loop.until(lambda: len(loop.reports) == loop.count)

    started, ended = Counter(), Counter()  # type: tuple[Counter[int], Counter[int]]
    for line in Path(trace).read_text().splitlines():
        word, number = line.split()
        (started if word == "start" else ended)[int(number)] += 1
    assert max(started.values()) == 1
    for token, report in loop.reports.items():
        match report:
            case Finished():
                assert started[token] == ended[token] == 1
                assert printed[token] == expected[token]
            case Ended(started=False):
                assert not started[token]
            case _:
                assert isinstance(report, Died | Ended)
