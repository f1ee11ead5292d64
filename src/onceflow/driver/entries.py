"""Records of core as entries of the journal, and back.

The kind of an entry is the name of the record's class in lower case. Values stand beside the record: a saved part, the
inputs that a *begun* record carries, the error of a failure. A graph that a task returned is the value of its *saved*
entry, so a record that needs it is only complete together with the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from onceflow.core.model import records
from onceflow.core.model.graph import Graph, narrow, widen
from onceflow.core.model.refs import RefPart
from onceflow.driver.measurements import MEASURED
from onceflow.errors import CodeMissing, FunctionNotLoaded
from onceflow.storage.journal import Entry
from onceflow.values import imports

BUFFER = "buffer"
"""The kind of entries that are no records: each names a blob with a large buffer of the graph's arguments."""

ACTOR = -1
"""Stands for the part that a ref comes from if it is a version of an actor, which comes from nowhere."""

WROTE = "wrote"
FINISHED = "finished"

WAITS, TOOK = "waits", "took"
"""The kinds of entries that are no records: when a wait is over, and which event a node took."""

CANCELLING = "cancelling"
"""The kind of an entry that is no record: cancellation of the run was requested, and its fibers are notified."""

SUPPLIED = "supplied"
"""The kind of an entry that is no record: a user gave the result of a task that had failed."""

TIMED = "timed"
"""The kind of an entry that is no record: when the time of the run began to run, if that was after it was created."""

LoadGraph = Callable[[str, bytes], Graph]
"""From the id of a task and the bytes of the graph that it returned to that graph."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_decode_values = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_variables = msgspec.msgpack.Decoder(dict[str, bytes]).decode
_EMPTY = b"\x90"


def saved(record: records.Saved, value: bytes | None, blob: str | None, annotations: str | None = None) -> Entry:
    """`annotations` are what the task reported about itself, if it did; they stand beside its first part."""
    fields: tuple[Any, ...] = (record.part, record.attempt, record.graph is not None)
    if record.joined:
        fields = (*fields, annotations, [_pack_ref(ref) for ref in record.refs], record.joined)
    elif record.refs:
        fields = (*fields, annotations, [_pack_ref(ref) for ref in record.refs])
    elif annotations is not None:
        fields = (*fields, annotations)
    return Entry("saved", record.node, _encode(fields), value, blob)


def wrote(record: records.Wrote, values: Mapping[str, bytes]) -> Entry:
    """`values` are those of the task variables, packed."""
    return Entry(WROTE, record.node, _encode((record.attempt,)), _encode(values))


def waits(node: str, deadline: float, key: str | None) -> Entry:
    """`key` is that of the event, if one is waited for, for users."""
    return Entry(WAITS, node, _encode((deadline, key)))


def key_in(entry: Entry) -> str | None:
    """The key of a *waits* entry."""
    key: str | None = _decode(entry.body)[1]
    return key


def took(node: str, number: int) -> Entry:
    return Entry(TOOK, node, _encode((number,)))


def cancelling(undo: bool, fiber: str = "") -> Entry:
    """With the id of a fiber: that one has let the exception out of the run."""
    return Entry(CANCELLING, fiber, _encode((undo,)))


def supplied(node: str, parts: list[bytes]) -> Entry:
    return Entry(SUPPLIED, node, b"", _encode(parts))


def timed(moment: float) -> Entry:
    return Entry(TIMED, "", _encode((moment,)))


def parts_in(entry: Entry) -> list[bytes]:
    """Those of a *supplied* entry."""
    return _decode_values(entry.value or b"")


def number_in(entry: Entry) -> Any:
    """The deadline of a *waits* entry, the number of the event of a *took* entry, whether a *cancelling* one undoes,
    the moment of a *timed* one."""
    return _decode(entry.body)[0]


def variables(entry: Entry) -> dict[str, bytes]:
    """The values of a *wrote* entry."""
    assert entry.value is not None
    return _decode_variables(entry.value)


def _pack_ref(ref: RefPart) -> tuple[Any, ...]:
    if ref.actor:
        return narrow(ref.holders), "", ACTOR
    return (narrow(ref.holders),) if ref.origin is None else (narrow(ref.holders), *ref.origin)


def _unpack_ref(fields: Sequence[Any]) -> RefPart:
    holders, *origin = fields
    if origin and origin[1] == ACTOR:
        return RefPart(widen(holders), actor=True)
    return RefPart(widen(holders), (origin[0], origin[1]) if origin else None)


def begun(record: records.Begun, values: Mapping[tuple[str, int], bytes], since: float | None = None) -> Entry:
    """`values` are those of `record.carried`, and what belongs to them; `since` is when the task's time began to run,
    in seconds since 1970, if it has a limit for all its attempts."""
    keys = list(values)
    fields = (record.attempt, keys) if since is None else (record.attempt, keys, since)
    return Entry("begun", record.node, _encode(fields), _encode(list(values.values())) if values else None)


def failed(
    record: records.Failed,
    failure: bytes | None,
    due: float,
    since: float | None = None,
    delay: tuple[float, float] | None = None,
) -> Entry:
    """`due` is when the next attempt may start, in seconds since 1970; 0 if there is none. `since` as in `begun`.
    `delay` and its jitter are what a handler asked for, if one did."""
    fields: tuple[Any, ...] = (record.failures, record.final, due)
    if since is not None or delay is not None:
        fields = (*fields, since)
    if delay is not None:
        fields = (*fields, delay)
    return Entry("failed", record.node, _encode(fields), failure)


def again(record: records.Again, failure: bytes | None, due: float, delay: tuple[float, float]) -> Entry:
    """`due` and `delay` as in `failed`."""
    return Entry("again", record.node, _encode((record.failures, False, due, None, delay)), failure)


def abandoned(record: records.Abandoned) -> Entry:
    return Entry("abandoned", record.node, _encode((record.attempt, record.expander)))


def finished(
    record: records.Finished, kept: Sequence[str], uncertain: Sequence[str], measured: bytes | None = None
) -> Entry:
    """With what could not be taken back, and what may have happened (`commands.Finish`). The last measurements are its
    value."""
    return Entry(FINISHED, "", _encode((record.status, kept, uncertain)), measured)


def measured(body: bytes) -> Entry:
    return Entry(MEASURED, "", body)


def buffer(reference: str) -> Entry:
    return Entry(BUFFER, "", _EMPTY, None, reference)


def plain(record: records.Record) -> Entry:
    """The entry of a record without a value."""
    match record:
        case (
            records.Expanded(node)
            | records.Handled(node)
            | records.Done(node)
            | records.Undone(node)
            | records.Parked(node)
            | records.Withdrawn(node)
        ):
            return Entry(_KINDS[type(record)], node, _EMPTY)
        case records.Trusted(node, code):
            return Entry("trusted", node, _encode((code,)) if code else _EMPTY)
        case records.Recovering(nodes) | records.Dropped(nodes):
            return Entry(_KINDS[type(record)], "", _encode(nodes))
        case records.Abandoned():
            return abandoned(record)
        case records.Cancelled(undo):
            return Entry("cancelled", "", _encode((undo,)))
        case records.Limited(group, limit):
            return Entry("limited", group, _encode((limit,)))
        case records.Resumed():
            return Entry("resumed", "", _EMPTY)
        case _:
            raise AssertionError(f"{record} has a value")


def record_of(entry: Entry, read: Callable[[str], bytes], load: LoadGraph | None = None) -> records.Record | None:
    """The record of an entry; None for what is no record, a buffer or measurements. `read` fetches the blob of a graph
    that was too large to stand in the entry, and `load` makes a graph of its bytes, by default with its code."""
    if entry.kind in (MEASURED, BUFFER, WAITS, TOOK, CANCELLING, SUPPLIED, TIMED):
        return None
    fields = _decode(entry.body)
    match entry.kind:
        case "begun":
            attempt, carried = fields[:2]
            return records.Begun(entry.node, attempt, tuple([(node, part) for node, part in carried if part >= 0]))
        case "saved":
            part, attempt, is_graph = fields[:3]
            graph = (load or load_graph)(entry.node, value_of(entry, read)) if is_graph else None
            refs = tuple([_unpack_ref(ref) for ref in fields[4]]) if len(fields) > 4 else ()
            joined = tuple(fields[5]) if len(fields) > 5 else ()
            return records.Saved(entry.node, part, attempt, graph, refs, joined)
        case "wrote":
            return records.Wrote(entry.node, fields[0])
        case "failed":
            failures, final = fields[:2]
            return records.Failed(entry.node, failures, final)
        case "again":
            return records.Again(entry.node, fields[0])
        case "abandoned":
            return records.Abandoned(entry.node, *fields)
        case "trusted":
            return records.Trusted(entry.node, *fields)
        case "recovering" | "dropped":
            arguments: list[Any] = [tuple(fields)]
        case "cancelled" | "finished":
            arguments = fields[:1]
        case "limited":
            return records.Limited(entry.node, fields[0])
        case "resumed":
            return records.Resumed()
        case _:
            arguments = [entry.node]
    record: records.Record = _CLASSES[entry.kind](*arguments)
    return record


def saved_part(entry: Entry) -> tuple[int, int]:
    """Part and attempt of a *saved* entry."""
    part, attempt = _decode(entry.body)[:2]
    return part, attempt


def attempt_of(entry: Entry) -> int:
    """The attempt that a *saved*, *wrote* or *abandoned* entry is about."""
    attempt: int = _decode(entry.body)[entry.kind == "saved"]
    return attempt


def with_attempt(entry: Entry, attempt: int) -> Entry:
    """The same, as if it were about another attempt."""
    fields = _decode(entry.body)
    fields[entry.kind == "saved"] = attempt
    return msgspec.structs.replace(entry, body=_encode(fields))


def annotations_of(entry: Entry) -> str | None:
    """What the task of a *saved* entry reported about itself."""
    fields = _decode(entry.body)
    return fields[3] if len(fields) > 3 else None


def left_behind(entry: Entry) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the run of a *finished* entry kept, and what may have happened."""
    _, kept, uncertain = _decode(entry.body)
    return tuple(kept), tuple(uncertain)


def due(entry: Entry) -> float:
    """When the attempt after a *failed* entry may start."""
    moment: float = _decode(entry.body)[2]
    return moment


def delay(entry: Entry) -> tuple[float, float] | None:
    """Delay and jitter that a handler asked for in a *failed* entry."""
    fields = _decode(entry.body)
    return (fields[4][0], fields[4][1]) if len(fields) > 4 else None


def since(entry: Entry) -> float | None:
    """When the time of the task of a *begun* or *failed* entry began to run, if it has a limit for all its attempts."""
    fields = _decode(entry.body)
    place = 2 if entry.kind == "begun" else 3
    return fields[place] if len(fields) > place else None


def carried(entry: Entry) -> dict[tuple[str, int], bytes]:
    """The inputs that a *begun* entry carries."""
    if entry.value is None:
        return {}
    parts = _decode(entry.body)[1]
    return {(node, part): value for (node, part), value in zip(parts, _decode_values(entry.value), strict=True)}


def value_of(entry: Entry, read: Callable[[str], bytes]) -> bytes:
    if entry.value is not None:
        return entry.value
    assert entry.blob is not None
    return read(entry.blob)


def load_graph(node: str, value: bytes) -> Graph:
    """The graph that this task returned. Imports the modules of its tasks; raises `FunctionNotLoaded` if that fails,
    and `CodeMissing` for what is no task any more."""
    try:
        graph: Graph = imports.loads(value)
    except CodeMissing:
        raise
    except Exception as error:
        raise FunctionNotLoaded(node, "the graph that it returned", f"{type(error).__name__}: {error}") from error
    return graph


_CLASSES: dict[str, Any] = {
    kind.__name__.lower(): kind
    for kind in (
        records.Expanded,
        records.Handled,
        records.Trusted,
        records.Done,
        records.Recovering,
        records.Undone,
        records.Withdrawn,
        records.Dropped,
        records.Parked,
        records.Cancelled,
        records.Finished,
    )
}
_KINDS = {kind: name for name, kind in _CLASSES.items()}
