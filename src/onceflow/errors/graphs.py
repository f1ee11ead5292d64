"""Graphs that make no sense or are not safe, and runs that break what was promised."""

from __future__ import annotations

from collections.abc import Mapping

from onceflow.errors.base import OnceflowError


class InvalidGraph(OnceflowError):
    """Raised when nodes and edges do not make a graph (a cycle, a dead end, a part that does not exist)."""


class UnsafeGraph(OnceflowError):
    """Raised before a run when some task could never start without risking exactly-once.

    `blocked` names those tasks, `paths` draws for each why it is blocked, and `proposals` holds for each a smallest
    set of tasks that would free it if they were saved (`checkpoint=True`). `instead` lists tasks that would do as well
    as a single proposed one; `smallest` is False where the graph was too large to prove a proposal the smallest.
    """

    def __init__(
        self,
        blocked: tuple[str, ...],
        paths: Mapping[str, str],
        proposals: Mapping[str, tuple[str, ...]],
        instead: Mapping[str, tuple[str, ...]] | None = None,
        smallest: Mapping[str, bool] | None = None,
    ) -> None:
        self.blocked = blocked
        self.paths = dict(paths)
        self.proposals = dict(proposals)
        self.instead = dict(instead or {})
        self.smallest = dict(smallest or {})
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [
            f"{len(self.blocked)} task{'s' * (len(self.blocked) != 1)} could never start: {', '.join(self.blocked)}"
        ]
        for task in self.blocked:
            lines.append(f"\n{self.paths[task]}")
            names = ", ".join(self.proposals[task]) + "".join(f", or on {name}" for name in self.instead.get(task, ()))
            lines.append(f"  To free {task}, set checkpoint=True on {names}.")
            if not self.smallest.get(task, True):
                lines.append("  (The graph is too large to prove that no smaller set would do.)")
        return "\n".join(lines)


class UnusedNode(InvalidGraph):
    """Raised when a workflow function binds a task from which nothing leads to the result: it would never run.
    `workflow` is its name, `tasks` those of the tasks."""

    def __init__(self, workflow: str, tasks: tuple[str, ...]) -> None:
        self.workflow = workflow
        self.tasks = tasks
        super().__init__(
            f"workflow {workflow!r} binds {', '.join(tasks)}, but nothing leads from there to the result, so it would "
            "never run. Pass the node to a task, or let a task wait for it with .options(after=[node]); if it is not "
            "needed, do not bind it."
        )


class IllegalEvent(OnceflowError):
    """Raised when a run receives an event that cannot have happened. The run is unchanged."""


class BrokenPromise(OnceflowError):
    """Raised when going on would take back or contradict something irrevocable, because a task did not keep what its
    options promise (or its code was changed). `node` is the irrevocable task, `cause` the one that changed under it."""

    def __init__(self, node: str, cause: str) -> None:
        self.node = node
        self.cause = cause
        super().__init__(
            f"{node!r} is irrevocable and has begun, but {cause!r}, which it builds on, would have to run again with a "
            f"possibly different result. Nothing was changed. Restore the code of {cause!r} and resume, or give the "
            "run up and start a new one under another name."
        )


class RunStuck(OnceflowError):
    """Raised when nothing of a run can go on: an outcome that a handler gave made a graph safe, was lost before it was
    saved, and the task that ran again is not saved; or what something was built on came of code that was edited
    since. `blocked` names the tasks that could never start, `waiting_for` what keeps the first of them from
    starting."""

    def __init__(self, blocked: tuple[str, ...], waiting_for: tuple[str, ...]) -> None:
        self.blocked = blocked
        self.waiting_for = waiting_for
        told = f" {blocked[0]!r} waits for {', '.join(map(repr, waiting_for))}." if waiting_for else ""
        super().__init__(
            f"{len(blocked)} task{'s' * (len(blocked) != 1)} can never start: {', '.join(blocked)}.{told} What a "
            "handler gave for a task above made that safe, but was lost before it was saved; or the code of a task "
            "above was edited. Resume the run to try once more (with the old code, if it was edited), or set "
            "checkpoint=True on the unsaved tasks above and start a new run."
        )


class NotDeterministic(OnceflowError):
    """Raised when a task that is declared deterministic ran again and returned another graph than before. `node`
    names it."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(
            f"{node!r} is declared deterministic, but when it ran again it returned a different graph. "
            "Remove deterministic=True from it, or make it return the same graph for the same inputs."
        )
