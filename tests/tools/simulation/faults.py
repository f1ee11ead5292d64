"""What goes wrong in a schedule: attempts raise, handlers answer, saves fail, workers and engines die, people cancel.

Every schedule has its own taste for faults: some kinds never happen in it, and some happen often. Schedules that are
each rich in a few kinds of faults meet more corners than schedules that all have a little of everything. Favoured are
the moments at which rules have been found wrong: a crash in the middle of a recovery, soon after another one, or
between the saves of one output; a loss of what is just being saved; the end of a graph while one around it, or within
it, is about to end; a saga that fails at its very end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onceflow.core.checks.definitions import each
from onceflow.core.model import events
from onceflow.core.rules import starting
from tests.tools.simulation.attempts import Attempt

if TYPE_CHECKING:
    from tests.tools.simulation.schedule import Simulation

Step = Callable[[], None]
STORM = 3
"""Crashes that may follow each other closely, beyond the budget."""


class Faults:
    """The faults of one schedule. `shared`: objects are shared by refs, and are lost to all that share them."""

    def __init__(self, simulation: Simulation, *, shared: bool, budget: int | None) -> None:
        random = simulation.random
        self._simulation = simulation
        self._driver = simulation.driver
        self._random = random
        self.count = 0
        self._budget = random.choice((0, 1, 2, 3, 4, 6, 8, 12, 16)) if budget is None else budget
        self._rate = random.choice((0.03, 0.1, 0.3))
        self._cancels = random.choice((0, 0, 1, 2))
        self._handlers = random.random() < 0.7
        """Do handlers answer for some of what is raised?"""
        self._hopeless = random.choice((0.1, 0.3, 1.0))
        """How many of the saves that fail do so for good."""
        self._storm = STORM if self._budget and random.random() < 0.25 else 0
        """How many crashes may still follow close upon something delicate."""
        self._ends_badly = bool(self._budget) and random.random() < 0.2
        """Does the run fail at its very end, when as much as can be is built on everything?"""
        self._since_crash = 1_000
        """Steps since the last crash."""
        self._kinds: list[tuple[float, Callable[[], Step | None]]] = [
            (weight * random.choice((0, 1, 1, 1, 4)), kind)
            for weight, kind in (
                (2, self._raise),
                (2, self._answer),
                (3, self._answer_for),
                (1, self._expire),
                (2, self._fail_save),
                (1, self._fail_undo),
                (2, self._lose_worker),
                (1, self._lose_output),
                (2, self._lose_what_is_being_saved),
                (2 if shared else 0, self._lose_object),
                (1, self._lose_everything),
                (1, self._crash),
                (1, self._crash_between_saves),
                (1, self._cancel),
                (1, self._crash_and_cancel),
                (1, self._limit),
                (1, self._nonsense),
            )
        ]

    def next(self) -> Step | None:
        """The fault that happens now, if one does."""
        self._since_crash += 1
        if self._storm and self._is_delicate() and self._random.random() < 0.2:
            self._storm -= 1
            self.count += 1
            return self._simulation.crash
        if self._ends_badly and (last := self._attempt_of_sink()) is not None:
            self._ends_badly = False
            self.count += 1
            return lambda: self._driver.fail(last, permanent=True)
        if self._budget <= 0 or self._random.random() >= self._rate:
            return None
        kinds = [(weight, kind) for weight, kind in self._kinds if weight]
        while kinds:
            place = self._random.choices(range(len(kinds)), [weight for weight, _ in kinds])[0]
            step = kinds.pop(place)[1]()
            if step is not None:
                self.count += 1
                self._budget -= 1
                return step
        return None

    def crashed(self) -> None:
        """The engine has just died."""
        self._since_crash = 0

    def _is_delicate(self) -> bool:
        """Something is taken back or ended, or the engine has just died."""
        return self._since_crash < 10 or bool(self._driver.appended.recovering or self._driver.closing)

    def _running(self, *kinds: str) -> list[Attempt]:
        return [a for a in self._driver.active if a.state == "running" and a.kind in kinds]

    def _answerable(self) -> list[Attempt]:
        """What a handler may be asked about: also something irrevocable that was told to stop."""
        attempts = [a for a in self._driver.active if a.kind == "run" and a.node in self._driver.run.rows]
        return [a for a in attempts if a.state == "running" or self._driver.counts(a)]

    def _attempt_of_sink(self) -> Attempt | None:
        graph = self._driver.graph
        sink = graph.nodes[graph.sink].id
        return next((attempt for attempt in self._running("run") if attempt.node == sink), None)

    # Attempts, and what handlers say

    def _raise(self) -> Step | None:
        running = self._running("run", "private")
        if not running:
            return None
        attempt = self._simulation.pick(running)
        permanent = attempt.kind == "run" and self._random.random() < 0.2
        again = attempt.kind == "run" and self._handlers and self._random.random() < 0.2
        may_be_late = attempt.kind == "run" and attempt.effectful and not attempt.landed
        started = not may_be_late or self._random.random() < 0.7
        self._simulation.remember(events.Raised(attempt.node, attempt.number, permanent, again, started))
        return lambda: self._driver.fail(attempt, permanent, again, started)

    def _answer(self) -> Step | None:
        """An attempt raises, and a handler gives an output."""
        raising = self._answerable()
        if not raising or not self._handlers:
            return None
        attempt = self._simulation.pick(raising)
        small = self._random.random() < 0.5
        self._simulation.remember(events.Finished(attempt.node, attempt.number, None, small, handled=True))
        return lambda: self._driver.answer(attempt, small)

    def _answer_for(self) -> Step | None:
        """An attempt raises, and a handler answers for a graph around it: that is tried again, or ends."""
        raising = self._answerable()
        if not raising or not self._handlers:
            return None
        attempt = self._simulation.pick(raising)
        depth = self._driver.run.rows[attempt.node].scope.depth
        ends = self._random.randrange(depth + 1)
        again = ends > 0 and self._random.random() < 0.3
        if again:
            failed = ends
        elif self._random.random() < 0.4 or ends == depth == 0:
            failed, ends = -1, depth
        else:
            failed = max(1, ends + self._random.randrange(2)) if depth else -1
            failed = min(failed, depth)
        small = self._random.random() < 0.5
        self._simulation.remember(events.Ends(attempt.node, attempt.number, failed, ends, again, small))
        return lambda: self._driver.answer_for(attempt, failed, ends, again, small)

    def _expire(self) -> Step | None:
        """The time of a returned graph is over, sometimes while one around it, or within it, is about to end."""
        nested = [row for row in self._driver.run.rows.values() if row.scope.depth and row.id in self._driver.rows]
        if not nested or not self._handlers:
            return None
        closed = [row for row in nested if row.scope.closed]
        row = self._simulation.pick(closed if closed and self._random.random() < 0.5 else nested)
        ends = 1 + self._random.randrange(row.scope.depth)
        small = self._random.random() < 0.5
        return lambda: self._driver.expire(row.id, ends, small)

    def _fail_undo(self) -> Step | None:
        running = self._running("undo")
        if not running:
            return None
        undo = self._simulation.pick(running)
        return lambda: self._driver.end_undo(undo, succeeded=False)

    def _fail_save(self) -> Step | None:
        if not self._driver.saves:
            return None
        saving = self._simulation.pick(self._driver.saves)
        for_good = self._random.random() < self._hopeless
        return lambda: self._driver.save(saving, "impossible" if for_good else "failed")

    # Losses

    def _in_memory(self) -> list[events.Part]:
        return [
            (node, part)
            for node, row in self._driver.rows.items()
            for part in each(row.memory | (row.private.every_part if row.private else 0))
        ]

    def _lose_output(self) -> Step | None:
        parts = self._in_memory()
        return self._lose([self._simulation.pick(parts)], []) if parts else None

    def _lose_what_is_being_saved(self) -> Step | None:
        saved = {(saving.attempt.node, saving.part) for saving in self._driver.saves}
        parts = [part for part in self._in_memory() if part in saved]
        return self._lose([self._simulation.pick(parts)], []) if parts else None

    def _lose_object(self) -> Step | None:
        """One object is lost to all that share it."""
        by_object: dict[events.Part, list[events.Part]] = {}
        for part in self._in_memory():
            by_object.setdefault(self._driver.made_as(*part), []).append(part)
        shared = [parts for parts in by_object.values() if len(parts) > 1]
        return self._lose(self._simulation.pick(shared), []) if shared else None

    def _lose_worker(self) -> Step | None:
        parts = [part for part in self._in_memory() if self._random.random() < 0.5]
        attempts = [a for a in self._running("run", "private", "undo") if self._random.random() < 0.5]
        return self._lose(parts, attempts) if parts or attempts else None

    def _lose_everything(self) -> Step | None:
        parts, attempts = self._in_memory(), self._running("run", "private", "undo")
        return self._lose(parts, attempts) if parts or attempts else None

    def _lose(self, parts: list[events.Part], attempts: list[Attempt]) -> Step:
        """A save of a lost part may still complete, or fail, or never be heard of again."""
        driver = self._driver
        driver.saves = [
            saving
            for saving in driver.saves
            if (saving.attempt.node, saving.part) not in parts or self._random.random() < 0.5
        ]
        return lambda: driver.lose(parts, attempts)

    # The engine, and people

    def _crash(self) -> Step | None:
        return self._simulation.crash

    def _crash_between_saves(self) -> Step | None:
        """The engine dies when an output is saved in part."""
        saved = self._driver.durable.saved
        torn = any(saving.attempt.node in saved for saving in self._driver.saves)
        return self._simulation.crash if torn else None

    def _cancel(self) -> Step | None:
        if not self._cancels or self._driver.run.status != "running":
            return None
        self._cancels -= 1
        undo = self._random.random() < 0.5
        return lambda: self._deliver(events.Cancel(undo))

    def _crash_and_cancel(self) -> Step | None:
        if not self._cancels or self._driver.run.status != "running":
            return None
        self._cancels -= 1
        undo = self._random.random() < 0.5
        return lambda: self._simulation.crash_and_cancel(undo)

    def _limit(self) -> Step | None:
        groups = sorted(starting.groups_of(self._driver.run))
        if not groups:
            return None
        event = events.Limit(self._simulation.pick(groups), 1 + self._random.randrange(3))
        return lambda: self._deliver(event)

    def _deliver(self, event: events.Event) -> None:
        self._driver.deliver(event)

    def _nonsense(self) -> Step | None:
        """Something that cannot have happened: an attempt that was never started, a node that does not exist."""
        node = self._simulation.pick(list(self._driver.rows))
        never = (self._driver.epoch + 1) << 48
        nonsense: list[events.Event] = [
            events.Finished(node, never),
            events.Raised(node, never),
            events.Undone(node, never),
            events.Saved(node, 0, never),
            events.Finished("nowhere", 1),
        ]
        event = self._simulation.pick(nonsense)
        return lambda: self._driver.deliver_nonsense(event)
