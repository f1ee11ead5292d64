"""What the simulated driver keeps of each node, of each command that waits for a commit, and of each save in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onceflow.core.model import commands
from onceflow.core.model.refs import RefPart
from tests.tools.simulation.attempts import Attempt, Value


@dataclass(slots=True)
class Row:
    """What the driver knows of one node."""

    version: Attempt | None = None
    """The attempt whose output is the node's present one; None if it has none."""
    memory: int = 0
    """The parts of that output that are in memory."""
    refs: Mapping[int, RefPart] = field(default_factory=dict)
    """The refs in that output, by part, as far as the run can know them."""
    shared: dict[int, Value] = field(default_factory=dict)
    """What is behind the refs whose object is that of their origin."""
    private: Attempt | None = None
    """The attempt that rebuilt the output for undos, while that is in memory."""
    current: Attempt | None = None
    """The latest attempt whose end would count."""
    handled: Attempt | None = None
    """The attempt that raised and for which a handler gave an output, which counts when the attempt is undone."""

    def void(self) -> None:
        """It has no output any more."""
        self.version, self.memory, self.refs, self.shared = None, 0, {}, {}

    @property
    def runs_again(self) -> bool:
        """It has an output, and an attempt that will make it anew."""
        return self.version is not None and self.current not in (None, self.version)


@dataclass(slots=True)
class Waiting:
    """A durable command that waits for a commit."""

    command: commands.Command
    needs: int
    """How many entries of the journal must be committed."""
    attempt: Attempt | None = None


@dataclass(slots=True)
class Saving:
    """A save in flight."""

    part: int
    attempt: Attempt
