"""Engines and workers that are killed at random moments, over random graphs; see `tests.tools.chaos`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.tools.chaos import judging, random_plans, steps
from tests.tools.chaos.iteration import play
from tests.tools.chaos.ledger import Line
from tests.tools.chaos.lives import Nursery, Outcome
from tests.tools.chaos.plans import Plan, Step

FEW = 60
MANY = 1_000
BATCH = 5
"""Iterations in one test: small, so that they can be spread over processes."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.mark.parametrize("first", range(0, FEW, BATCH))
def test_every_effect_happens_once_and_nothing_is_left_behind(first: int, nursery: Nursery, tmp_path: Path) -> None:
    for seed in range(first, first + BATCH):
        play(seed, nursery, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FEW, FEW + MANY, BATCH))
def test_that_holds_in_many_iterations(first: int, nursery: Nursery, tmp_path: Path) -> None:
    for seed in range(first, first + BATCH):
        play(seed, nursery, tmp_path)


# -- the judge itself: a harness that cannot find anything proves nothing ----------------------------------------------

SOURCE = Step("a", "none", False, True, 0, 1, ())
UNDOABLE = Step("u", "undoable", False, True, 0, 1, ((0, 1),))
IRREVOCABLE = Step("n", "irrevocable", False, True, 0, 1, ((1, 1),))
PLAN = Plan((SOURCE, UNDOABLE, IRREVOCABLE), "keep")
RESULT = Outcome("succeeded", ("n", "33"))


def line(what: str, node: str, inputs: str = "[]", token: str = "", detail: str = "", key: str = "0") -> Line:
    return Line(0, 0.0, 1, what, node, "1.1", f"r/{node}/{key}", inputs, token, detail)


GOOD = (
    line("return", "a", "[]", "11"),
    line("apply", "u", '[["a", "11"]]', "22", "undoable"),
    line("return", "u", '[["a", "11"]]', "22"),
    line("apply", "n", '[["u", "22"]]', "33", "irrevocable"),
    line("return", "n", '[["u", "22"]]', "33"),
)

WRONG = {
    "is not there": (*GOOD[:3], GOOD[4]),
    "although its effect is there": (*GOOD[:2], *GOOD[1:]),
    "irrevocable with other inputs": (line("apply", "n", '[["u", "21"]]', "32", "irrevocable"), *GOOD),
    "the effect of u is not there": (*GOOD, line("undo apply", "u", '[["a", "11"]]', "22")),
    "another attempt went on": (*GOOD, line("overlap", "u")),
    "undone with other inputs": (
        line("apply", "u", '[["a", "10"]]', "20", "undoable"),
        line("undo apply", "u", '[["a", "11"]]', "20"),
        *(msgspec.structs.replace(good, key="r/u/1") if good.node == "u" else good for good in GOOD),
    ),
    "under a key that was taken back": (
        line("apply", "u", '[["a", "11"]]', "20", "undoable"),
        line("undo apply", "u", '[["a", "11"]]', "20"),
        *GOOD,
    ),
    "does not belong to the final values": (
        GOOD[0],
        line("apply", "u", '[["a", "10"]]', "20", "undoable"),
        *GOOD[2:],
    ),
    "nobody returned": GOOD[1:],
    "left of a past": (*GOOD, line("apply", "a/b", "[]", "44", "undoable")),
}


def test_the_judge_finds_nothing_wrong_where_nothing_is() -> None:
    assert judging.judge(PLAN, list(GOOD), RESULT) == []


@pytest.mark.parametrize("problem", WRONG)
def test_the_judge_finds_what_is_wrong(problem: str) -> None:
    assert any(problem in found for found in judging.judge(PLAN, list(WRONG[problem]), RESULT))


def test_random_plans_have_everything() -> None:
    made = [random_plans.random_plan(Random(seed)) for seed in range(FEW)]
    seen = [step for plan in made for step in plan.steps]
    assert {step.effect for step in seen} == {"none", "undoable", "irrevocable"}
    assert {step.way for step in seen} == {"plain", "threads", "async"}
    assert {plan.on_failure for plan in made} == {"keep", "undo"}
    assert any(step.alternatives for step in seen)
    assert any(step.parts > 1 for step in seen)
    assert any(parts == 0 for step in seen for _, parts in step.edges)
    assert any(step.size > 65_536 for step in seen)
    assert any(0 < step.raises <= step.retries for step in seen)
    assert any(plan.ballast for plan in made)


def test_a_value_that_was_mixed_up_is_noticed() -> None:
    with pytest.raises(AssertionError, match="damaged"):
        steps.tokens([steps.Value("a", "11", 0, steps.filler("12", 0, 100))])
