"""What a schedule is to do now."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onceflow.engine.schedules import firing
from onceflow.engine.schedules.definitions import Definition, State
from onceflow.engine.schedules.rules import At, Cron, Every, Rule

DEFINITION = Definition(
    rule=Every(10.0),
    zone="UTC",
    start=None,
    end=None,
    delay=0.0,
    catch_up="latest",
    overlap="allow",
    limit=3,
    workflow="w",
    module="m",
    qualname="w",
    code=b"",
    interpreter="",
    arguments=b"",
    shown="",
    on_failure="keep",
    timeout=None,
    metadata=None,
)
NEW = State(created=100.0, cursor=100.0)


def fired(definition: Definition, now: float, state: State = NEW, open: tuple[str, ...] = ()) -> list[float]:
    """The instants that are fired until there is nothing to do. Each run ends at once."""
    found = []
    while (step := firing.decide(definition, state, now, open)) is not None:
        state = step.state
        if step.fire is not None:
            found.append(step.fire)
    return found


def after(definition: Definition, now: float, state: State = NEW, open: tuple[str, ...] = ()) -> State:
    step = firing.decide(definition, state, now, open)
    assert step is not None
    return step.state


def changed(**changes: Any) -> Definition:
    return replace(DEFINITION, **changes)


def test_nothing_is_fired_before_its_time() -> None:
    assert firing.decide(DEFINITION, NEW, 109.9, ()) is None


def test_an_instant_is_fired_when_it_comes_and_never_again() -> None:
    state = after(DEFINITION, 110.0)
    assert (state.last, state.cursor, state.fired) == (110.0, 110.0, 1)
    assert firing.decide(DEFINITION, state, 119.0, ()) is None


def test_a_clock_that_is_put_back_fires_nothing_twice() -> None:
    state = after(DEFINITION, 110.0)
    assert fired(DEFINITION, 50.0, state) == []
    assert fired(DEFINITION, 110.0, state) == []
    assert fired(DEFINITION, 120.0, state) == [120.0]


def test_of_those_that_were_missed_the_latest_is_made_up_for() -> None:
    assert fired(changed(catch_up="latest"), 10_005.0) == [10_000.0]


def test_all_that_were_missed_are_made_up_for_within_the_limit() -> None:
    assert fired(changed(catch_up="all"), 125.0) == [110.0, 120.0]
    assert fired(changed(catch_up="all"), 10_005.0) == [9_980.0, 9_990.0, 10_000.0]


def test_none_that_was_missed_is_made_up_for() -> None:
    rule = Every(1000.0)
    assert fired(changed(catch_up="none", rule=rule), 1000.0 + firing.LATE) == [1000.0]
    assert fired(changed(catch_up="none", rule=rule), 1000.1 + firing.LATE) == []
    assert after(changed(catch_up="none", rule=rule), 1000.1 + firing.LATE).cursor == 1000.0


def test_what_comes_while_a_run_goes_on_is_skipped() -> None:
    state = after(changed(overlap="skip"), 110.0, open=("run",))
    assert (state.fired, state.skipped, state.cursor) == (0, 1, 110.0)
    assert fired(changed(overlap="skip"), 110.0, state) == []
    assert fired(changed(overlap="skip"), 120.0, state) == [120.0]


def test_what_comes_while_a_run_goes_on_waits_for_its_turn() -> None:
    definition = changed(overlap="queue")
    state = after(definition, 120.0, after(definition, 110.0, open=("run",)), open=("run",))
    assert state.queue == (110.0, 120.0)
    assert firing.decide(definition, state, 125.0, ("run",)) is None

    step = firing.decide(definition, state, 125.0, ())

    assert step is not None
    assert (step.fire, step.state.queue) == (110.0, (120.0,))
    assert fired(definition, 130.0, state) == [110.0, 120.0, 130.0]


def test_no_more_wait_than_the_limit() -> None:
    definition, state = changed(overlap="queue"), NEW
    for now in (110.0, 120.0, 130.0, 140.0, 150.0):
        state = after(definition, now, state, open=("run",))
    assert (state.queue, state.skipped) == ((110.0, 120.0, 130.0), 2)


def test_those_that_were_missed_wait_as_well() -> None:
    definition = changed(catch_up="all", overlap="queue")
    assert fired(definition, 10_005.0) == [9_980.0, 9_990.0, 10_000.0]
    assert after(definition, 10_005.0, open=("run",)).queue == (9_980.0, 9_990.0, 10_000.0)


def test_a_paused_schedule_does_nothing() -> None:
    assert firing.decide(DEFINITION, replace(NEW, paused=True, queue=(50.0,)), 1000.0, ()) is None
    assert firing.due(DEFINITION, replace(NEW, paused=True)) is None


def test_start_and_end_are_bounds() -> None:
    definition = changed(start=130.0, end=150.0, catch_up="all")
    assert fired(definition, 1000.0) == [130.0, 140.0]
    assert firing.due(definition, NEW) == 130.0
    assert firing.due(definition, replace(NEW, cursor=140.0)) is None


def test_a_delayed_schedule_fires_later_for_the_same_instants() -> None:
    definition = changed(delay=2.5)
    assert firing.due(definition, NEW) == 112.5
    assert fired(definition, 112.4) == []
    assert fired(definition, 112.5) == [110.0]


def test_a_moment_that_has_passed_is_fired_once() -> None:
    definition = changed(rule=At(50.0))
    state = after(definition, 100.0, replace(NEW, cursor=49.0))
    assert (state.last, firing.due(definition, state)) == (50.0, None)


RULES: list[Rule] = [Every(1.0), Every(7.0, 3.0), Cron("*/5 * * * * *"), Cron("* * * * *")]


@given(
    st.sampled_from(RULES),
    st.sampled_from(["none", "latest", "all"]),
    st.sampled_from(["skip", "queue", "allow"]),
    st.lists(st.tuples(st.floats(-300.0, 300.0), st.booleans()), max_size=20),
)
def test_whatever_the_clock_does_no_instant_is_fired_twice(
    rule: Rule, catch_up: str, overlap: str, looks: list[tuple[float, bool]]
) -> None:
    definition = changed(rule=rule, catch_up=catch_up, overlap=overlap)
    state, now, found = NEW, NEW.created, []
    for jump, busy in looks:
        now = max(0.0, now + jump)
        while (step := firing.decide(definition, state, now, ("run",) if busy else ())) is not None:
            assert step.state.cursor >= state.cursor
            assert len(step.state.queue) <= definition.limit
            state = step.state
            if step.fire is not None:
                found.append(step.fire)
    assert found == sorted(set(found))
    assert all(instant > NEW.created for instant in found)
    assert state.fired == len(found)
