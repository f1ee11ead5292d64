"""The result of a failed task, given by a user: the task is done with it when its run goes on.

It is an entry of the journal. When the task would start, it is done with that instead (design 2.8: an outcome made by
hand is *handled*, and saved before anything is built on it). It counts once: should the task have to run again after
that, it runs.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onceflow.authoring import graph_storage
from onceflow.core.model.graph import Node
from onceflow.driver import entries
from onceflow.engine.statuses import AT_REST
from onceflow.errors import CodeMissing, NoSuchTask, ResultRefused
from onceflow.storage.journal import AppendEntries, RunRow, SetStatus
from onceflow.values import packed_outputs, sealed_bytes
from onceflow.values.type_fit import fit

if TYPE_CHECKING:
    from onceflow.engine.inspect.journal_view import Reading
    from onceflow.engine.run_commands.reach import Reach
    from onceflow.storage.run_stores import Place


def supply(row: RunRow, task: str, value: object, home: Place, reading: Reading, reach: Reach) -> None:
    """Returns when that is durable. Raises `NoSuchTask` and `ResultRefused`."""
    if row.status not in AT_REST or row.status == "succeeded":
        raise ResultRefused(row.id, task, f"the run is {row.status}, and only one that has failed or rests can be told")
    info = next((info for info in reading.tasks(row.id) if info.id == task), None)
    if info is None:
        raise NoSuchTask(row.id, task)
    if info.state == "done":
        raise ResultRefused(row.id, task, "it has a result; rerun does it again, in a new run")
    if not info.failures:
        raise ResultRefused(row.id, task, "it has not failed")
    with sealed_bytes.using(home.path):
        parts = _parts(row, reading.node(row.id, task), value, home)
    epoch = row.epoch + 1
    told = AppendEntries(row.id, epoch, [entries.supplied(task, parts)])
    if not reach.write_undriven(row, told, SetStatus(row.id, epoch, row.status, row.due)):
        raise ResultRefused(row.id, task, "another process has just resumed the run")


def _parts(row: RunRow, node: Node, value: object, home: Place) -> list[bytes]:
    """Packed, one for each that the task is declared to return."""
    wanted = _declared(_with_code(row, node, home))
    if wanted is not None:
        try:
            value = fit(value, wanted)
        except TypeError as error:
            name = getattr(wanted, "__qualname__", wanted)
            raise ResultRefused(row.id, node.id, f"it returns {name}: {error}") from error
    values: Sequence[Any] = (value,)
    if node.parts > 1:
        if not isinstance(value, (tuple, list)) or len(value) != node.parts:
            raise ResultRefused(row.id, node.id, f"it returns {node.parts} values, and needs a list of as many")
        values = value
    return [packed_outputs.dump(one) for one in values]


def _with_code(row: RunRow, node: Node, home: Place) -> Node:
    """A task of a graph that another one returned has its code, if it is there at all."""
    with home.journal.load(row.id) as loaded:
        try:
            graph = graph_storage.decode(loaded.graph, home.blobs.read).graph
        except CodeMissing:
            return node
    return graph.nodes[graph.index[node.id]] if node.id in graph.index else node


def _declared(node: Node) -> Any:
    """What its function is declared to return; None if it does not say, or that cannot be found out."""
    function = getattr(getattr(node.call, "task", None), "__wrapped__", None)
    if function is None:
        return None
    try:
        return typing.get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):  # annotations are the user's own
        return None
