"""The check before a run, for a node that a user holds."""

from __future__ import annotations


def check(node: object) -> None:
    """Finds out, without running anything, whether every task of the graph could start without risking exactly-once.

    Raises `UnsafeGraph`, which names the tasks that could not, draws why, and proposes which tasks to save. `run` does
    the same before it starts.

        check(trip.bind("ann", "Rome"))
    """
    # Not needed to define tasks, and slow to import.
    from onceflow.authoring.building import build_graph
    from onceflow.core import check as law

    law.check(build_graph(node))
