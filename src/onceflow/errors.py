"""Every error that onceflow raises on purpose. One family: `except OnceflowError` catches them all."""

from __future__ import annotations

from collections.abc import Mapping


class OnceflowError(Exception):
    """Base of all errors of onceflow."""


class InvalidGraph(OnceflowError):
    """Raised when nodes and edges do not make a graph (a cycle, a dead end, a part that does not exist)."""


class UnsafeGraph(OnceflowError):
    """Raised before a run when some task could never start without risking exactly-once.

    `blocked` names those tasks, `paths` draws for each why it is blocked, and `proposals` holds for each a smallest set of
    tasks that would free it if they were saved (`checkpoint=True`).
    """

    def __init__(
        self,
        blocked: tuple[str, ...],
        paths: Mapping[str, str],
        proposals: Mapping[str, tuple[str, ...]],
        smallest: Mapping[str, bool] | None = None,
    ) -> None:
        self.blocked = blocked
        self.paths = dict(paths)
        self.proposals = dict(proposals)
        self.smallest = dict(smallest or {})
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [f"{len(self.blocked)} task{'s' * (len(self.blocked) != 1)} could never start: {', '.join(self.blocked)}"]
        for task in self.blocked:
            lines.append(f"\n{self.paths[task]}")
            names = ", ".join(self.proposals[task])
            note = "" if self.smallest.get(task, True) else " (a small set; the graph is too large to prove it the smallest)"
            lines.append(f"  to free {task}: set checkpoint=True on {names}{note}")
        return "\n".join(lines)


class IllegalEvent(OnceflowError):
    """Raised when a run is told of something that cannot have happened. The run is unchanged."""


class BrokenPromise(OnceflowError):
    """Raised when going on would take back or contradict something irrevocable, because a task did not keep what its
    options promise (or its code was changed). `node` is the irrevocable task, `cause` the one that changed under it."""

    def __init__(self, node: str, cause: str) -> None:
        self.node = node
        self.cause = cause
        super().__init__(
            f"{node!r} is irrevocable and has begun, but {cause!r}, which it builds on, would have to run again with a "
            f"possibly different result. Nothing was changed. Restore the code of {cause!r} and resume, or give the run "
            "up and start a new one under another name."
        )


class NameTaken(OnceflowError):
    """Raised when a name is used for a run whose graph differs from the one that already has it."""
