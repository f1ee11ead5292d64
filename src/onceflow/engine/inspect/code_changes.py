"""Changes to the code of a run since it was recorded. Imports the modules of its tasks, as resuming would; what
is stored by value is not unpickled."""

from __future__ import annotations

from onceflow.authoring import graph_storage
from onceflow.authoring.fiber_tasks import stored_graphs
from onceflow.authoring.tasks import AnyTask
from onceflow.core.run import Run
from onceflow.driver.history import History
from onceflow.engine.inspect import stored_names
from onceflow.storage.run_stores import Place
from onceflow.values import versions


def changed_code(home: Place, run: str) -> dict[str, str | None]:
    """Tasks whose code is known to have changed → its version now; None if the code is gone. Of graphs that tasks
    returned, those that are saved."""
    with home.journal.load(run) as loaded:
        graph = graph_storage.decode_structure(loaded.graph)
        present = graph_storage.present_versions(loaded.graph, stored_names.problem_in)
        past = History.read(loaded.entries, home.blobs.read, stored_graphs.load_graph)
    changed: dict[str, str | None] = {}
    for node in graph.nodes:
        now = present[node.id]
        if now is None or versions.changed(node.call.version, now):
            changed[node.id] = now
    found: dict[tuple[str, str], str | None] = {}
    for row in Run.load(graph, past.records, epoch=loaded.run.epoch + 1).rows.values():
        name = None if row.expander is None else stored_graphs.named_task(row.node.call.task)
        if name is not None and name[0] != "__main__":
            now = found[name] = found[name] if name in found else _present_version(*name)
            if now is None or versions.changed(row.node.call.version, now):
                changed[row.id] = now
    return changed


def _present_version(module: str, name: str) -> str | None:
    try:
        task = stored_names.find(module, name)
    except Exception:  # whatever the module raises while it is imported: resuming would not find the task, either
        return None
    return versions.code_version(task.function) if isinstance(task, AnyTask) else None
