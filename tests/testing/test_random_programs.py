"""Random programs of everything that tasks can do, with a crash at each moment: the ledger is exact.

Tasks with all kinds of effects, nested graphs, transactions, loops, handlers and retries, task variables, actors,
fibers that fork and join, queues: `random_programs.language` has what a program is made of, `generator` how often
each occurs, `judge` what must hold, and `verdicts` which effects the law wants to be there.

Each program is played once without a crash, then with a crash at each of its moments, and with some second crashes in
the recovery. A program with very many moments (one in five) is played with a sample of them: otherwise those few would
take longer than all others together.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from onceflow.testing import CrashPoint, MemoryEngine, crash_everywhere, crash_points
from tests.testing.random_programs.generator import draw
from tests.testing.random_programs.judge import Allowed, judge_life
from tests.testing.random_programs.language import Program

BLOCK, FEW = 4, 40
MANY_BLOCK, MANY = 50, 10_000

MOST_MOMENTS = 48
"""A program with more of them is played with crashes at so many."""
SECOND_CRASHES = 4
SOON = 12
"""Moments after the first crash within which there is the second."""


Scenario = Callable[[MemoryEngine], None]


def survive(program: Program, allowed: list[Allowed]) -> None:
    """Raises `AssertionError` if a crash leads to something that the law does not allow."""

    def scenario(engine: MemoryEngine) -> None:
        judge_life(program, engine, allowed)

    try:
        if allowed[0].moments <= MOST_MOMENTS:
            crash_everywhere(scenario, seeds=[program.order])
        chance = Random(program.seed)
        points = crash_points(scenario, seeds=[program.order])
        if len(points) > MOST_MOMENTS:
            for point in chance.sample(points, MOST_MOMENTS):
                die_at(point, scenario)
        for point in chance.sample(points, min(SECOND_CRASHES, len(points))):
            numbers = (*point.numbers, point.numbers[0] + chance.randint(1, SOON))
            die_at(CrashPoint(numbers, (*point.places, "soon after"), point.seed), scenario)
    except BaseException as error:
        error.add_note(str(program))
        raise


def die_at(point: CrashPoint, scenario: Scenario) -> None:
    engine = point.engine()
    try:
        scenario(engine)
    except BaseException as error:
        error.add_note(f"This was with a crash {point}. What happened:\n{engine.story}")
        raise
    finally:
        engine.close()


@pytest.mark.parametrize("first", range(0, FEW, BLOCK))
def test_random_programs_survive_a_crash_at_each_moment(first: int) -> None:
    for seed in range(first, first + BLOCK):
        survive(*draw(seed))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, MANY, MANY_BLOCK))
def test_so_do_ten_thousand(first: int) -> None:
    for seed in range(first, first + MANY_BLOCK):
        survive(*draw(seed))


@pytest.mark.parametrize("seed", [5960, 6617, 9455])
def test_so_do_those_that_once_did_not(seed: int) -> None:
    """5960: a run fails, and an engine dies before it has ended; what was not saved is undone then. 6617: two tasks
    raise different errors, and what catches one of them tells which it was. 9455: a transaction with a loop in it."""
    survive(*draw(seed))
