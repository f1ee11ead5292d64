"""Fibers: what saving and resuming one costs, and what being durable costs while it runs.

Everything is processor time of one thread; nothing is committed. "Small" is a function with four variables inside a
`for`. Resuming is loading a snapshot until the fiber waits again where it stood. A loop is compared with the same loop
in a plain function; both are driven by hand, without an event loop. Native and durable code take turns, and a ratio is
formed within a round.
"""

from __future__ import annotations

import functools
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.rows import Row
from bench.workloads._measuring import most
from onceflow import fiber
from onceflow.fibers import Fiber, Op

ROUNDS = 9
KEY = bytes(32)
SAVES = 300
PASSED = (10, 1_000, 100_000)
"""Awaits that lie behind a fiber when it is saved."""

MOST_ROUND_TRIP = 60.0
"""µs for saving and resuming a small fiber."""
MOST_GROWTH = 1.3
MOST_WITHOUT_AWAIT = 1.05
MOST_WITH_AWAIT = 1.3


@fiber
async def small(order: list[int], *, retries: int = 3) -> int:
    total = 0
    for item in order:
        total += item * await Op("price", item)
    return total + retries


@fiber
async def middle(order: list[int]) -> int:
    return await small(order)


@fiber
async def three(order: list[int]) -> int:
    return await middle(order)


@fiber
async def long(count: int) -> int:
    total = 0
    for number in range(count):
        total += await Op("next", number)
    return total


async def native_without(count: int) -> int:
    total = 0
    for number in range(count):
        if number % 3:
            total += number
        else:
            total -= 1
    await READY
    return total


async def native_with(count: int) -> int:
    total = 0
    for number in range(count):
        total += await READY
        if number % 3:
            total -= 1
    return total


class Ready:
    """An operation that has its result already: awaiting it costs the least that awaiting can."""

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        raise StopIteration(1)


READY: Any = Ready()
durable_without, durable_with = fiber(native_without), fiber(native_with)


def _micros(once: Callable[[], object], times: int = SAVES) -> list[float]:
    """Of one call, for each round."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        gc.collect()
        started = time.process_time()
        for _ in range(times):
            once()
        rounds.append((time.process_time() - started) / times * 1e6)
    return rounds


def _both(going: Fiber) -> tuple[list[float], list[float], list[float]]:
    saved = going.dumps()
    saving, resuming = _micros(going.dumps), _micros(lambda: Fiber.loads(saved))
    return saving, resuming, [sum(pair) for pair in zip(saving, resuming, strict=True)]


def _best(name: str, micros: list[float], limit: float | None) -> Row:
    """The best of the rounds: whatever else the machine does only ever adds."""
    held = limit is None or min(micros) <= limit
    return Row(name, min(micros), "µs", f"≤ {limit:g}" if limit else "", held, min(micros), max(micros), "best")


def _round_trips() -> list[Row]:
    rows: list[Row] = []
    for name, function, limit in (("small fiber", small, MOST_ROUND_TRIP), ("three functions deep", three, None)):
        going = Fiber.start(function([1, 2, 3]))
        saving, resuming, together = _both(going)
        rows.append(Row(f"{name}: size of its snapshot", len(going.dumps()), "bytes"))
        rows += [most(f"{name}: save", saving, "µs"), most(f"{name}: resume", resuming, "µs")]
        rows.append(_best(f"{name}: save and resume", together, limit))
        rows.append(most(f"{name}: save, signed", _micros(functools.partial(going.dumps, key=KEY)), "µs"))
        signed = functools.partial(Fiber.loads, going.dumps(key=KEY), key=KEY)
        rows.append(most(f"{name}: resume, signed", _micros(signed), "µs"))
    return rows


def _lengths() -> list[Row]:
    rows: list[Row] = []
    costs: list[float] = []
    for passed in PASSED:
        going = Fiber.start(long(2 * passed))
        for _ in range(passed):
            going.send(1)
        _, resuming, together = _both(going)
        costs.append(min(resuming))
        rows.append(most(f"after {passed:,} awaits: resume", resuming, "µs"))
        rows.append(most(f"after {passed:,} awaits: save and resume", together, "µs"))
    growth = costs[-1] / costs[0]
    name = f"resume, after {PASSED[-1]:,} against {PASSED[0]:,} awaits"
    rows.append(Row(name, growth, "×", f"≤ {MOST_GROWTH}", growth <= MOST_GROWTH))
    return rows


def _drive(coroutine: Any) -> None:
    try:
        while True:
            coroutine.send(None)
    except StopIteration:
        return


def _ratio(name: str, native: Any, durable: Any, count: int, limit: float) -> Row:
    """The best of each, as above."""
    times: dict[Any, list[float]] = {native: [], durable: []}
    for _ in range(3 * ROUNDS):
        for function in (native, durable):
            gc.collect()
            started = time.process_time()
            _drive(function(count))
            times[function].append(time.process_time() - started)
    ratio = min(times[durable]) / min(times[native])
    spread = [ours / theirs for ours, theirs in zip(times[durable], times[native], strict=True)]
    note = f"median of the rounds {statistics.median(spread):.2f}"
    return Row(name, ratio, "×", f"≤ {limit:g}", ratio <= limit, min(spread), max(spread), note)


def measure() -> list[Row]:
    return [
        *_round_trips(),
        *_lengths(),
        _ratio("loop without await, against native", native_without, durable_without, 200_000, MOST_WITHOUT_AWAIT),
        _ratio("loop with an await, against native", native_with, durable_with, 100_000, MOST_WITH_AWAIT),
    ]
