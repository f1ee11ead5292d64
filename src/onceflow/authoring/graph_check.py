"""The check before a run, for a node that a user holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onceflow.core.model.graph import Graph


def check(node: object) -> Graph:
    """Finds out, without running anything, whether every task of the graph could start without risking exactly-once.

    Returns the graph, whose `nodes` give id, task, options and edges of each task in the order in which they can run.
    Raises `UnsafeGraph`, which names the tasks that could not start, draws why, and proposes which tasks to save. `run`
    does the same before it starts.

        for node in check(trip.bind("ann", "Rome")).nodes:
            print(node.id, node.options.effect)
    """
    # Not needed to define tasks, and slow to import.
    from onceflow.authoring.graph_builder import build_graph
    from onceflow.core.checks import check as law

    graph = build_graph(node)
    law.check(graph)
    return graph
