"""Ours, theirs and the physical limits, in turns: how a comparison is made.

In a round each side is measured once, and then the next round begins with another of them. Ratios are formed within a
round, between numbers that are seconds apart, because a shared machine is slower at one time than at another; shown are
their median and their spread. A ratio says how many times as much theirs needs as ours, in time or memory, even where
the numbers are rates: above 1, ours is the better one. For a limit it says how many times as much ours needs as that.

With `--processor` a number is what the processor did meanwhile for all processes of a side, which other work on the
machine changes less than it changes the time.

All programs are started before the first round and stay warm until the last. Work that is given as one amount is made
smaller for those who would need too long for it; the note says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
from collections.abc import Callable, Sequence

from bench import limits, programs
from bench.field import Contestant, Field
from bench.rows import Comparison, Line, Spread

WARM_UP = 2
"""Rounds that do not count."""
MOST_SECONDS = 5.0
"""How long a side may take in a round. If it would take longer, a smaller amount of work is measured: how much, a
hundredth of it shows, and then as much as fits into a tenth of the time. Both also warm up."""


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    name: str
    keeps: str
    measure: Callable[[], float] | None
    """The number of one round. None if it cannot be measured."""
    note: str = ""


def compared(
    what: str,
    unit: str,
    ours: Sequence[Side],
    peers: Sequence[Side],
    physical: Sequence[Side],
    rounds: int,
    *,
    is_rate: bool = False,
    warm_up: int = 0,
) -> Comparison:
    """Programs that are started for each number need a round that does not count, after which the system has read their
    files."""
    values, failures = alternated([*ours, *peers, *physical], warm_up + rounds)
    for side in ours:
        if side.name in failures:
            raise programs.Failed(f"{side.name}: {failures[side.name]}")
    values = {name: numbers[warm_up:] for name, numbers in values.items()}

    def ratios(above: Side, below: Side) -> Spread:
        pairs = zip(values[above.name], values[below.name], strict=True)
        return Spread.of([b / a if is_rate else a / b for a, b in pairs])

    def line(side: Side, against: dict[str, Spread]) -> Line:
        note = failures.get(side.name, side.note)
        return Line(side.name, side.keeps, Spread.of(values[side.name]) if side.name in values else None, against, note)

    own = [side for side in ours if side.name in values]
    return Comparison(
        what,
        unit,
        rounds,
        [line(side, {}) for side in ours],
        [line(side, {way.name: ratios(side, way) for way in own if side.name in values}) for side in peers],
        [line(side, {way.name: ratios(way, side) for way in own if side.name in values}) for side in physical],
    )


def alternated(sides: Sequence[Side], rounds: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """What each has measured, round by round, and why some have not: who fails once is left out from then on."""
    values: dict[str, list[float]] = {side.name: [] for side in sides if side.measure}
    failures: dict[str, str] = {}
    for number in range(rounds):
        first = number % len(sides)
        for side in (*sides[first:], *sides[:first]):
            if side.name not in values or side.measure is None:
                continue
            try:
                values[side.name].append(side.measure())
            except programs.Failed as failure:
                failures[side.name] = str(failure)
                del values[side.name]
    return values, failures


def latencies(field: Field, workload: str, what: str, runs: int, physical: Sequence[limits.Limit]) -> Comparison:
    """Milliseconds of a single run: the median of so many in a round."""

    def prepare(program: programs.Program, kind: str) -> tuple[Callable[[], float], str]:
        for _ in range(WARM_UP):
            program.ask(workload, runs, kind)
        if field.processor:
            return lambda: _used(program, workload, runs, kind) / runs * 1e3, ""
        return lambda: statistics.median(program.ask(workload, runs, kind)) * 1e3, ""

    return _served(field, what, "ms", prepare, physical, lambda seconds: seconds * 1e3, is_rate=False)


def rates(
    field: Field, workload: str, what: str, amount: int, size: int, unit: str, physical: Sequence[limits.Limit]
) -> Comparison:
    """So many units of work a second, where an amount is that many of a size in units."""

    def prepare(program: programs.Program, kind: str) -> tuple[Callable[[], float], str]:
        smaller = max(1, amount // 100)
        for allowed in (MOST_SECONDS / 10, MOST_SECONDS):
            seconds = sum(program.ask(workload, smaller, kind)) / smaller
            smaller = max(1, min(amount, int(allowed / seconds)))
        note = "" if smaller == amount else f"{smaller:,} of {amount:,} in a round"
        if field.processor:
            return lambda: smaller * size / _used(program, workload, smaller, kind), note
        return lambda: smaller * size / sum(program.ask(workload, smaller, kind)), note

    return _served(field, what, f"{unit}/s", prepare, physical, lambda seconds: 1 / seconds, is_rate=True)


Prepare = Callable[[programs.Program, str], tuple[Callable[[], float], str]]
"""(what measures one round, a note), for a program and a way to do it"""


def _served(
    field: Field,
    what: str,
    unit: str,
    prepare: Prepare,
    physical: Sequence[limits.Limit],
    number: Callable[[float], float],
    *,
    is_rate: bool,
) -> Comparison:
    if field.processor:
        what, unit, physical = f"{what} (of processor time)", f"{unit} of processor time", ()
    with contextlib.ExitStack() as stack:
        ours, *peers = [_sides(contestant, field, prepare, stack) for contestant in field.everyone]
        folder = field.new_folder()
        folder.mkdir()
        barriers = [Side(limit.name, "", _as(number, stack.enter_context(limit.opened(folder)))) for limit in physical]
        theirs = [side for sides in peers for side in sides]
        return compared(what, unit, ours, theirs, barriers, field.rounds, is_rate=is_rate)


def _used(program: programs.Program, workload: str, count: int, kind: str) -> float:
    """Seconds of the processor, in all of its processes."""
    before = program.processor_seconds()
    program.ask(workload, count, kind)
    return program.processor_seconds() - before


def _as(number: Callable[[float], float], seconds: limits.Measure) -> Callable[[], float]:
    return lambda: number(seconds())


def _sides(contestant: Contestant, field: Field, prepare: Prepare, stack: contextlib.ExitStack) -> list[Side]:
    """One for each way to do it. Of peers, who cannot be started is a side without numbers."""
    names = {kind: f"{contestant.name} {kind}".strip() for kind in contestant.kinds}
    if contestant.missing:
        return [Side(names[kind], keeps, None, contestant.missing) for kind, keeps in contestant.kinds.items()]
    try:
        program = stack.enter_context(field.start(contestant))
        prepared = {kind: prepare(program, kind) for kind in contestant.kinds}
    except programs.Failed as failure:
        if contestant is field.ours:
            raise
        return [Side(names[kind], keeps, None, str(failure)) for kind, keeps in contestant.kinds.items()]
    return [Side(names[kind], keeps, *prepared[kind]) for kind, keeps in contestant.kinds.items()]
