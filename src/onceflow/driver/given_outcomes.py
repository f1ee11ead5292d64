"""Outcomes that a task did not give itself (design 2.8): a handler answers for it or for a graph around it, or a person
says what its result is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceflow.core.model import events
from onceflow.core.model.graph import Node
from onceflow.core.model.rows import Row, Scope
from onceflow.driver.fiber_failures import FOLLOWING
from onceflow.driver.hooks import Feature
from onceflow.driver.outputs import is_small
from onceflow.driver.work import Work
from onceflow.values import packed_outputs
from onceflow.values.handler_answers import THE_TASK, Answer

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.history import History


class Answering(Feature):
    """Of one driver."""

    def __init__(self, driver: Driver, past: History) -> None:
        super().__init__(driver, past)
        self._outputs = driver.outputs
        self._past = past
        self._given: dict[str, list[bytes]] = {}
        """Node that failed → the outcome that a handler gives to a graph around it. It may be asked for again, until
        that graph has ended."""

    @classmethod
    def is_needed(cls, past: History) -> bool:
        return bool(past.supplied)

    def saved(self, node: str, part: int) -> None:
        self._past.saved_supplied(node, part)

    def note(self, work: Work, permanent: bool, answer: Answer) -> None:
        """An attempt has raised, and a handler has answered."""
        node, attempt, driver = work.node, work.attempt, self._driver
        row = driver.run.rows.get(node)
        if row is None or row.attempt != attempt:  # it was stopped before: its answer is about nothing
            driver.tell(events.Raised(node, attempt, permanent))
        elif answer.at != THE_TASK or answer.kind == "break":
            self._note_for_graph(row, work, permanent, answer)
        elif answer.kind == "again":
            driver.features.delays.ask_for(node, answer)
            driver.tell(events.Raised(node, attempt, permanent, again=True))
        elif row.visible:  # what it gave before counts
            driver.tell(events.Raised(node, attempt, permanent=True))
        else:
            self._outputs.put(node, attempt, answer.parts)
            driver.tell(events.Finished(node, attempt, None, _small(answer.parts), handled=True))

    def _note_for_graph(self, row: Row, work: Work, permanent: bool, answer: Answer) -> None:
        """A handler answers for a graph around the task, or for the branch that it is in."""
        node, attempt, at, driver = work.node, work.attempt, answer.at, self._driver
        scope = row.scope
        while scope.depth > at >= 0 and scope.outer is not None:
            scope = scope.outer
        ends = at
        if answer.kind == "break":
            ends = _whole_fiber(scope if at == THE_TASK else scope.outer or scope).depth
        elif answer.kind == "again":
            driver.features.delays.ask_for(scope.expander, answer)
            driver.raised_last[scope.expander] = driver.raised_last[node]
        else:
            self.give_later(node, answer.parts)
        driver.tell(events.Ends(node, attempt, at, ends, answer.kind == "again", _small(answer.parts)))

    def give_later(self, cause: str, parts: list[bytes]) -> None:
        """What the sink of a graph is to be done with, if this is why the graph ends."""
        if not self._driver.run.endings:
            self._given.clear()
        self._given[cause] = parts

    def give(self, node: str, attempt: int, cause: str) -> None:
        """The sink of a graph that has ended is done with what was given for the node that failed."""
        parts = self._given.get(cause) or [packed_outputs.dump(None)] * self._driver.run.rows[node].node.parts
        self._outputs.put(node, attempt, parts)
        if cause in self._driver.raised_last:
            self._driver.raised_last[node] = self._driver.raised_last[cause]

    def supply(self, work: Work) -> bool:
        """It is done with the result that a user gave. What it gave itself before, and still counts, it must give
        again."""
        parts = self._past.supplied.get(work.node)
        if parts is None or work.undo or self._driver.run.rows[work.node].visible:
            return False
        self._outputs.put(work.node, work.attempt, parts)
        self._driver.tell(events.Finished(work.node, work.attempt, None, _small(parts), handled=True))
        return True


def _whole_fiber(scope: Scope) -> Scope:
    """If errors of a fiber are caught, the graph that its second segment returns is not that of the whole fiber, with
    what was forked in the first one: that is the one around it."""
    while scope.outer is not None and _is_fiber(scope.outer.node) and _goes_on(scope.node):
        scope = scope.outer
    return scope


def _is_fiber(node: Node | None) -> bool:
    return node is not None and bool(node.call.settings.fiber)


def _goes_on(node: Node | None) -> bool:
    """Whether it is a segment behind the first one of a fiber."""
    return node is not None and _is_fiber(node) and node.task in FOLLOWING and not node.options.guards


def _small(parts: list[bytes]) -> bool:
    return all(map(is_small, parts))
