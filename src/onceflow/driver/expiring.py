"""Graphs for which a fiber waits no longer than the time of its block (design 2.11): they end when that is over.

The fiber waits for the outcome of the graph, which stands aside, and the wait knows the moment. When it has come, the
graph is ended as the law says (2.8), with an error for its outcome, and the fiber gets that as it gets every other.
Fibers in the graph have the same deadline, and are told by themselves; so they are given time to clean up first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onceflow.core import events
from onceflow.core.rows import Row, Scope
from onceflow.driver.answering import Answering
from onceflow.driver.cancelling import TIME
from onceflow.values import packing
from onceflow.values.failures import dump

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver

NOTHING = packing.dump(None)


class Expiring:
    """Of one driver."""

    def __init__(self, driver: Driver, answering: Answering) -> None:
        self._driver = driver
        self._answering = answering
        self._told: dict[str, Scope] = {}
        """Child → the graph of which core was told."""

    def end(self, child: str, now: float, deadline: float) -> bool:
        """The time of the graph whose outcome this is was over at the deadline. Whether core was told just now."""
        row = self._driver.run.rows.get(child)
        scope = None if row is None else _graph_of(row)
        if scope is None or self._told.get(child) is scope or self._driver.run.status != "running":
            return False
        if now < deadline + TIME and any(_is_going_on(row) for row in self._rows_in(scope)):
            return False
        assert row is not None
        self._told[child] = scope
        error = late(scope.expander)
        self._driver.raised_last[scope.expander] = dump(error, "the engine")
        self._answering.give_later(scope.expander, [NOTHING, packing.dump(error)])
        self._driver.tell(events.Expired(row.parents[0][0].id, scope.depth))
        return True

    def _rows_in(self, scope: Scope) -> Iterator[Row]:
        return (row for row in self._driver.run.rows.values() if row.scope.is_in(scope))


def _graph_of(child: Row) -> Scope | None:
    """The graph whose result a child reads, if it is there. (Until then the task that returns it has a limit.)"""
    scope = child.parents[0][0].scope
    if scope.depth <= child.scope.depth:
        return None
    while scope.outer is not None and scope.depth > child.scope.depth + 1:
        scope = scope.outer
    return scope


def _is_going_on(row: Row) -> bool:
    """Whether it is a fiber that may want to clean up."""
    return row.state != "done" and row.node.call is not None and row.node.call.settings.fiber


def late(node: str) -> TimeoutError:
    """What counts as raised by what was not done in time."""
    return TimeoutError(f"{node} was not done when the time of the `async with timeout(…)` around it was over")


def deadline_of(row: Row) -> float | None:
    """When the time is over that a fiber which begins here has, in seconds since 1970: its own, or that of a graph
    around it."""
    moments = [row.node.call.settings.until]
    scope: Scope | None = row.scope
    while scope is not None and scope.node is not None:
        if scope.node.call is not None:
            moments.append(scope.node.call.settings.until)
        scope = scope.outer
    return min([moment for moment in moments if moment is not None], default=None)
