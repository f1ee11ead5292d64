"""What has become of the code of a run since it was recorded. Imports the modules of its tasks, as resuming would."""

from __future__ import annotations

from onceflow.authoring import storing
from onceflow.core.run import Run
from onceflow.driver.history import History
from onceflow.storage.places import Place
from onceflow.values import versions


def changed_code(home: Place, run: str) -> dict[str, str | None]:
    """Tasks whose code is known to be another one now → its version; None if the code is gone. Of graphs that tasks
    returned, those that are saved."""
    with home.journal.load(run) as loaded:
        graph, present = storing.decode_structure(loaded.graph), storing.present_versions(loaded.graph)
        past = History.read(loaded.entries, home.blobs.read)
    storing.renew(loaded.graph, past.graphs())
    changed: dict[str, str | None] = {}
    for node in graph.nodes:
        now = present[node.id]
        if now is None or versions.changed(node.call.version, now):
            changed[node.id] = now
    for row in Run.load(graph, past.records, epoch=loaded.run.epoch + 1).rows.values():
        if row.expander is not None and row.node.call.has_changed:
            changed[row.id] = versions.code_version(row.node.call.function)
    return changed
