"""What is tried again after a delay: tasks that raised, undos that did, and graphs that a handler wants tried again.

When that is due is written down with the failure, as a moment of the wall clock, so a crash does not make it longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceflow.core.model import commands, events
from onceflow.core.model.rows import Row
from onceflow.core.rules import ending
from onceflow.driver.hooks import Feature
from onceflow.values.handler_answers import Answer

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.history import History

Delay = tuple[float, float]
"""Seconds, and by which fraction of them chance makes it longer or shorter."""


class Delays(Feature):
    """Those of one driver."""

    def __init__(self, driver: Driver, past: History) -> None:
        super().__init__(driver, past)
        self._due = past.due
        """Node → when its next attempt may start. Of those that wait for it, or will when they are undone."""
        self._asked_for = past.delays
        """Node → what a handler asks for, of those that will wait for being tried again."""
        self._timers = 0
        self.until: dict[str, float] = {}
        """Node → when what raised, its attempt or its undo, is tried again, in seconds since 1970."""

    def __len__(self) -> int:
        return self._timers

    def ask_for(self, node: str, answer: Answer) -> None:
        self._asked_for[node] = (answer.delay, answer.jitter)

    def asked_for(self, node: str) -> Delay | None:
        return self._asked_for.get(node)

    def failed(self, node: str, failures: int) -> float:
        """When the task may be tried again."""
        due = self._due[node] = self._host.now() + self._after(self._driver.run.rows[node], failures)
        return due

    def ended(self, node: str) -> tuple[float, Delay]:
        """The same of the graph that it returned, and what was asked for."""
        delay = self._asked_for.get(node, (0.0, 0.0))
        due = self._due[node] = self._host.now() + self._by_chance(*delay)
        return due, delay

    def wait(self, command: commands.Wait) -> None:
        node, run = command.node, self._driver.run
        row = run.rows.get(node)
        if ending.is_pausing(run, command.attempt):
            seconds = self._by_chance(*self._asked_for.get(node, (0.0, 0.0)))
        elif row is not None:
            seconds = self._after(row, command.failures)
        else:
            seconds = 0.0  # it was dropped in the same step, with the graph that it was in
            self._due.pop(node, None)
            self._asked_for.pop(node, None)
        waits = row is not None and row.state == "backoff" and row.attempt == command.attempt
        if waits or ending.is_pausing(run, command.attempt):  # else it is an undo that waits
            due = self._due.pop(node, None)
            self._asked_for.pop(node, None)
            if due is not None:
                # The clock may have been set: never wait longer than the policy says.
                seconds = min(seconds, max(0.0, due - self._host.now()))
        if waits and row is not None and self._driver.launches.is_out_of_time(node, row.node.call.settings):
            seconds = 0.0  # it is started once more, and refused
        self._timers += 1
        self.until[node] = self._host.now() + seconds
        self._host.later(self._driver, seconds, lambda: self._elapse(command))

    def _elapse(self, command: commands.Wait) -> None:
        self._timers -= 1
        self.until.pop(command.node, None)
        self._driver.tell(events.Elapsed(command.node, command.attempt))

    def _after(self, row: Row, failures: int) -> float:
        """Seconds, as a handler or the retry policy says."""
        if row.id in self._asked_for and row.state == "backoff":
            return self._by_chance(*self._asked_for[row.id])
        seconds: float = row.node.call.retry.wait(failures, self._host.chance())
        return seconds

    def _by_chance(self, delay: float, jitter: float) -> float:
        return delay * (1 + jitter * (2 * self._host.chance() - 1))
