"""A crash at every moment: the same scenario once for each moment at which the engine can die.

A scenario is a function that is given a new engine, runs something with it, and asserts what it likes. It runs once
without a crash, which counts the moments: before and after each commit, each attempt and each undo. Then it runs once
for each of them. Everything is deterministic, so up to its crash each of these lives is the same as the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from onceflow.testing.kit.engine import MemoryEngine

Scenario = Callable[[MemoryEngine], object]


class CrashPoint(msgspec.Struct, frozen=True):
    """A moment of a scenario at which the engine dies, or several, one after the other."""

    numbers: tuple[int, ...]
    """Which of all moments, counted from 1."""
    places: tuple[str, ...]
    """The same for users."""
    seed: int | None = None

    def engine(self) -> MemoryEngine:
        """A new engine that will die there, and go on."""
        return MemoryEngine(seed=self.seed, crashes=self.numbers)

    def __str__(self) -> str:
        where = ", then ".join(self.places) if self.places else "nowhere"
        return where if self.seed is None else f"{where} (seed {self.seed})"


def crash_everywhere(scenario: Scenario, *, crashes: int = 1, seeds: Iterable[int | None] = (None,)) -> int:
    """Runs the scenario again and again, with a crash at each moment at which there can be one. Returns how often.

    What the scenario raises, if it does, says where the crash was and what happened. With `crashes=2` there is a
    second crash as well, at every later moment: that is, while the engine recovers from the first. `seeds` does all of
    it once for each seed (see `MemoryEngine`): other orders have other moments.

        def scenario(engine):
            bank.clear()
            assert engine.run(trip.bind("ann", "Rome")) == "booked"
            bank.assert_holds("a room", "a payment")

        crash_everywhere(scenario)
    """
    __tracebackhide__ = True
    lives = 0
    for seed in seeds:
        plans = [CrashPoint((), (), seed)]
        while plans:
            plan = plans.pop()
            moments = _live(scenario, plan)
            lives += 1
            if len(plan.numbers) < crashes:
                plans += reversed(_further(plan, moments))
    return lives


def crash_points(scenario: Scenario, *, seeds: Iterable[int | None] = (None,)) -> list[CrashPoint]:
    """The moments of a scenario at which there can be a crash, to make a test of each.

    @pytest.mark.parametrize("point", crash_points(scenario), ids=str)
    def test_a_trip_survives_a_crash(point):
        scenario(point.engine())
    """
    plans = [CrashPoint((), (), seed) for seed in seeds]
    return [point for plan in plans for point in _further(plan, _live(scenario, plan))]


def _further(plan: CrashPoint, moments: list[str]) -> list[CrashPoint]:
    """The same with one more crash, at each moment after the last one."""
    first = plan.numbers[-1] if plan.numbers else 0
    return [
        CrashPoint((*plan.numbers, number), (*plan.places, moments[number - 1]), plan.seed)
        for number in range(first + 1, len(moments) + 1)
    ]


def _live(scenario: Scenario, plan: CrashPoint) -> list[str]:
    """Runs the scenario once. Returns the moments that were reached."""
    __tracebackhide__ = True
    engine = plan.engine()
    try:
        scenario(engine)
        if not plan.numbers:
            engine.assert_faults_happened()
    except BaseException as error:
        when = f"This was with a crash {plan}" if plan.numbers else "This was without any crash"
        error.add_note(f"{when}. What happened:\n{engine.story}")
        raise
    finally:
        engine.close()
    moments = engine.moments
    if plan.numbers and (len(moments) < plan.numbers[-1] or moments[plan.numbers[-1] - 1] != plan.places[-1]):
        raise AssertionError(
            f"the scenario does not do the same each time: it should have crashed {plan}, and never came there. Give "
            f"it a new world for each life, and let nothing in it depend on chance or real time.\n{engine.story}"
        )
    return moments
