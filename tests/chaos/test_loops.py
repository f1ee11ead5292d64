"""Loops inside loops inside loops, with failures at every level, under `kill -9` of everything."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.helpers.scripts import started
from tests.helpers.traces import traces
from tests.helpers.waiting import until
from tests.tools.chaos import kills

SCRIPT = """
import os, sys
from onceflow import current
from onceflow import for_each
from onceflow import reduce
from onceflow import run
from onceflow import task
from tests.helpers.traces import note
from onceflow import RetryPolicy

OUTER, MIDDLE, INNER = map(int, sys.argv[1:])
AGAIN = RetryPolicy(4, delay=0.001)

def stumble(*number):
    # Raises once for some of the items, whoever tries them.
    if hash(number) % 11 == 0:
        try:
            os.close(os.open("-".join(map(str, ["stumbled", *number])), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        raise ConnectionError(number)

@task(retry=AGAIN)
def book(number):
    stumble(*number)
    note("effects", f"{current().key} {number}")
    return 1

@task(can_rollback=True, retry=AGAIN)
def city(number):
    stumble(*number)
    return for_each(book, [(*number, n) for n in range(INNER)], chunk=5)

@task(can_rollback=True, retry=AGAIN)
def country(number):
    stumble(number)
    return for_each(city, [(number, n) for n in range(MIDDLE)], chunk=7)

@task.pure
def count(before, cities):
    return before + sum(map(sum, cities))

print(run(reduce(count, for_each(country, range(OUTER), chunk=3), 0), name="tour"))
"""


def play(folder: Path, seed: int, sizes: tuple[int, int, int], deaths: int) -> tuple[str, Counter[str]]:
    """What the last engine printed, and how often each effect was asked for under its key."""
    random = Random(seed)
    total = sizes[0] * sizes[1] * sizes[2]
    moments = sorted(random.randrange(total // 20, total) for _ in range(deaths))
    arguments = tuple(map(str, sizes))
    while True:
        with started(folder, SCRIPT, *arguments, PYTHONHASHSEED="0") as process:
            while moments and process.poll() is None:
                when = moments.pop(0)
                for count in range(0, when, 100):  # as long as it gets on, it is given time
                    until(lambda: process.poll() is not None or len(traces(folder / "effects")) >= count)  # noqa: B023
                if process.poll() is None:
                    target = random.choice(("all", "engine", "worker"))
                    kills.assassinate(process.pid, target, lambda: process.poll() is None)
            printed, errors = process.communicate()
            if process.returncode != -9:
                assert process.returncode == 0, errors
                return printed, Counter(traces(folder / "effects"))


def check(folder: Path, seed: int, sizes: tuple[int, int, int], deaths: int) -> None:
    printed, effects = play(folder, seed, sizes, deaths)
    total = sizes[0] * sizes[1] * sizes[2]
    assert printed == f"{total}\n"
    by_item = Counter(line.partition(" ")[2] for line in effects)
    assert len(by_item) == total, "every item has had its effect"
    assert set(by_item.values()) == {1}, "and always under one key"
    assert len({line.partition(" ")[0] for line in effects}) == total, "which no other item has"


@pytest.mark.parametrize("seed", range(2))
def test_three_levels_of_loops_with_failures_at_each_survive_kills(seed: int, tmp_path: Path) -> None:
    check(tmp_path, seed, (8, 8, 6), deaths=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_fifty_times_fifty_times_twenty(seed: int, tmp_path: Path) -> None:
    check(tmp_path, seed, (50, 50, 20), deaths=6)
