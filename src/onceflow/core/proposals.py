"""The smallest sets of checkpoints that free a blocked task (design 2.4).

Saving more never blocks anything, so "these checkpoints free the task" is a monotone question, and each answer costs
one dry run. That is enough for an exact search by **implicit hitting sets**: whatever set fails to free the task is
grown to a largest one that still fails; then every solution must contain something outside it. Collect such
obligations, take a smallest set that meets them all, and try it. If it frees the task, no smaller set can; if not, it
yields one more obligation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from onceflow.core.check import DryRun
from onceflow.core.graph import Graph

MOST_STEPS = 600_000
"""Tasks visited in dry runs for one blocked task, after which a set is proposed without proof that it is the
smallest."""


MOST_INSTEAD = 3


class Proposal(NamedTuple):
    """Tasks to save. `smallest`: no smaller set frees the task. `instead`: some others, any one of which does as well
    as the one proposed, nearest to the blocked task first."""

    nodes: tuple[str, ...]
    smallest: bool
    instead: tuple[str, ...] = ()


class OutOfSteps(Exception):
    """The search has taken its share of time."""


def propose(graph: Graph, blocked: Sequence[str]) -> dict[str, Proposal]:
    """For each blocked task, a smallest set of tasks to save that frees it."""
    proposals: dict[str, Proposal] = {}
    singles: dict[str, Proposal] = {}
    for task in blocked:
        if task in singles:  # nothing smaller than one can help
            proposals[task] = Proposal(singles[task].nodes, True)
            continue
        proposals[task] = proposal = Search(graph, task).run()
        if len(proposal.nodes) == 1:
            dry = DryRun(graph, proposal.nodes)
            singles.update((other, proposal) for other in blocked if dry.is_done(other))
    return proposals


class Search:
    """The search for one blocked task."""

    def __init__(self, graph: Graph, task: str) -> None:
        self._graph = graph
        self._task = task
        self._steps_left = MOST_STEPS
        self._candidates = tuple(
            node.id for index, node in enumerate(graph.nodes) if not node.options.checkpoint and index != graph.sink
        )

    def run(self) -> Proposal:
        obligations: list[frozenset[str]] = []
        try:
            while True:
                guess = self._in_order(smallest_hitting_set(obligations))
                if self._frees(guess):
                    return Proposal(guess, True, self._instead_of(guess, obligations))
                obligations.append(self._obligation(guess))
        except OutOfSteps:
            self._steps_left = MOST_STEPS
            return Proposal(self._irreducible(), False)

    def _instead_of(self, proposed: Sequence[str], obligations: Sequence[frozenset[str]]) -> tuple[str, ...]:
        if len(proposed) != 1:
            return ()
        possible = frozenset.intersection(*obligations) - set(proposed)
        found: list[str] = []
        for id in reversed(self._in_order(possible)):
            if len(found) < MOST_INSTEAD and self._frees([id]):
                found.append(id)
        return tuple(found)

    def _in_order(self, ids: Iterable[str]) -> tuple[str, ...]:
        chosen = set(ids)
        return tuple(id for id in self._candidates if id in chosen)

    def _frees(self, saved: Sequence[str]) -> bool:
        self._steps_left -= len(self._graph)
        if self._steps_left < 0:
            raise OutOfSteps
        return DryRun(self._graph, saved).is_done(self._task)

    def _obligation(self, failing: Sequence[str]) -> frozenset[str]:
        """Of what is outside a largest failing set, every solution contains something."""
        grown = list(failing)
        outside: list[str] = []
        chunks = [[id for id in self._candidates if id not in set(failing)]]
        while chunks:
            chunk = chunks.pop()
            if not chunk:
                continue
            if not self._frees([*grown, *chunk]):
                grown += chunk
            elif len(chunk) == 1:
                outside += chunk
            else:
                middle = len(chunk) // 2
                chunks += [chunk[:middle], chunk[middle:]]
        return frozenset(outside)

    def _irreducible(self) -> tuple[str, ...]:
        """A set that frees the task and of which nothing can be left out, as far as the steps last."""
        kept = list(self._candidates)
        size = max(1, len(kept) // 2)
        try:
            while size:
                for start in range(0, len(kept), size):
                    fewer = kept[:start] + kept[start + size :]
                    if self._frees(fewer):
                        kept = fewer
                        break
                else:
                    size //= 2
        except OutOfSteps:
            pass  # what is left still frees the task
        return self._in_order(kept)


def smallest_hitting_set(sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """A smallest set that has a member in each of these, found by deepening."""
    size = 0
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
