"""What a task may do to the world outside, and what follows from it (design 2.1)."""

from __future__ import annotations

from typing import Literal

import msgspec

Effect = Literal["none", "undoable", "irrevocable"]
"""`none`: not visible outside the run. `undoable`: a rollback function takes it back. `irrevocable`: it cannot be taken
back, and the task is idempotent for equal inputs."""


class Options(msgspec.Struct, frozen=True):
    """The options of a task that core knows. The defaults are those of `@task`: saved, once, never taken back."""

    checkpoint: bool = True
    deterministic: bool = False
    effect: Effect = "irrevocable"
    retries: int = 0
    writes: bool = False
    """The task writes task variables: its writes count from its save on, and cannot be taken back (design 2.11)."""
    guards: bool = False
    """The task handles failures in the graph that it returns: that graph is a scope, even in tail position (2.8)."""
    transaction: bool = False
    """If a task in the graph that it returns fails for good, the undoable tasks of that graph are undone."""

    @property
    def repeatable(self) -> bool:
        """Running it again cannot be noticed downstream."""
        return self.deterministic and self.effect != "undoable"
