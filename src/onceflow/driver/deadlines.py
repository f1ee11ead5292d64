"""Graphs whose time is over (design 2.8): what a fiber awaits in a block must be done at some moment, also a graph.

The task that has returned the graph knows the moment (`until`). When it has come, the graph is ended as the law says,
with an error for its outcome, and the fiber gets that as it gets every other. Fibers in the graph have the same
deadline, and are notified themselves; so they are given time to clean up first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from onceflow.core.model import events
from onceflow.core.model.rows import Row, Scope
from onceflow.driver.fiber_cancellation import TIME
from onceflow.driver.hooks import Feature
from onceflow.driver.waits import LONGEST
from onceflow.storage.journal import NEVER
from onceflow.values import packed_outputs
from onceflow.values.failures import dump

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.history import History

NOTHING = packed_outputs.dump(None)


class Expiring(Feature):
    """Of one driver."""

    def __init__(self, driver: Driver, past: History) -> None:
        super().__init__(driver, past)
        self._moments: dict[str, float] = {}
        """Node that has returned a graph → when the time of that is over."""
        self._told: dict[str, Scope] = {}
        """The same → the graph that core was notified of."""

    def returned_graph(self, node: str, until: float | None) -> None:
        if until is not None and until < math.inf:
            self._watch(node, until)

    def _watch(self, node: str, moment: float) -> None:
        """The graph that it returned, or is about to return, ends then."""
        rows = self._driver.run.rows
        self._moments = {other: when for other, when in self._moments.items() if other in rows}
        self._told = {other: scope for other, scope in self._told.items() if other in rows}
        self._moments[node] = moment
        self._set_timer(node)

    def dropped(self, nodes: Sequence[str]) -> None:
        """The work of these nodes no longer counts: a graph that had ended with one of them starts afresh, and its time
        is over all the same."""
        for node, scope in list(self._told.items()):
            if scope.sink is not None and scope.sink.id in nodes:
                del self._told[node]
                self._set_timer(node)

    @property
    def due(self) -> float:
        """The next moment at which one ends."""
        return min([self._due(node) for node in self._moments if self._graph_of(node) is not None], default=NEVER)

    def look(self) -> bool:
        """Ends the graphs whose time is over. Returns whether there was one."""
        return any(self._end(node) for node in self._moments)

    def _due(self, node: str) -> float:
        moment = self._moments[node]
        return moment if self._host.now() < moment else moment + TIME

    def _set_timer(self, node: str) -> None:
        left = max(0.0, self._due(node) - self._host.now())
        self._host.later(self._driver, min(left, LONGEST), lambda: self._look_at_clock(node))

    def _look_at_clock(self, node: str) -> None:
        if node in self._moments:
            self._driver.proceed()
            if self._graph_of(node) is not None and self._host.now() < self._moments[node] + TIME:
                self._set_timer(node)

    def _graph_of(self, node: str) -> Scope | None:
        """The graph that it has returned, if that has no result and core was not notified."""
        row = self._driver.run.rows.get(node)
        if row is None or row.nested is None:
            return None
        scope = row.nested.rows[0].scope
        sink = scope.sink
        return None if sink is None or sink.visible or self._told.get(node) is scope else scope

    def _end(self, node: str) -> bool:
        now, moment = self._host.now(), self._moments[node]
        if now < moment or self._driver.run.status != "running":
            return False
        scope = self._graph_of(node)
        if scope is None or scope.sink is None:
            return False
        if now < moment + TIME and any(map(_is_going_on, self._rows_in(scope))):
            return False
        self._told[node] = scope
        error = late(node)
        self._driver.raised_last[node] = dump(error, "the engine")
        self._driver.features.answering.give_later(node, [NOTHING, packed_outputs.dump(error)])
        self._driver.tell(events.Expired(scope.sink.id, scope.depth))
        return True

    def _rows_in(self, scope: Scope) -> Iterator[Row]:
        return (row for row in self._driver.run.rows.values() if row.scope.is_in(scope))


def _is_going_on(row: Row) -> bool:
    """Whether it is a fiber that may want to clean up."""
    return row.state != "done" and row.node.call is not None and row.node.call.settings.fiber


def late(node: str) -> TimeoutError:
    """The error of a graph that was not done in time."""
    return TimeoutError(f"{node} was not done when the time of the `async with timeout(…)` around it was over")


def deadline_of(row: Row) -> float | None:
    """When the time is over that a fiber which begins here has, in seconds since 1970: its own, or that of the next
    graph around it that has one. (A fiber that awaits a graph knows of all further out.)"""
    until: float | None = row.node.call.settings.until
    scope: Scope | None = row.scope
    while until is None and scope is not None and scope.node is not None:
        until = None if scope.node.call is None else scope.node.call.settings.until
        scope = scope.outer
    return None if until == math.inf else until
