"""The decision of a schedule for now. Pure: state and time in, the next state and the firings out.

The *cursor* is the instant until which everything has been decided. Those after it that have come are looked at
together:

- `catch_up` says which of them count. Several have come at once, or one came long ago, only if no engine was there.
  With `"all"` the last `limit` of them count, with `"latest"` the last one, with `"none"` the last one if it is not
  late.
- `overlap` says what becomes of those that count while a run of the schedule goes on. With `"allow"` they are fired,
  with `"skip"` they are not, with `"queue"` they wait for their turn: one at a time, `limit` at the most.

The cursor only grows, whatever happens to the clock. If that is put back nothing is fired twice, and nothing at all
until it has come to where it was.
"""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import replace

from onceflow.engine.schedules import rules
from onceflow.engine.schedules.definitions import Definition, State

LATE = 60.0
"""Seconds after which an instant counts as missed."""


class Step(msgspec.Struct, frozen=True):
    state: State
    """The state of the schedule after it."""
    fire: float | None
    """The instant for which a run is to be created in it, if any."""


def decide(definition: Definition, state: State, now: float, open: tuple[str, ...]) -> Step | None:
    """The next thing to do; None if there is nothing to do now. `open` are its runs that go on. Ask again after each
    step: several instants are several steps."""
    if state.paused:
        return None
    come = _come(definition, state, now)
    chosen = _chosen(definition, come, now)
    state = replace(state, open=open, cursor=come[-1] if come else state.cursor)
    match definition.overlap:
        case "queue":
            return _queue(definition, state, chosen, any_came=bool(come))
        case "skip" if open and chosen:
            return Step(replace(state, skipped=state.skipped + len(chosen)), None)
        case _ if chosen:
            return _fire(replace(state, cursor=chosen[0]), chosen[0])
    return Step(state, None) if come else None


def _come(definition: Definition, state: State, now: float) -> list[float]:
    """The last ones of those that have come, as many as may count."""
    wanted = definition.limit if definition.catch_up == "all" else 1
    after, until = state.cursor, now - definition.delay
    if definition.start is not None:
        after = max(after, math.nextafter(definition.start, -math.inf))
    if definition.end is not None:
        until = min(until, math.nextafter(definition.end, -math.inf))
    return rules.last_until(definition.rule, after, until, wanted) if after < until else []


def _chosen(definition: Definition, come: list[float], now: float) -> list[float]:
    if definition.catch_up == "none":
        return [instant for instant in come if now - instant - definition.delay <= LATE]
    return come


def _queue(definition: Definition, state: State, chosen: list[float], *, any_came: bool) -> Step | None:
    waiting = (*state.queue, *chosen)
    if waiting and not state.open:
        return _fire(_wait(definition, state, waiting[1:]), waiting[0])
    return Step(_wait(definition, state, waiting), None) if any_came else None


def _wait(definition: Definition, state: State, waiting: tuple[float, ...]) -> State:
    kept = waiting[: definition.limit]
    return replace(state, queue=kept, skipped=state.skipped + len(waiting) - len(kept))


def _fire(state: State, instant: float) -> Step:
    return Step(replace(state, fired=state.fired + 1, last=instant, problem=None), instant)


def due(definition: Definition, state: State) -> float | None:
    """When there is something to do; None if never."""
    if state.paused:
        return None
    if state.queue:
        return state.queue[0]
    instant = next_instant(definition, state.cursor)
    return None if instant is None else instant + definition.delay


def next_instant(definition: Definition, after: float) -> float | None:
    if definition.start is not None:
        after = max(after, math.nextafter(definition.start, -math.inf))
    instant = rules.next_after(definition.rule, after)
    return None if instant is None or (definition.end is not None and instant >= definition.end) else instant
