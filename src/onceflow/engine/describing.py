"""What can be said of the tasks of a run, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from onceflow.core.effects import Effect
from onceflow.core.graph import Node
from onceflow.core.rows import Row
from onceflow.core.run import Run, attempt_name
from onceflow.values import failures, metadata

TaskState = Literal["waiting", "ready", "running", "retrying", "undoing", "failed", "done"]
"""`waiting`: for others. `ready`: it could run, or does so in another process. `retrying`: it raised and waits for its
next attempt."""


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
    """What it raised last, in one line; None once it is done."""
    waits_for: tuple[str, ...] = ()
    """Ids of the tasks whose outputs are missing."""
    metadata: dict[str, Any] = {}
    """What the option `metadata` says, and what the attempt whose output this is told with `current().annotate`."""
    version: str = ""
    """Of its function's code, when the run was created or a task returned the graph; empty for what has no code."""


def outline(run: Run) -> list[tuple[str, Node]]:
    """The tasks of a run that are known now, in the order of the graph, those of returned graphs behind the one that
    returned them; last come those whose expander has been forgotten."""
    nested: dict[str, list[str]] = {}
    orphans: list[str] = []
    for row in run.rows.values():
        if row.expander is not None:
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
    *,
    driven_here: bool,
) -> list[TaskInfo]:
    """`raised` has for each task what it raised last (`values.failures`), `annotations` what it told about itself."""
    infos = []
    for id, node in tasks:
        info = _describe(id, node, run.rows.get(id), raised.get(id), driven_here=driven_here)
        told = metadata.merge(node.call.metadata, annotations.get(id))
        infos.append(info if told is None else msgspec.structs.replace(info, metadata=metadata.decode(told)))
    return infos


def _describe(id: str, node: Node, row: Row | None, raised: bytes | None, *, driven_here: bool) -> TaskInfo:
    if row is None:  # forgotten, because nothing can change about it any more
        saved, version = node.options.checkpoint, node.call.version
        return TaskInfo(id, node.task, "done", node.options.effect, saved=saved, version=version)
    state = _state(row, driven_here=driven_here)
    return TaskInfo(
        id=id,
        task=node.task,
        state=state,
        effect=row.effect,
        saved=row.fully_saved,
        attempt=attempt_name(row.attempt) if row.attempt else "",
        failures=row.failures,
        error=None if raised is None or state == "done" else failures.tell(raised),
        waits_for=tuple([parent.id for parent, mask in row.parents if not parent.gives(mask)]),
        version=node.call.version,
    )


def _state(row: Row, *, driven_here: bool) -> TaskState:
    if row.undo is not None or row.doomed:
        return "undoing"
    match row.state:
        case "waiting":
            return "waiting" if row.missing else "ready"
        case "running":
            return "running" if driven_here else "ready"
        case "backoff":
            return "retrying"
        case "failed":
            return "failed"
        case "done":
            return "done"
