"""Which refs an attempt returns: some that it makes, some that came in, in some of its declared parts.

A task may pass on any ref it was given, and any input as a ref (`onceflow.ref`), together with the refs behind it. So
refs travel through many nodes, into nested graphs and out of them, and the same one comes back on several ways.
"""

from __future__ import annotations

from random import Random

from onceflow.core.model.refs import RefPart
from tests.tools.simulation.attempts import Attempt

MOST_MADE = 2
MOST = 6
"""Refs in one output, about: what stands behind a ref comes along."""


class Referring:
    """Picks refs. Every schedule has its own taste: how many are made, passed on, and passed as inputs; and how many of
    those made are versions of `actors`, if there are any. Those are never passed on."""

    def __init__(self, random: Random, actors: bool = False) -> None:
        self._random = random
        self._makes = random.choice((0.0, 0.2, 0.6))
        self._passes = random.choice((0.2, 0.5, 0.9))
        self._refers = random.choice((0.0, 0.1, 0.3))
        self._acts = random.choice((0.5, 1.0)) if actors else 0.0

    def pick(self, attempt: Attempt) -> tuple[RefPart, ...]:
        """The refs in the output of an attempt that is about to finish."""
        random = self._random
        made = [self._make(attempt) for _ in range(MOST_MADE) if random.random() < max(self._makes, self._acts)]
        came_in: dict[tuple[str, int], int] = {}
        for parent, part in attempt.inputs:
            version = attempt.versions[parent]
            if random.random() < (self._passes if part in version.refs else self._refers):
                holders = self._holders(attempt)
                behind = version.with_refs(1 << part) if part not in version.refs else 1 << part
                if any(ref.actor and behind >> inner & 1 for inner, ref in version.refs.items()):
                    continue
                for inner in range(behind.bit_length()):
                    if behind >> inner & 1:
                        came_in[parent, inner] = came_in.get((parent, inner), 0) | holders
            if len(made) + len(came_in) >= MOST:
                break
        return (*made, *(RefPart(holders, origin) for origin, holders in came_in.items()))

    def _make(self, attempt: Attempt) -> RefPart:
        if self._acts and attempt.graph is None and self._random.random() < self._acts:
            return RefPart(1 << self._random.randrange(attempt.task.parts), actor=True)
        return RefPart(self._holders(attempt))

    def _holders(self, attempt: Attempt) -> int:
        """Usually one declared part; a graph is part 0."""
        if attempt.graph is not None or attempt.task.parts == 1:
            return 1
        return 1 + self._random.randrange(attempt.task.every_part)
