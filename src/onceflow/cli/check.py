"""`onceflow check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, targets
from onceflow.cli.session import Session, common, only_results_on_stdout

if TYPE_CHECKING:
    from onceflow.core.model.graph import Graph


@click.command
@targets.arguments
@common
def check(session: Session, target: str, given: tuple[str, ...], input: str | None) -> int:
    """Say whether every task of a graph could start without risking exactly-once. Nothing is run. If not, it names the
    tasks that could not start, draws why, and proposes which tasks to save; the exit code is 4.
    """
    from onceflow.authoring.graph_check import check as check_graph
    from onceflow.errors import UnsafeGraph

    with only_results_on_stdout():
        node = targets.bind(target, given, input)
    try:
        graph = check_graph(node)
    except UnsafeGraph as unsafe:
        _print_unsafe(session, unsafe)
        raise exits.Refused(f"unsafe graph: {str(unsafe).splitlines()[0]}") from unsafe
    if session.json:
        session.say_json({"safe": True, "tasks": _tasks_as_json(graph)})
        return exits.FINE
    rows = [
        [
            task["id"],
            task["effect"],
            "yes" if task["saved"] else "no",
            ", ".join(task["reads"]),
        ]
        for task in _tasks_as_json(graph)
    ]
    session.table(["task", "effect", "saved", "reads or waits for"], rows)
    session.say(f"safe: {len(rows)} task{'s' * (len(rows) != 1)}")
    return exits.FINE


def _tasks_as_json(graph: Graph) -> list[dict[str, Any]]:
    return [
        {
            "id": node.id,
            "task": node.task,
            "effect": node.options.effect,
            "saved": node.options.checkpoint,
            "deterministic": node.options.deterministic,
            "reads": [graph.nodes[parent].id for parent, _ in node.edges],
        }
        for node in graph.nodes
    ]


def _print_unsafe(session: Session, unsafe: Any) -> None:
    if session.json:
        session.say_json(
            {
                "safe": False,
                "blocked": list(unsafe.blocked),
                "paths": unsafe.paths,
                "proposals": {task: list(names) for task, names in unsafe.proposals.items()},
            }
        )
    else:
        session.say(str(unsafe))
