"""Random programs: fibers as source text, and a judge of what they leave behind.

A program is a module with a few durable functions. Between awaits it depends on chance, on time and on the order of a
dictionary. Every effect has a label of its own, by where it stands and how often the program has come there; each
function returns the labels and values that it has seen. So in the end every effect must be there under one key, with
one value, and with the value that the result tells.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from random import Random
from typing import Any

from onceflow import current, task
from tests.helpers.traces import note, traces

LARGEST = 5
"""Statements of a block."""

DEEPEST = 3


class Trouble(Exception):
    """What tasks raise that raise."""


@task
def effect(folder: str, label: str, value: float) -> list[Any]:
    note(f"{folder}/effects", json.dumps([label, current().key, value]))
    return [label, value]


@task.pure
def same(value: Any) -> Any:
    return value


@task(can_rollback=True)
def trouble(value: Any) -> Any:
    raise Trouble(value)


def chance() -> float:
    """Something that is different each time."""
    drawn = {os.urandom(2).hex(): random.random(), str(time.time_ns()): time.time() % 1}
    return sum(drawn[key] for key in sorted(drawn)) + float(next(iter({random.random() for _ in range(3)})))


HEAD = """
from onceflow import fiber, sleep, task, wait_event
from onceflow.fibers import call, fork, gather, join, on, spawn_limit, timeout
from tests.fibers.programs import Trouble, chance, effect, same, trouble


@task.pure
def told(logs):
    return [entry for log in logs for entry in log]
"""


class _Writer:
    def __init__(self, chance: Random, helpers: list[str]) -> None:
        self._chance = chance
        self._helpers = helpers
        """Functions that may be called."""
        self._count = 0
        self.lines: list[str] = []

    def function(self, name: str) -> None:
        self.lines += ["", "", "@fiber", f"async def {name}(folder, at):", "    log = []", "    kept = chance()"]
        self._block(1, [])
        self.lines.append("    return log")

    def _label(self, loops: list[str]) -> str:
        self._count += 1
        return "f'{at}/" + "".join(f"{{{loop}}}." for loop in loops) + f"{self._count}'"

    def _block(self, depth: int, loops: list[str]) -> None:
        for _ in range(self._chance.randint(1, LARGEST)):
            self._statement(depth, loops)

    def _add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def _statement(self, depth: int, loops: list[str]) -> None:
        label = self._label(loops)
        simple = [self._effect, self._held, self._same, self._sleep, self._event, self._gather, self._ignored]
        if self._helpers:
            simple += [self._call, self._child, self._fork]
        nested = [self._for, self._try, self._if, self._timeout] if depth < DEEPEST else []
        self._chance.choice(simple + nested)(depth, loops, label)

    def _effect(self, depth: int, loops: list[str], label: str) -> None:
        value = self._chance.choice(["chance()", "kept", "await same.call(chance())"])
        self._add(depth, f"log.append(await effect.call(folder, {label}, {value}))")

    def _held(self, depth: int, loops: list[str], label: str) -> None:
        node = f"node{self._count}"
        self._add(depth, f"{node} = effect.bind(folder, {label}, chance())")
        if self._chance.random() < 0.5:
            self._statement(depth, loops)
        self._add(depth, f"log.append(await {node})")

    def _same(self, depth: int, loops: list[str], label: str) -> None:
        self._add(depth, "kept = await same.call(kept + chance())")

    def _sleep(self, depth: int, loops: list[str], label: str) -> None:
        self._add(depth, f"await sleep({self._chance.choice([0, 0.01, 0.05])})")

    def _event(self, depth: int, loops: list[str], label: str) -> None:
        self._add(
            depth,
            "number = await call(wait_event('number', int, timeout=0.03, default=-1))",
            f"log.append(await effect.call(folder, {label}, number + kept))",
        )

    def _gather(self, depth: int, loops: list[str], label: str) -> None:
        second = self._label(loops)
        calls = [f"effect.call(folder, {label}, chance())", f"effect.call(folder, {second}, kept)"]
        if self._helpers:
            calls.append(f"{self._chance.choice(self._helpers)}(folder, {self._label(loops)})")
            self._add(
                depth, f"first, second, third = await gather({', '.join(calls)})", "log += [first, second, *third]"
            )
        else:
            self._add(depth, f"log += await gather({', '.join(calls)})")

    def _ignored(self, depth: int, loops: list[str], label: str) -> None:
        self._add(depth, "with on(Trouble).ignore(7):", "    kept += await trouble.call('ignored')")
        self._add(depth + 1, f"log.append(await effect.call(folder, {label}, kept))")

    def _call(self, depth: int, loops: list[str], label: str) -> None:
        self._add(depth, f"log += await {self._chance.choice(self._helpers)}(folder, {label})")

    def _child(self, depth: int, loops: list[str], label: str) -> None:
        self._add(depth, f"log += await {self._chance.choice(self._helpers)}.call(folder, {label})")

    def _fork(self, depth: int, loops: list[str], label: str) -> None:
        child = f"child{self._count}"
        self._add(depth, f"{child} = await fork({self._chance.choice(self._helpers)}, folder, {label})")
        if self._chance.random() < 0.5:
            self._statement(depth, loops)
        self._add(depth, f"log += await join({child})")

    def _for(self, depth: int, loops: list[str], label: str) -> None:
        loop = f"i{self._count}"
        self._add(depth, f"for {loop} in range({self._chance.randint(1, 2)}):")
        self._block(depth + 1, [*loops, loop])

    def _if(self, depth: int, loops: list[str], label: str) -> None:
        self._add(depth, "if await same.call(kept) > 1:")
        self._block(depth + 1, loops)
        self._add(depth, "else:")
        self._block(depth + 1, loops)

    def _try(self, depth: int, loops: list[str], label: str) -> None:
        self._add(depth, "try:")
        self._block(depth + 1, loops)
        self._add(depth + 1, "await trouble.call(kept)")
        self._add(depth, "except Trouble as error:", "    kept = error.args[0] + 1")
        self._block(depth + 1, loops)
        if self._chance.random() < 0.5:
            self._add(depth, "finally:")
            self._block(depth + 1, loops)

    def _timeout(self, depth: int, loops: list[str], label: str) -> None:
        self._add(depth, "async with timeout(10_000):")
        self._block(depth + 1, loops)


def write(seed: int) -> str:
    """A module with a fiber `main(folder, at)`."""
    chance = Random(seed)
    text = [HEAD]
    helpers: list[str] = []
    for number in range(chance.randint(0, 2)):
        writer = _Writer(chance, list(helpers))
        writer.function(f"helper{number}")
        text += writer.lines
        helpers.append(f"helper{number}")
    writer = _Writer(chance, helpers)
    writer.function("main")
    return "\n".join([*text, *writer.lines, ""])


def judge(folder: Path, result: list[list[Any]]) -> None:
    """Raises if an effect is there that is not part of the result, or twice, or missing."""
    seen: dict[str, tuple[str, float]] = {}
    for line in traces(folder / "effects"):
        label, key, value = json.loads(line)
        first = seen.setdefault(label, (key, value))
        assert first == (key, value), f"{label} is there as {first} and as {(key, value)}"
    told = dict(map(tuple, result))
    assert len(told) == len(result), "the result tells an effect twice"
    assert told == {label: value for label, (_, value) in seen.items()}
