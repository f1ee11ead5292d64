"""Shows what a workflow is going to do. The examples share it."""

from __future__ import annotations

from onceflow import check

STARTS_WHEN = {
    "none": "its inputs are available",
    "undoable": "its parents are reproducible",
    "irrevocable": "its parents are quiet",
}


def plan(node: object) -> str:
    """One line for each task of the graph: its effect, whether it is saved, what it reads and when it may start."""
    graph = check(node)
    rows = [("task", "effect", "saved", "starts when", "reads")]
    for position, task in enumerate(graph.nodes):
        edges = [(graph.nodes[parent].id, parts) for parent, parts in task.edges]
        reads = [id if parts else f"(after {id})" for id, parts in edges]
        saved = task.options.checkpoint or position == graph.sink
        starts = STARTS_WHEN[task.options.effect] if edges else "at once"
        rows.append((task.id, task.options.effect, "yes" if saved else "no", starts, ", ".join(reads)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)
