"""Variations of the schedules that once broke the law (tests/core/found): a fuzzer whose seeds are written by hand.

Random schedules (`tests.tools.simulation`) rarely meet the corners that need ten steps in the right order: a graph
that ended in a transaction that is taken back, say. The tests in `found` stand in such corners, each of them with the
smallest graph and the shortest script that leads there. What is wrong near a bug that was found is often wrong in the
same way, a step further. So a variation follows one of these scripts, and disturbs it:

- 1 to 9 *disturbances* are inserted at random places, sometimes all at the same one: an answer of a handler, a failure,
  a deadline, a loss, a save that fails, a crash that some attempts survive, a cancellation. Each is chosen among those
  that fit the state of the run at this moment, because a script is played leniently, and steps that are not possible
  would be left out.
- Some outputs hold refs or actors that they do not hold in the original, or are large.
- The rest of the script is sometimes cut off after the last disturbance, and sometimes more of them follow its end.
- The run keeps or undoes what is done when it fails, and compares its state with the definitions or not (what it
  computes for that may hide a mark that is out of date).

The judge of the simulation watches every step. What breaks the law is a script already: the lines that were played. It
is made small and printed as a test for tests/core/found, where it is the origin of further variations.

A seed plays one variation of every schedule. Seed and name of the schedule determine the variation, so what a seed
plays of one schedule stays the same when tests are added to `found`.

    python -m tests.core.variations --seconds 300 --fresh
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, product
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from onceflow.core.model.graph import Graph
from tests.tools.simulation.attempts import Attempt
from tests.tools.simulation.bulk import RULES, Rule
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver, OnFailure
from tests.tools.simulation.notation import write
from tests.tools.simulation.script import Player, _label, _label_save, play_script
from tests.tools.simulation.shrinking import Find, kind_of, shrink, what_breaks
from tests.tools.simulation.story import Story
from tests.tools.simulation.world import Violation

FOUND = Path(__file__).with_name("found")
FEWEST_SCHEDULES = 200
"""With fewer of them, the collection does not understand the tests any more."""
DISTURBANCES = (1, 2, 2, 3, 4, 6, 9)
"""How many disturbances a variation has, one as likely as the other."""


# -- the schedules -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Schedule:
    """One call of `play_script` in tests/core/found."""

    name: str
    """Module and function of the test, and which of its calls this is."""
    graph: Graph
    script: tuple[str, ...]
    on_failure: OnFailure


@cache
def collect() -> tuple[Schedule, ...]:
    """The schedules of tests/core/found, each once. Calls the tests with a `play_script` that only takes notes; tests
    that want fixtures are left out."""
    found: dict[tuple[str, tuple[str, ...], OnFailure], Schedule] = {}
    for path in sorted(FOUND.glob("test_*.py")):
        module = importlib.import_module(f"tests.core.found.{path.stem}")
        if hasattr(module, "play_script"):
            for schedule in _schedules_of(module):
                found.setdefault((write(schedule.graph), schedule.script, schedule.on_failure), schedule)
    if len(found) < FEWEST_SCHEDULES:
        raise AssertionError(f"only {len(found)} schedules were found in {FOUND}, expected {FEWEST_SCHEDULES} or more")
    return tuple(found.values())


def _schedules_of(module: ModuleType) -> Iterator[Schedule]:
    for name, test in vars(module).copy().items():
        if not name.startswith("test_") or not inspect.isfunction(test):
            continue
        noted: list[Schedule] = []

        def note(
            graph: Graph,
            script: str | Iterable[str],
            *,
            on_failure: OnFailure = "keep",
            told: str = f"{module.__name__.rpartition('.')[2]}.{name}",
            noted: list[Schedule] = noted,
            **_: Any,
        ) -> Any:
            lines = script.splitlines() if isinstance(script, str) else script
            steps = tuple(filter(None, map(str.strip, lines)))
            noted.append(Schedule(f"{told}#{len(noted)}", graph, steps, on_failure))
            return mock.ANY  # equal to whatever status the test expects

        with mock.patch.object(module, "play_script", note):
            for arguments in arguments_of(test):
                with suppress(Exception, pytest.fail.Exception):  # what else a test shows is not our concern
                    test(**arguments)
        yield from noted


def arguments_of(test: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """What pytest calls the test with, once for each set of its parameters; nothing if it wants fixtures."""
    choices: list[list[dict[str, Any]]] = []
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names, values = mark.args
            names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
            rows = [_values_of(value, len(names)) for value in values]
            choices.append([dict(zip(names, row, strict=True)) for row in rows])
    for chosen in product(*choices):
        arguments = {name: value for each in chosen for name, value in each.items()}
        if arguments.keys() == inspect.signature(test).parameters.keys():
            yield arguments


def _values_of(value: Any, names: int) -> Iterable[Any]:
    if isinstance(value, type(pytest.param())):
        return value.values
    return value if names > 1 else [value]


# -- the disturbances --------------------------------------------------------------------------------------------------


def disturbances(driver: Driver, rng: Random) -> list[str]:
    """Steps that fit the present state, the likely ones several times. Some are several lines."""
    if driver.over is not None:
        return ["resume"] * 3 + [f"resume again {node}" for node in driver.rows] + ["commit\ncrash\nresume"]
    return [
        *_about_running_tasks(driver, rng),
        *_about_other_attempts(driver),
        *_about_time(driver, rng),
        *_about_outputs(driver, rng),
        *_about_the_engine(driver, rng),
    ]


def _about_running_tasks(driver: Driver, rng: Random) -> Iterator[str]:
    aside = list(driver.structure.aside)
    for row in driver.run.rows.values():
        if row.state != "running":
            continue
        yield f"finish {row.id}"
        yield f"finish {row.id} large"
        yield f"fail {row.id} for good"
        yield f"answer {row.id}"
        yield f"lose running {row.id}"
        for depth in range(1, row.scope.depth + 1):
            yield f"answer {row.id} for {depth}"
            yield f"answer {row.id} for {depth} again"
            yield f"answer {row.id} for {depth} failing -1"
        if aside:
            yield from [f"finish {row.id} joining {rng.choice(aside)}"] * 2
        if rng.random() < 0.2:
            yield f"finish {row.id} holding new"
        if rng.random() < 0.3:
            yield f"fail {row.id}{rng.choice(['', ' again'])}"
        if rng.random() < 0.3:
            yield f"fail {row.id} unstarted{rng.choice(['', ' for good', ' again'])}"


def _about_other_attempts(driver: Driver) -> Iterator[str]:
    """Undos, private attempts, and those that were stopped or lost."""
    for name, attempt in _names(driver.active):
        if attempt.kind == "undo":
            yield from [f"undone {name}", f"undone {name}", f"undo {name} fails"]
        elif attempt.state in ("silent", "stopping"):
            yield from [f"end {name}", f"end {name} unstarted", f"finish {name}", f"fail {name} for good"]
            yield f"withdraw {name}"
        elif attempt.kind == "private":
            yield from [f"finish {name}", f"fail {name} for good"]
    for waiting in driver.waiting:
        if waiting.attempt is not None and waiting.attempt.kind == "undo":
            yield f"undone {_label(waiting.attempt)}"


def _names(attempts: Iterable[Attempt]) -> Iterator[tuple[str, Attempt]]:
    """Each with its name in a script."""
    alike: dict[str, int] = {}
    for attempt in attempts:
        label = _label(attempt)
        number = alike[label] = alike.get(label, 0) + 1
        yield (label if number == 1 else f"{label}#{number}"), attempt


def _about_time(driver: Driver, rng: Random) -> Iterator[str]:
    for row in driver.run.rows.values():
        if row.scope.depth > 0 and rng.random() < 0.15:
            yield f"expire {row.id} at {rng.randint(1, row.scope.depth)}"
    for timer in driver.timers:
        yield f"elapse {timer.node}"


def _about_outputs(driver: Driver, rng: Random) -> Iterator[str]:
    for node, row in driver.rows.items():
        for part in range(row.memory.bit_length()):
            if row.memory >> part & 1 and rng.random() < 0.4:
                yield f"lose {node}.{part}"
    for saving in driver.saves:
        name = _label_save(saving)
        yield from [f"save {name}"] * 2
        if rng.random() < 0.2:
            yield f"save {name} fails{rng.choice(['', ' for good', ' for good'])}"


def _about_the_engine(driver: Driver, rng: Random) -> Iterator[str]:
    yield from ["crash", "commit\ncrash", "commit\ncrash", "commit 1\ncrash"]
    living = [name for name, attempt in _names(driver.active) if attempt.state != "ended"]
    if living:
        yield f"commit\ncrash keeping {rng.choice(living)}"
    if rng.random() < 0.1:
        yield rng.choice(["cancel with undo", "cancel with undo", "cancel"])
    if rng.random() < 0.1:
        yield f"commit\ncrash asleep\n{rng.choice(['cancel', 'cancel with undo'])}"


# -- the variations ----------------------------------------------------------------------------------------------------


def _vary(script: tuple[str, ...], driver: Driver, rng: Random) -> Iterator[str]:
    """The lines of a variation. Each is made when the ones before it have been played."""

    def disturb() -> list[str]:
        return rng.choice(disturbances(driver, rng)).splitlines()

    places = sorted(rng.randint(0, len(script)) for _ in range(rng.choice(DISTURBANCES)))
    if rng.random() < 0.3:
        places = places[:1] * len(places)
    end = places[-1] if rng.random() < 0.3 else len(script)
    changing = rng.choice([0, 0, 0.2, 0.6])
    for place in range(end + 1):
        for _ in range(places.count(place)):
            yield from disturb()
        if place < end:
            line = script[place]
            yield _with_other_output(line, driver, rng) if rng.random() < changing else line
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 6)):
            yield from disturb()


def _with_other_output(line: str, driver: Driver, rng: Random) -> str:
    """The same step, but the output of the task holds refs, or is large."""
    verb, _, rest = line.partition(" ")
    if verb != "finish" or " holding" in line:
        return line
    row = driver.run.rows.get(rest.split()[0])
    held = ["new", "new new"]
    if row is not None:
        held += [f"{parent.id}.{n}" for parent, mask in row.parents for n in range(mask.bit_length()) if mask >> n & 1]
        if any(consumer.node.takes for consumer, *_ in row.consumers):
            held += ["actor"] * 3
    if " joining" not in line:
        line += f" holding {rng.choice(held)}"
    return f"{line} large" if rng.random() < 0.3 else line


def play(schedule: Schedule, seed: int, rule: Rule = "right") -> Find | None:
    """Plays the variation of the schedule that the seed stands for. Returns it if it breaks the law.

    A wrong rule is judged by its consequences alone, and caught only by what the right one does not come to as well: a
    judge who does not look at the letter condemns every run that is stuck."""
    rng = Random(f"{seed} {schedule.name}")
    on_failure = schedule.on_failure
    if rng.random() < 0.1:
        on_failure = "undo" if on_failure == "keep" else "keep"
    validate = rng.random() < 0.7 and rule == "right"
    driver = Driver(schedule.graph, RULES[rule], on_failure, validate, Checker(rule == "right"), Story())
    played: list[str] = []

    def lines() -> Iterator[str]:
        for line in _vary(schedule.script, driver, rng):
            played.append(line)
            yield line

    try:
        Player(driver).play(lines())
    except Exception as error:
        find = Find(schedule.graph, tuple(played), on_failure, str(error), rule, validate)
        reason = what_breaks(find)
        if reason is None:
            raise  # not the law: the variation could not be made
        return replace(find, reason=reason) if rule == "right" or _right_rule_holds(find) else None
    return None


def _right_rule_holds(find: Find) -> bool:
    try:
        play_script(find.graph, find.script, on_failure=find.on_failure, validate=False, letter=False)
    except Violation:
        return False
    return True


# -- the hunt ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Caught:
    """A variation that breaks the law."""

    schedule: Schedule
    seed: int
    find: Find

    def describe(self, *, most: int = 20_000) -> str:
        """What it is, and a test that plays it, made small with at most so many tries."""
        find = self.find
        if not find.validate:
            strict = replace(find, validate=True)
            reason = what_breaks(strict)
            if reason is not None and kind_of(reason) == kind_of(find.reason):
                find = replace(strict, reason=reason)
        only = "" if find.validate else " It needs `validate=False`."
        return (
            f"seed {self.seed} breaks the law in a variation of {self.schedule.name}:\n{self.find.reason}\n\n"
            f"The same as a test (tests/core/found).{only}\n\n"
            f"{shrink(find, most=most).as_test(f'variation_{self.seed}')}"
        )


@dataclass(slots=True)
class Tally:
    """What has been played, and the first violation of each kind."""

    plays: int = 0
    violations: int = 0
    kinds: dict[str, Caught] = field(default_factory=dict)


def hunt(seeds: Iterable[int], *, seconds: float | None = None, most: int = 10, rule: Rule = "right") -> Tally:
    """Plays a variation of every schedule for each of the seeds, until the time is over or `most` kinds of violations
    have been found."""
    tally = Tally()
    ends = None if seconds is None else time.monotonic() + seconds
    for seed, schedule in ((seed, schedule) for seed in seeds for schedule in collect()):
        if len(tally.kinds) >= most or (ends is not None and time.monotonic() > ends):
            break
        tally.plays += 1
        find = play(schedule, seed, rule)
        if find is not None:
            tally.violations += 1
            tally.kinds.setdefault(kind_of(find.reason), Caught(schedule, seed, find))
    return tally


def fresh_seed() -> int:
    """A seed made of date and time."""
    return int(time.strftime("%y%m%d%H%M%S", time.gmtime())) * 1_000


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if the law held, 1 if it was broken, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.core.variations", description="Plays variations of the schedules in tests/core/found."
    )
    parser.add_argument("--seconds", type=float, default=60, help="play for so long (60)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--fresh", action="store_true", help="the first seed is made of date and time, and is printed")
    parser.add_argument("--most", type=int, default=10, help="stop after so many kinds of violations (10)")
    parser.add_argument("--rule", choices=tuple(RULES), default="right", help="the right one, or a wrong one")
    chosen = parser.parse_args(arguments)
    first = fresh_seed() if chosen.fresh else chosen.first
    print(f"{len(collect())} schedules, seeds from {first}", flush=True)
    began = time.monotonic()
    try:
        tally = hunt(count(first), seconds=chosen.seconds, most=chosen.most, rule=chosen.rule)
        spent = time.monotonic() - began
        print(f"{tally.plays:,} variations in {spent:.1f} s ({tally.plays / spent:,.0f}/s)", flush=True)
        for caught in tally.kinds.values():
            print(f"\n{caught.describe()}", flush=True)
    except KeyboardInterrupt:
        print("stopped")
        return 130
    print(f"{tally.violations} broke the law." if tally.kinds else "No violation.")
    return 1 if tally.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
