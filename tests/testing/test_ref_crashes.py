"""Refs, and a crash at every moment."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow import Ref, TaskFailed, current, put, task, workflow
from onceflow.testing import Ledger, MemoryEngine, crash_everywhere
from onceflow.values.packed_outputs import SMALL

world = Ledger()
large = "x" * (SMALL + 1)


@task.pure
def load() -> list[Ref[str]]:
    return [put("first"), put(large)]


@task(can_rollback=True)
def draw(found: list[Ref[str]]) -> list[Ref[str]]:
    """Not deterministic: another number each time it runs."""
    return [*found, put(f"drawn by attempt {current().attempt}")]


@task(can_rollback=True, checkpoint=False, deterministic=True)
def pass_on(found: list[Ref[str]]) -> dict[str, Ref[str]]:
    return {"first": found[0], "large": found[1], "drawn": found[2]}


def give_back(found: dict[str, Ref[str]], *, output: Any, key: str) -> None:
    assert found["first"].get() == "first"
    assert output is None or output.get() == "booked"
    world.take_back(key)


@task(rollback=give_back)
def book(found: dict[str, Ref[str]]) -> Ref[str]:
    world.enter(f"room for {found['first'].get()}, {len(found['large'].get())}")
    return put("booked")


@task
def charge(found: dict[str, Ref[str]], booked: Ref[str], given: Ref[str]) -> list[Any]:
    world.enter(f"{booked.get()}, {given.get()}, {found['drawn'].get()}")
    return [found["drawn"], booked.get()]


@task
def expand(found: dict[str, Ref[str]], booked: Ref[str], given: Ref[str]) -> Any:
    return charge.bind({**found, "mine": put("mine")}, booked, given)


@task.pure
def refuse(booked: Ref[str]) -> None:
    raise ValueError(booked.get())


@workflow
def trip(given: Ref[str]) -> Any:
    found = pass_on.bind(draw.bind(load.bind()))
    return expand.bind(found, book.bind(found), given)


def travel(engine: MemoryEngine) -> None:
    world.clear()
    drawn, booked = engine.run(trip.bind(put("given")))
    assert booked == "booked"
    world.assert_holds(f"room for first, {len(large)}", f"booked, given, {drawn.get()}")


def stay_at_home(engine: MemoryEngine) -> None:
    world.clear()
    with pytest.raises(TaskFailed):
        engine.run(refuse.bind(book.bind(pass_on.bind(draw.bind(load.bind())))), on_failure="undo")
    world.assert_holds()


def test_refs_survive_a_crash_at_every_moment() -> None:
    assert crash_everywhere(travel) > 20


def test_refs_survive_two_crashes_in_several_orders() -> None:
    crash_everywhere(travel, crashes=2, seeds=[1])


def test_an_undo_finds_the_refs_whatever_crashes_when() -> None:
    crash_everywhere(stay_at_home, crashes=2)
