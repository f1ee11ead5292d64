"""The smallest sets of checkpoints that free a blocked task (design 2.4).

Saving more never blocks anything, so "these checkpoints free the task" is a monotone question, and each answer costs
one dry run. Most often one task will do, and it is on the path that the error draws, so that is tried first.

Otherwise the search is exact by **implicit hitting sets**: whatever set fails to free the task is grown to a largest
one that still fails; then every solution must contain something outside it. Collect such obligations, take a smallest
set that meets them all, and try it. If it frees the task, no smaller set can; if not, it yields one more obligation.

An error must not take minutes, so the dry runs are rationed. When they are used up, all unsaved ancestors that are not
repeatable are proposed: that always helps, but is not always the smallest set, and the proposal says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from onceflow.core.checks.check import DryRun
from onceflow.core.model.graph import Graph

MOST_STEPS = 1_000_000
"""Tasks visited in all dry runs for one error: some seconds."""
MOST_INSTEAD = 3


class Proposal(NamedTuple):
    """Tasks to save. `smallest`: no smaller set frees the task. `instead`: some others, any one of which does as well
    as the one proposed, nearest to the blocked task first."""

    nodes: tuple[str, ...]
    smallest: bool
    instead: tuple[str, ...] = ()


def propose(graph: Graph, paths: Mapping[str, Sequence[str]]) -> dict[str, Proposal]:
    """For each blocked task, a smallest set of tasks to save that frees it. `paths` leads from what may change to the
    blocked task."""
    search = _Search(graph)
    return {task: search.run(task, path) for task, path in paths.items()}


class _OutOfSteps(Exception):
    pass


class _Search:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._steps_left = MOST_STEPS
        self._candidates = tuple(
            node.id for index, node in enumerate(graph.nodes) if not node.options.checkpoint and index != graph.sink
        )

    def run(self, task: str, path: Sequence[str]) -> Proposal:
        try:
            return self._single(task, path) or self._smallest(task)
        except _OutOfSteps:
            return Proposal(self._unsaved_ancestors(task), False)

    def _single(self, task: str, path: Sequence[str]) -> Proposal | None:
        """One task that frees the blocked one. Nothing smaller can."""
        source, *between = path[:-1]
        if not self._frees(task, [source]):
            return None
        possible = [id for id in reversed(between) if id in set(self._candidates)]
        instead = [id for id in possible[:MOST_INSTEAD] if self._frees(task, [id])]
        return Proposal((source,), True, tuple(instead))

    def _smallest(self, task: str) -> Proposal:
        obligations: list[frozenset[str]] = []
        while True:
            guess = self._in_order(smallest_hitting_set(obligations))
            if self._frees(task, guess):
                return Proposal(guess, True)
            obligations.append(self._obligation(task, guess))

    def _frees(self, task: str, saved: Sequence[str]) -> bool:
        self._steps_left -= len(self._graph)
        if self._steps_left < 0:
            raise _OutOfSteps
        return DryRun(self._graph, saved=saved).is_done(task)

    def _obligation(self, task: str, failing: Sequence[str]) -> frozenset[str]:
        """Of what is outside a largest failing set, every solution contains something."""
        grown = list(failing)
        outside: list[str] = []
        chunks = [[id for id in self._candidates if id not in set(failing)]]
        while chunks:
            chunk = chunks.pop()
            if not self._frees(task, [*grown, *chunk]):
                grown += chunk
            elif len(chunk) == 1:
                outside += chunk
            else:
                middle = len(chunk) // 2
                chunks += [chunk[:middle], chunk[middle:]]
        return frozenset(outside)

    def _unsaved_ancestors(self, task: str) -> tuple[str, ...]:
        """Those that are not repeatable. With them saved, nothing above the task can ever change."""
        nodes = self._graph.nodes
        above = {self._graph.index[task]}
        for index in range(max(above), -1, -1):
            if index in above:
                above.update(parent for parent, _ in nodes[index].edges)
        return self._in_order(nodes[index].id for index in above if not nodes[index].options.repeatable)

    def _in_order(self, ids: Iterable[str]) -> tuple[str, ...]:
        chosen = set(ids)
        return tuple(id for id in self._candidates if id in chosen)


def smallest_hitting_set(sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """A smallest set that has a member in each of these, found by deepening. It is at least as large as there are sets
    among them that have nothing in common."""
    apart: list[frozenset[str]] = []
    for candidate in sorted(sets, key=len):
        if not any(candidate & other for other in apart):
            apart.append(candidate)
    size = len(apart)
    while True:
        found = _hit(sets, frozenset(), size)
        if found is not None:
            return found
        size += 1


def _hit(sets: Sequence[frozenset[str]], chosen: frozenset[str], more: int) -> frozenset[str] | None:
    open_set = min((s for s in sets if not s & chosen), key=len, default=None)
    if open_set is None:
        return chosen
    if more == 0:
        return None
    for member in sorted(open_set):
        found = _hit(sets, chosen | {member}, more - 1)
        if found is not None:
            return found
    return None
