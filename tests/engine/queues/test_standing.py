"""Who may have the next place in a queue."""

from __future__ import annotations

from typing import Any

from onceflow.engine.queues.decision import PATIENCE, Decision, Share, Slot, State, decide
from onceflow.engine.queues.limits import Limits, read_rate
from onceflow.engine.queues.order import Waiting, Wish


def wish(number: int, run: str = "run", *, key: str = "", priority: int = 0, since: float | None = None) -> Wish:
    return Wish(number, "q", run, f"task_{number}", key, priority, float(number) if since is None else since)


def waiting(*wishes: Wish) -> Waiting:
    found = Waiting()
    for each in wishes:
        found.add(each)
    return found


def slot(key: str = "") -> Slot:
    return Slot("run", "task", key, 0.0)


def asked(wishes: Waiting, before: State | None = None, *held: Slot, now: float = 100.0, **limits: Any) -> Decision:
    return decide(Limits(**limits), before or State(), "me", "here", held, wishes, now)


def numbers(decision: Decision) -> list[int]:
    return [each.number for each in decision.admitted]


def test_as_many_have_a_place_as_the_concurrency_allows() -> None:
    decision = asked(waiting(wish(1), wish(2), wish(3)), None, slot(), concurrency=2)
    assert numbers(decision) == [1]
    assert len(decision.state.shares["me"].slots) == 2
    assert "2 may go on at a time" in decision.blocked


def test_places_of_other_engines_count() -> None:
    there = State({"other": Share("there", (slot(), slot()))})
    assert numbers(asked(waiting(wish(1), wish(2)), there, concurrency=3)) == [1]


def test_a_host_counts_all_engines_that_it_has() -> None:
    there = State({"other": Share("there", (slot(),)), "beside": Share("here", (slot(),))})
    assert numbers(asked(waiting(wish(1), wish(2)), there, per_host=2)) == [1]


def test_a_key_that_is_full_lets_others_pass() -> None:
    wishes = waiting(wish(1, key="a"), wish(2, key="a"), wish(3, key="b"))
    assert numbers(asked(wishes, None, per_key=1)) == [1, 3]


def test_higher_priorities_go_first_then_runs_take_turns() -> None:
    wishes = waiting(wish(1, "a"), wish(2, "a"), wish(3, "b"), wish(4, "c", priority=1))
    assert numbers(asked(wishes, None, concurrency=4)) == [4, 1, 3, 2]


def test_a_paused_queue_admits_nobody() -> None:
    decision = asked(waiting(wish(1)), None, paused=True)
    assert (numbers(decision), decision.blocked) == ([], "it is paused")


def test_a_rate_lets_a_burst_go_and_then_one_by_one() -> None:
    rate, wishes = read_rate("2/m", "q"), waiting(*[wish(number) for number in range(1, 6)])
    first = asked(wishes, None, rate=rate)
    assert (numbers(first), first.again) == ([1, 2], 30.0)
    assert numbers(asked(wishes, first.state, now=129.0, rate=rate)) == []
    later = asked(wishes, first.state, now=130.0, rate=rate)
    assert numbers(later) == [3]


def test_a_clock_that_was_set_back_gives_no_tokens_and_takes_none() -> None:
    rate, wishes = read_rate("1/m", "q"), waiting(wish(1), wish(2))
    first = asked(wishes, None, rate=rate)
    again = asked(wishes, first.state, *first.state.shares["me"].slots, now=50.0, rate=rate)
    assert numbers(again) == []
    assert numbers(asked(wishes, again.state, *first.state.shares["me"].slots, now=110.0, rate=rate)) == [2]


def test_a_place_is_left_to_somebody_elsewhere_who_is_before() -> None:
    there = State({"other": Share("there", (), 1, (-5, 10.0))})
    wishes = waiting(wish(1))
    decision = asked(wishes, there, concurrency=1)
    assert numbers(decision) == []
    assert decision.state.offered is not None
    assert decision.ring == {"other"}
    # Somebody who does not come cannot, and others go.
    late = asked(wishes, decision.state, now=100.0 + PATIENCE, concurrency=1)
    assert numbers(late) == [1]


def test_who_is_before_those_elsewhere_does_not_wait_for_them() -> None:
    there = State({"other": Share("there", (), 1, (0, 50.0))})
    assert numbers(asked(waiting(wish(1)), there, concurrency=1)) == [1]


def test_those_who_wait_elsewhere_are_called_when_a_place_is_free() -> None:
    before = State({"me": Share("here", (slot(),)), "other": Share("there", (), 1, (0, 50.0))})
    assert asked(waiting(), before, concurrency=1).ring == {"other"}


def test_an_engine_that_has_nothing_leaves_no_trace() -> None:
    before = State({"me": Share("here", (slot(),))})
    assert asked(waiting(), before, concurrency=1).state.shares == {}
