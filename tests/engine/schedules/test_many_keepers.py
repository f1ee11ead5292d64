"""Several engines fire the same schedules, and die at any moment. Time is virtual; the journal is a real file, which
each of them has opened for itself."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from onceflow.engine.handles import Completion, Feed
from onceflow.engine.runtime.host import Redirected
from onceflow.engine.schedules import declaration
from onceflow.engine.schedules.clock import ROUND, Keeper
from onceflow.engine.schedules.definitions import Definition, state_of
from onceflow.engine.schedules.management import Manager
from onceflow.engine.schedules.rules import iso
from onceflow.engine.submission import Settings, Submission
from onceflow.storage import journal
from onceflow.storage.journal import Claim, CreateRun, Request, RunRow, SetStatus
from onceflow.storage.memory import MemoryHome
from tests.engine.schedules import flows
from tests.storage.common import quick

BEGIN = 1_000_000.0
HOUR = 3600
AFTERWARDS = 120
"""Seconds in which what is left is done."""


class Killed(BaseException):
    """An engine is no more."""


class World:
    """A clock, chance, and the engines that live."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.now = BEGIN
        self.chance = random.Random(seed)
        self.living: list[Life] = []
        self.numbers = itertools.count(1)
        self.races = self.deaths = 0

    def start(self) -> None:
        self.living.append(Life(self, f"engine-{next(self.numbers)}"))

    def let(self, life: Life) -> None:
        """It looks, and may die of it."""
        if life.looking or life not in self.living:
            return
        life.looking = True
        try:
            wait = life.keeper.look()
            life.wakes = self.now + min(ROUND, ROUND if wait is None else max(0.0, wait))
        except Killed:
            self.kill(life)
        finally:
            life.looking = False

    def kill(self, life: Life) -> None:
        self.deaths += 1
        self.living.remove(life)
        life.journal.close()


class Life:
    """An engine, as far as schedules know it: its runs do nothing. `keeping.Runs`."""

    def __init__(self, world: World, id: str) -> None:
        self.world = world
        self.id = id
        self.journal = quick(world.folder)
        self.keeper = Keeper(self.journal, self, lambda: None)
        self.wakes = world.now
        self.looking = False

    def prepare(self, node: object, *, name: str, definition: Definition, metadata: dict[str, Any]) -> Submission:
        run = f"run-{next(self.world.numbers)}"
        opening: list[Request] = [
            CreateRun(run, name, "w", "d", b"graph", b"settings", owner=self.id, status="running", fresh=True)
        ]
        return Submission(run, name, None, Settings(), None, opening)  # type: ignore[arg-type]

    def begin(self, submission: Submission, feed: Feed | None = None) -> Completion:
        completion = Completion(submission.run, submission.name)
        self._fate()
        if self.world.chance.random() < 0.2:  # somebody else comes in between
            self.world.races += 1
            self.world.let(self.world.chance.choice(self.world.living))
        if not journal.commit(self.journal, submission.opening).ok:
            completion.end(None, Redirected())
            return completion
        self._fate()
        journal.commit(self.journal, [SetStatus(submission.run, 1, "succeeded")])
        self._fate()
        completion.accept()
        return completion

    def can_be_driven(self, row: RunRow) -> bool:
        return all(life.id != row.owner for life in self.world.living)

    def go_on(self, row: RunRow) -> None:
        journal.commit(self.journal, [Claim(row.id, self.id, row.epoch), SetStatus(row.id, row.epoch + 1, "succeeded")])
        self._fate()

    def now(self) -> float:
        return self.world.now

    def _fate(self) -> None:
        if self.world.chance.random() < 0.01:
            raise Killed


def declare(world: World, **options: Any) -> None:
    home = MemoryHome()
    life = Life(world, "nobody")
    home.journal = life.journal  # type: ignore[assignment]
    given = {
        "args": (),
        "kwargs": {},
        "cron": None,
        "every": 1,
        "at": None,
        "zone": "UTC",
        "start": None,
        "end": None,
        "jitter": 0.0,
        "catch_up": "all",
        "limit": 1000,
        "on_failure": "keep",
        "timeout": None,
        "metadata": None,
        "queue": None,
        "priority": 0,
    }
    definition = declaration.define("a", flows.telling, **given | options)  # type: ignore[arg-type]
    Manager(home, life, lambda: None).declare("a", definition)
    life.journal.close()


@pytest.mark.parametrize("overlap", ["queue", "allow"])
def test_a_schedule_every_second_for_an_hour_fires_3600_times_whoever_dies(tmp_path: Path, overlap: str) -> None:
    world = World(tmp_path, seed=8)
    end = BEGIN + HOUR
    declare(world, overlap=overlap, end=end + 0.5)
    change = BEGIN  # when the next engine is started or killed

    while world.now < end + AFTERWARDS:
        if world.now >= change:
            change = world.now + world.chance.expovariate(1 / 15)
            if not world.living or (len(world.living) < 3 and world.chance.random() < 0.6):
                world.start()
            else:
                world.kill(world.chance.choice(world.living))
        awake = [life for life in world.living if life.wakes <= world.now]
        if awake:
            world.let(world.chance.choice(awake))
        else:
            world.now = min([change, *[life.wakes for life in world.living]])

    store = quick(tmp_path)
    rows = store.list_runs(limit=None)
    row = store.get_standing("schedule", "a")
    assert row is not None
    assert sorted(str(row.name) for row in rows) == [f"a@{iso(BEGIN + second)}" for second in range(1, HOUR + 1)]
    assert state_of(row).fired == HOUR
    assert world.deaths > 50
    assert world.races > 100
    for life in world.living:
        life.journal.close()
    store.close()
