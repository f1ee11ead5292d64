"""Leases, simulated: whatever clocks, delays and failures there are, nothing of an engine runs when others go on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onceflow.storage.leases import RENEWALS, RESERVE, Holding

SECONDS = st.floats(1, 60)
OFFSETS = st.floats(-1e6, 1e6)
"""What a clock shows when the world begins: no two agree."""
RATES = st.floats(0.95, 1.05)
"""Of a clock: seconds it counts in one true second. Quartz is a thousand times better."""
DELAYS = st.tuples(st.floats(0, 30), st.floats(0, 30))
"""True seconds from the question to the database, and from there back. Either may be lost instead."""
ASKED = st.lists(st.tuples(st.floats(0, 20), DELAYS, st.sampled_from(["answered", "lost", "unheard"])), max_size=20)
"""When, after the question before, the engine asks again; how long that takes; what becomes of it."""


class Clock:
    def __init__(self, offset: float, rate: float) -> None:
        self.offset = offset
        self.rate = rate

    def at(self, true: float) -> float:
        return self.offset + self.rate * true

    def when(self, shown: float) -> float:
        """The true moment at which it shows this."""
        return (shown - self.offset) / self.rate


@given(SECONDS, st.builds(Clock, OFFSETS, RATES), st.builds(Clock, OFFSETS, RATES), ASKED)
def test_an_engine_has_stopped_before_its_lease_ends(
    seconds: float,
    engine: Clock,
    database: Clock,
    asked: list[tuple[float, tuple[float, float], str]],
) -> None:
    """The engine asks, sleeps, is slow, and gives up in time; the database grants until it is too late."""
    holding = Holding(seconds)
    holding.granted(engine.at(0))
    expires = database.at(0) + seconds  # it was asked at 0 and answered at once
    true, running_until = 0.0, engine.when(holding.stop_at)
    for pause, (there, back), fate in asked:
        true += pause
        if true >= running_until:
            break  # it has stopped, and asks for nothing more
        arrived = true + there
        if fate == "lost" or expires <= database.at(arrived):
            continue
        expires = database.at(arrived) + seconds
        if fate == "answered" and arrived + back < running_until:
            holding.granted(engine.at(true))
            running_until = engine.when(holding.stop_at)

    taken_over = database.when(expires)

    assert running_until <= taken_over


@given(SECONDS, st.floats(0, 1e6))
def test_a_lease_is_renewed_several_times_before_it_must_be_given_up(seconds: float, asked: float) -> None:
    holding = Holding(seconds)
    holding.granted(asked)

    assert asked < holding.renew_at < holding.stop_at < asked + seconds
    assert (holding.stop_at - asked) / (holding.renew_at - asked) > RENEWALS * (1 - RESERVE) - 0.001


@given(SECONDS, st.lists(st.floats(0, 1e6), min_size=1))
def test_an_answer_that_comes_late_does_not_shorten_the_lease(seconds: float, asked: list[float]) -> None:
    holding = Holding(seconds)
    for moment in asked:
        holding.granted(moment)

    assert holding.asked == max(asked)


def test_a_reserve_that_forgets_the_clocks_is_caught() -> None:
    """Given an engine whose clock is slow, had it counted to the very end of its lease, others would have gone on
    while it ran."""
    engine, database = Clock(0, 0.95), Clock(1e6, 1.05)

    too_late = engine.when(engine.at(0) + 10)

    assert too_late > database.when(database.at(0) + 10)
