"""Prefix replay (design 6.2): whatever part of a run's journal a crash leaves, another engine goes on from there, comes
to the same end, and every effect is there once.

A run is recorded together with its ledger. For every prefix of its journal a home is made that has this prefix and
nothing else, of an engine that is dead, and the ledger is what the world had seen by then: early (what the last record
allows has not happened yet) or late (it has, and so has an undo whose record was not written any more).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from onceflow import Engine
from onceflow.core.model import records
from onceflow.core.run import attempt_name
from onceflow.driver import entries
from onceflow.storage.blobs import Blobs
from onceflow.storage.home import BLOBS, Home
from onceflow.storage.journal import AppendEntries, Claim, CreateRun, Entry, Request, RunRow, SetStatus, commit
from tests.tools.chaos import judging, ledger, lives, random_plans, steps
from tests.tools.chaos.ledger import Ledger, Line
from tests.tools.chaos.plans import FOREVER, Plan, Step, all_steps

DEAD = "dead"
"""An engine that has no lock, so it is no more."""
LARGE = 70_000


def step(name: str, effect: Any, *edges: tuple[int, int], saved: bool = True, **others: Any) -> Step:
    settings = {"deterministic": False, "retries": 0, "parts": 1} | others
    return Step(name, effect, checkpoint=saved, edges=edges, **settings)


ALL_EFFECTS = Plan(
    (
        step("a", "none", size=LARGE),
        step("b", "none", (0, 1), saved=False, deterministic=True, size=LARGE),
        step("u", "undoable", (1, 1), retries=1, raises=1, late=True),
        step("v", "undoable", (0, 1), saved=False, deterministic=True, parts=2),
        step("w", "none", (3, 1)),
        step("x", "undoable", (0, 1), saved=False),
        step("n", "irrevocable", (2, 1), (4, 1)),
        step("z", "irrevocable", (6, 1), (5, 0)),
    ),
    "keep",
    ballast=LARGE,
)
UNDONE = Plan(
    (
        step("a", "none"),
        step("u", "undoable", (0, 1), size=LARGE),
        step("v", "undoable", (1, 1), retries=1, raises=1),
        step("w", "none", (2, 1), raises=FOREVER),
        step("z", "none", (3, 1)),
    ),
    "undo",
)
KEPT = Plan(
    (
        step("u", "undoable"),
        step("n", "irrevocable", (0, 1)),
        step("v", "undoable", saved=False),
        step("w", "none", (1, 1), (2, 1), raises=FOREVER),
    ),
    "undo",
)
NESTED = Plan(
    (
        step(
            "e",
            "none",
            alternatives=(
                (
                    step("p", "undoable"),
                    step("q", "irrevocable", (0, 1)),
                    step(
                        "r",
                        "none",
                        (1, 1),
                        saved=True,
                        alternatives=((step("s", "undoable", size=LARGE), step("t", "irrevocable", (0, 1))),),
                    ),
                ),
            ),
        ),
        step(
            "f",
            "none",
            (0, 1),
            saved=False,
            deterministic=True,
            alternatives=((step("g", "none", saved=False, deterministic=True),),),
        ),
        step("z", "irrevocable", (1, 1)),
    ),
    "keep",
)
PLANS = {"all effects": ALL_EFFECTS, "undone": UNDONE, "kept": KEPT, "nested": NESTED}


class Recorded:
    """A run that came to its end, with everything that is known about it."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        ledger.create(folder)
        self.home = folder / "recorded"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Blobs, "delete", lambda self, reference: None)  # earlier prefixes need what is dropped later
            self.outcome = self._live(self.home)
        self.lines = read_lines(folder)
        self._effects = {line.node: line.detail for line in self.lines if line.what == "apply"}
        with Home(self.home) as home:
            row = home.journal.find_name(lives.NAME)
            assert row is not None
            self.row: RunRow = row
            with home.journal.load(row.id) as loaded:
                self.graph, self.settings = loaded.graph, loaded.settings
                self.entries: list[Entry] = list(loaded.entries)
            self.records = [entries.record_of(entry, home.blobs.read) for entry in self.entries]

    def resume(self, home: Path) -> lives.Outcome:
        return self._live(home)

    def _live(self, home: Path) -> lives.Outcome:
        node = steps.bind(self.plan, str(self.folder), steps.OWN)
        with Engine(home, workers=1, durability="process", preload=[steps.__name__]) as engine:
            return lives._outcome(engine, node, self.plan, "resume")

    def write_home(self, path: Path, count: int) -> None:
        """A home that has the first so many entries."""
        shutil.rmtree(path, ignore_errors=True)
        with Home(path, durability="process") as home:
            row = self.row
            requests: list[Request] = [
                CreateRun(
                    row.id, row.name, row.workflow, row.digest, self.graph, self.settings, owner=DEAD, status="running"
                )
            ]
            requests += [Claim(row.id, DEAD, epoch) for epoch in range(1, row.epoch)]
            requests.append(AppendEntries(row.id, row.epoch, self.entries[:count]))
            match self.records[count - 1] if count else None:
                case records.Finished(status):  # written in the same commit
                    requests.append(SetStatus(row.id, row.epoch, status))
            assert commit(home.journal, requests).ok
        shutil.rmtree(path / BLOBS)
        shutil.copytree(self.home / BLOBS, path / BLOBS)

    def lines_at(self, count: int, *, late: bool) -> list[Line]:
        """What the world had seen when the journal had so many entries."""
        seen: list[Line] = []
        done = self.records[:count]
        last = done[-1] if done else None
        begun = {(record.node, attempt_name(record.attempt)) for record in done if isinstance(record, records.Begun)}
        if not late and isinstance(last, records.Begun):
            begun.discard((last.node, attempt_name(last.attempt)))
        nodes = {node for node, _ in begun}
        known = self.records[: count + 1] if late else done
        undone = [record.node for record in known if isinstance(record, records.Undone)]
        failed = [record.node for record in done if isinstance(record, records.Failed)]
        undos: dict[str, int] = {}
        raised: dict[str, int] = {}
        for line in self.lines:
            attempt = (line.node, line.attempt)
            match line.what:
                case "undo begin" | "undo apply" | "undo return":
                    undos[line.node] = undos.get(line.node, 0) + (line.what == "undo begin")
                    if undos[line.node] <= undone.count(line.node):
                        seen.append(line)
                case "raise":
                    raised[line.node] = raised.get(line.node, 0) + 1
                    if raised[line.node] <= failed.count(line.node):
                        seen.append(line)
                case _ if line.node in self._effects:
                    # Of an irrevocable task only the first attempt is recorded.
                    if attempt in begun or (self._effects[line.node] == "irrevocable" and line.node in nodes):
                        seen.append(line)
                case _:  # nobody outside sees it
                    seen.append(line)
        return seen


def read_lines(folder: Path) -> list[Line]:
    world = Ledger(str(folder))
    try:
        return [line for line in world.lines() if line.what != "outcome"]
    finally:
        world.close()


def write_lines(folder: Path, lines: list[Line]) -> None:
    """Makes the ledger anew, with these lines."""
    for file in folder.glob(f"{ledger.LEDGER}*"):
        file.unlink()
    shutil.rmtree(folder / ledger.LOCKS)
    ledger.create(folder)
    world = Ledger(str(folder))
    try:
        for line in lines:
            inputs = msgspec.json.decode(line.inputs) if line.inputs else None
            world.write(
                line.what, line.node, line.attempt, line.key, inputs=inputs, token=line.token, detail=line.detail
            )
    finally:
        world.close()


def replay_all(recorded: Recorded) -> None:
    together = sum(entry.kind == entries.BUFFER for entry in recorded.entries)  # in the commit that makes the run
    for count in range(together, len(recorded.entries) + 1):
        early, late = recorded.lines_at(count, late=False), recorded.lines_at(count, late=True)
        replay(recorded, count, early)
        if late != early:
            replay(recorded, count, late)


def replay(recorded: Recorded, count: int, seen: list[Line]) -> None:
    home = recorded.folder / "home"
    recorded.write_home(home, count)
    write_lines(recorded.folder, seen)
    outcome = recorded.resume(home)
    lines = read_lines(recorded.folder)
    told = [*map(str, recorded.records[:count]), "--", *map(str, lines), "--", str(outcome)]
    problems = judging.judge(recorded.plan, lines, outcome)
    assert not problems, "\n".join([f"after {count} entries:", *problems, "--", *told])
    if not any(len(step.alternatives) > 1 for _, step in all_steps(recorded.plan.steps)):  # else it may end otherwise
        assert outcome.status == recorded.outcome.status, "\n".join(told)
        assert set(outcome.kept) == set(recorded.outcome.kept), "\n".join(told)


@pytest.mark.parametrize("name", PLANS)
def test_every_prefix_of_a_journal_leads_to_the_same_end(name: str, tmp_path: Path) -> None:
    recorded = Recorded(PLANS[name], tmp_path)
    assert recorded.outcome.status == {"undone": "undone", "kept": "failed"}.get(name, "succeeded")
    replay_all(recorded)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_that_holds_for_random_graphs(seed: int, tmp_path: Path) -> None:
    replay_all(Recorded(random_plans.random_plan(Random(seed)), tmp_path))
