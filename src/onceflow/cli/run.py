"""`onceflow run`, `onceflow rerun` and `onceflow check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from onceflow.cli import exits, run_selection, targets
from onceflow.cli.session import Session, as_text, common, only_results_on_stdout, output_option
from onceflow.cli.types import TEXT

if TYPE_CHECKING:
    from onceflow.core.graph import Graph
    from onceflow.engine.handles import RunHandle


@click.command
@targets.arguments
@targets.run_options
@output_option()
@common
def run(
    session: Session,
    target: str,
    given: tuple[str, ...],
    input: str | None,
    name: str | None,
    on_failure: Any,
    timeout: float | None,
    queue: str | None,
    priority: int,
    meta: tuple[tuple[str, Any], ...],
    output: Any,
) -> int:
    """Run a workflow or a task, and print its result.

    MODULE is a module that Python finds (the current folder counts), or a file: shop.trips:trip, shop/trips.py:trip.
    What tasks print goes to stderr, and `onceflow logs` shows it again. How the run gets on is shown there, too, if it
    takes longer than a moment. Ctrl-C stops the run and keeps what it has; `onceflow resume` goes on.
    """
    with only_results_on_stdout():
        node = targets.bind(target, given, input)
        with session.engine(output) as engine:
            handle = engine.run_async(
                node,
                name=name,
                on_failure=on_failure,
                timeout=timeout,
                metadata=dict(meta),
                queue=queue,
                priority=priority,
            )
            with session.shown(engine, [handle.id]):
                result = wait(session, handle)
    print_result(session, handle, result)
    return exits.FINE


@click.command
@run_selection.runs_argument(required=True)
@click.option(
    "--from",
    "from_tasks",
    type=TEXT,
    multiple=True,
    metavar="TASK",
    help="Do this task again, and all that it leads to. May be given many times.",
)
@click.option("--as", "target", type=TEXT, metavar="MODULE:WORKFLOW", help="Run this, and reuse what is the same.")
@targets.values
@targets.name_option
@output_option()
@common
def rerun(
    session: Session,
    run: str,
    from_tasks: tuple[str, ...],
    target: str | None,
    given: tuple[str, ...],
    input: str | None,
    name: str | None,
    output: Any,
) -> int:
    """Run a run again from a task on, as a new run that reuses everything else that was saved, and print its result.

    With --as, the new run is of that workflow, with the arguments given: tasks that are the same as in the run, above
    which everything is the same, are reused. The code is always that of now.
    """
    targets.look_in_current_folder()
    if target is None and (given or input):
        raise exits.Wrong("--arg and --input are for the workflow that --as names")
    if target is None and not from_tasks:
        raise exits.Wrong("from which task on? Give --from TASK, or --as MODULE:WORKFLOW with what is to be different")
    with only_results_on_stdout():
        node = None if target is None else targets.bind(target, given, input)
        with session.engine_of([run], output) as engine:
            handle = engine.rerun_async(engine.find(run).id, from_task=from_tasks, node=node, name=name)
            with session.shown(engine, [handle.id]):
                result = wait(session, handle)
    print_result(session, handle, result)
    return exits.FINE


def wait(session: Session, handle: RunHandle[Any]) -> Any:
    """The result. Ctrl-C means what it means for `onceflow.run`."""
    try:
        handle.wait()
    except KeyboardInterrupt:
        name = handle.name or handle.id
        if handle.done():
            session.note(f"run {name} is stopped; onceflow resume {name} goes on")
        else:
            session.note(
                f"run {name} is driven by another process, and was not stopped: onceflow cancel {name} does so"
            )
        raise
    return handle.result()


def print_result(session: Session, handle: RunHandle[Any], result: Any) -> None:
    if session.json:
        session.say_json({"id": handle.id, "name": handle.name, "status": "succeeded", "result": result})
    elif result is not None:
        click.echo(as_text(result))


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
