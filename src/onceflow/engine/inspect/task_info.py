"""Information about the tasks of a run, for users."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from onceflow.core.model.effects import Effect
from onceflow.core.run import attempt_name
from onceflow.engine.inspect import wait_reasons
from onceflow.engine.runtime.live_info import Progress
from onceflow.values import failures, metadata

if TYPE_CHECKING:
    from onceflow.core.model.graph import Node
    from onceflow.core.model.rows import Row
    from onceflow.core.run import Run
    from onceflow.engine.runtime.live_info import Insight, Look

TaskState = Literal["waiting", "ready", "running", "retrying", "undoing", "failed", "done"]
"""`waiting`: for others. `ready`: it could run, or does so in an engine that cannot be asked. `retrying`: it raised and
waits for its next attempt."""


class TaskInfo(msgspec.Struct, frozen=True):
    """A task of a run at a glance."""

    id: str
    """In its graph; of a task in a returned graph with the ids of those that returned it before."""
    task: str
    state: TaskState
    effect: Effect
    saved: bool
    attempt: str = ""
    """The running one, or the one whose output this is, as `epoch.number`."""
    failures: int = 0
    """How often it has raised since it last succeeded."""
    error: str | None = None
    """The exception that it raised last, in one line; None once it is done."""
    waits_for: tuple[str, ...] = ()
    """Ids of the tasks whose outputs are missing."""
    metadata: dict[str, Any] = {}
    """What the option `metadata` says, and what the attempt whose output this is set with `current().annotate`."""
    version: str = ""
    """Of its function's code, when the run was created or a task returned the graph; empty for what has no code."""
    started: float | None = None
    """When the running attempt began, in seconds since 1970."""
    progress: Progress | None = None
    """How far the running attempt is, if it reports that."""
    reason: str = ""
    """Why the task does not run, for users."""
    live: bool = False
    """Whether the engine that drives the run says so. If not, it is what the journal has, which does not know what runs
    just now."""


def outline(run: Run) -> list[tuple[str, Node]]:
    """The tasks of a run that are known now, in the order of the graph, those of returned graphs behind the one that
    returned them; last come those whose expander has been forgotten."""
    nested: dict[str, list[str]] = {}
    orphans: list[str] = []
    for row in run.rows.values():
        if row.expander is not None and (row.expander.id in run.rows or row.expander.id in run.graph.index):
            nested.setdefault(row.expander.id, []).append(row.id)
        elif row.id not in run.graph.index:
            orphans.append(row.id)
    found: list[tuple[str, Node]] = []
    stack = orphans[::-1] + [node.id for node in reversed(run.graph.nodes)]
    while stack:
        id = stack.pop()
        known = run.rows.get(id)
        found.append((id, run.graph.nodes[run.graph.index[id]] if known is None else known.node))
        stack += nested.get(id, ())[::-1]
    return found


def describe(
    run: Run,
    tasks: list[tuple[str, Node]],
    raised: Mapping[str, bytes],
    annotations: Mapping[str, str],
    insight: Insight | None,
) -> list[TaskInfo]:
    """`raised` has for each task what it raised last (`values.failures`), `annotations` what it reported about itself.
    `insight` is None for a run that is not driven here."""
    infos = []
    for id, node in tasks:
        row = run.rows.get(id)
        if row is None:  # forgotten, because nothing can change about it any more
            saved, version, live = node.options.checkpoint, node.call.version, insight is not None
            info = TaskInfo(id, node.task, "done", node.options.effect, saved, version=version, live=live)
        else:
            info = describe_row(row, run, raised, insight)
        told = metadata.merge(node.call.metadata, annotations.get(id))
        infos.append(info if told is None else msgspec.structs.replace(info, metadata=metadata.decode(told)))
    return infos


def describe_row(
    row: Row, run: Run, raised: Mapping[str, bytes], insight: Insight | None, most: int | None = None
) -> TaskInfo:
    """`most`: of the tasks that it waits for, no more than so many are listed. Without metadata."""
    state, look, reason = _state(row, run, insight)
    failure = raised.get(row.id)
    return TaskInfo(
        id=row.id,
        task=row.node.task,
        state=state,
        effect=row.effect,
        saved=row.fully_saved,
        attempt=attempt_name(row.attempt) if row.attempt else "",
        failures=row.failures,
        error=None if failure is None or (state == "done" and not row.handled) else failures.tell(failure),
        waits_for=tuple(islice(wait_reasons.missing(row), most)) if row.missing else (),
        started=None if look is None else look.started,
        progress=None if look is None else look.progress,
        version=row.node.call.version,
        reason=reason,
        live=insight is not None,
    )


def _state(row: Row, run: Run, insight: Insight | None) -> tuple[TaskState, Look | None, str]:
    """With a look at what runs of it, and why it does not run."""
    if row.undo is not None or row.doomed:
        undoing = None if insight is None or row.undo is None else insight.look(row.undo.attempt)
        return "undoing", undoing, wait_reasons.of_undo(row, insight)
    match row.state:
        case "done":
            return "done", None, "its graph ended before it ran" if row.abandoned else ""
        case "waiting":
            return "waiting" if row.missing else "ready", None, wait_reasons.of_waiting(row, run, insight)
        case "running":
            if insight is None:
                return "ready", None, ""
            look = insight.look(row.attempt)
            running = look is not None and look.started is not None
            return "running" if running else "ready", look, wait_reasons.of_given(row, look)
        case "backoff":
            return "retrying", None, wait_reasons.of_retry(row, insight)
        case "handled" | "failed":
            return "failed", None, ""
