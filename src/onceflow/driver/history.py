"""A run as the journal has it: what a driver needs to go on, or a reader to look.

The journal is read twice. The first time for the records, from which core knows how everything stands; the second time
for the values that matter now. A long run has few of those, however many it has saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from onceflow.core.model import records
from onceflow.core.model.graph import Graph
from onceflow.core.run import Run
from onceflow.driver import entries
from onceflow.driver.children import CHILD, Outcome, note_part
from onceflow.driver.outputs import Blob, Outputs, Part, SavedBlob
from onceflow.storage.journal import Entry, MailboxEvent

Read = Callable[[str], bytes]


class History:
    """The records of a run, and where their values are."""

    def __init__(self) -> None:
        self.records: list[records.Record] = []
        self.failures: dict[str, bytes] = {}
        """Node → what it raised last."""
        self.failure_counts: dict[str, int] = {}
        """Node → how often it has raised since it was last saved."""
        self.due: dict[str, float] = {}
        """Node → when its next attempt may start, if it failed last."""
        self.delays: dict[str, tuple[float, float]] = {}
        """Node → delay and jitter that a handler asked for, if it failed last and one did."""
        self.since: dict[str, float] = {}
        """Node → when its time began to run, if it has a limit for all its attempts and is not done."""
        self.annotations: dict[str, str] = {}
        """Node → what it reported about itself, with the output that was saved last."""
        self.variables: dict[str, bytes] = {}
        """Task variables as they were committed last, packed."""
        self.deadlines: dict[str, float] = {}
        """Node → when its wait is over."""
        self.awaited: dict[str, str | None] = {}
        """Node → the key of the event that it waits for, or waited for, as people may see it; None if it waits for
        time to pass."""
        self.cancelling: bool | None = None
        """Whether it is to be cancelled, with or without undo, and its fibers have been notified."""
        self.ended_fibers: list[str] = []
        """Ids of fibers that have let the cancellation out of the run."""
        self.taken: dict[str, int] = {}
        """Node → the number of the event that is its output."""
        self.supplied: dict[str, list[bytes]] = {}
        """Node → the parts of its output, if a user gave them and they are not all saved yet."""
        self._saved_of_supplied: dict[str, int] = {}
        """The same → mask of the parts that are saved."""
        self.blobs: dict[str, list[SavedBlob]] = {}
        """Node → its blobs that count."""
        self.parked: str | None = None
        """A node whose undo waits for a user."""
        self.finished: str | None = None
        """The status with which the run ended."""
        self.kept: tuple[str, ...] = ()
        self.uncertain: tuple[str, ...] = ()
        """What it kept, and what may have happened (`commands.Finish`), if it has ended."""
        self.resumed = False
        """Whether it has ended before, and was resumed."""
        self.timed: float | None = None
        """When its time began to run, if it was resumed or taken by an engine after it was created."""
        self.failed: list[str] = []
        """Nodes whose failure ended it."""

        self.mail: Sequence[MailboxEvent] = ()
        """The events that were in its mailbox."""

    @classmethod
    def read(cls, found: Iterable[Entry], read: Read, load: entries.LoadGraph | None = None) -> History:
        """`read` and `load` as for `entries.record_of`."""
        history = cls()
        for entry in found:
            record = entries.record_of(entry, read, load)
            if record is not None:
                history.records.append(record)
                history._note(record, entry)
            elif entry.kind == entries.WAITS:
                history.deadlines[entry.node] = entries.number_in(entry)
                history.awaited[entry.node] = entries.key_in(entry)
            elif entry.kind == entries.CANCELLING:
                history.cancelling = bool(entries.number_in(entry))
                history.ended_fibers += [entry.node] if entry.node else []
            elif entry.kind == entries.TOOK:
                history.taken[entry.node] = entries.number_in(entry)
            elif entry.kind == entries.SUPPLIED:
                history.supplied[entry.node] = entries.parts_in(entry)
            elif entry.kind == entries.TIMED:
                history.timed = entries.number_in(entry)
        return history

    @property
    def is_plain(self) -> bool:
        """Whether the run has not come to rest, and has no given results, no request to cancel, and no writes to its
        variables."""
        at_rest = self.finished is not None or self.parked is not None
        return not (at_rest or self.cancelling is not None or self.supplied or self.variables)

    def saved_supplied(self, node: str, part: int) -> None:
        """A part of its output is saved. What was given for it counts until all of it is, and once."""
        parts = self.supplied.get(node)
        if parts is None:
            return
        saved = self._saved_of_supplied[node] = self._saved_of_supplied.get(node, 0) | 1 << part
        if saved == (1 << len(parts)) - 1:
            del self.supplied[node], self._saved_of_supplied[node]

    def dropped(self, node: str) -> None:
        """The work of the node no longer counts, nor do delays after its failures."""
        self._saved_of_supplied.pop(node, None)
        self.due.pop(node, None)
        self.delays.pop(node, None)

    def graphs(self) -> list[Graph]:
        """Those that tasks have returned."""
        return [r.graph for r in self.records if isinstance(r, records.Saved) and r.graph is not None]

    def _note(self, record: records.Record, entry: Entry) -> None:
        match record:
            case records.Begun(node):
                self._note_since(node, entry)
            case records.Saved(node, part, attempt):
                self.failure_counts.pop(node, None)
                self.since.pop(node, None)
                self.saved_supplied(node, part)
                if not part:
                    self._note_annotations(node, entries.annotations_of(entry))
                if entry.blob is not None:
                    self.blobs.setdefault(node, []).append(SavedBlob(attempt, part, entry.blob))
            case records.Wrote():
                self.variables |= entries.variables(entry)
            case records.Failed(node, count, final):
                self.failure_counts[node] = count
                self.deadlines.pop(node, None)
                if entry.value is not None:
                    self.failures[node] = entry.value
                self.due[node] = entries.due(entry)
                if (delay := entries.delay(entry)) is not None:
                    self.delays[node] = delay
                else:
                    self.delays.pop(node, None)
                self._note_since(node, entry)
                if final and node not in self.failed:
                    self.failed.append(node)
            case records.Again(node):
                self.due[node] = entries.due(entry)
                self.delays[node] = entries.delay(entry) or (0.0, 0.0)
                for moments in (self.since, self.deadlines):
                    for other in inside_or_behind(node, moments):
                        del moments[other]
            case records.Dropped(nodes):
                for node in nodes:
                    self.deadlines.pop(node, None)
                    self.taken.pop(node, None)
                    self.blobs.pop(node, None)
                    self.annotations.pop(node, None)
                    self.since.pop(node, None)
                    self.dropped(node)
                self.ended_fibers = untouched(self.ended_fibers, nodes)
            case records.Parked(node):
                self.parked = node
            case records.Undone():
                self.parked = None
            case records.Finished(status):
                self.finished = status
                self.cancelling = None
                self.kept, self.uncertain = entries.left_behind(entry)
            case records.Resumed():
                self.finished = self.parked = None
                self.kept = self.uncertain = ()
                self.resumed = True
                self.since.clear()
                self.failed.clear()
                self.ended_fibers.clear()

    def _note_since(self, node: str, entry: Entry) -> None:
        since = entries.since(entry)
        if since is not None:
            self.since.setdefault(node, since)

    def _note_annotations(self, node: str, annotations: str | None) -> None:
        if annotations is not None:
            self.annotations[node] = annotations
        else:
            self.annotations.pop(node, None)


def inside(expander: str, nodes: Iterable[str]) -> list[str]:
    """Those of these nodes that are in the graph that the expander returned, or in one that its sink returned."""
    return [node for node in nodes if node.startswith((f"{expander}/", f"{expander}~"))]


def inside_or_behind(expander: str, nodes: Iterable[str]) -> list[str]:
    """The same, with what comes next in the chain of graphs that the expander may be the sink of (`model.walks`)."""
    around, slash, _ = expander.rpartition("/")
    base, _, depth = around.rpartition("~")
    if not depth.isdigit() or not base:
        base, depth = around, "1"
    found = inside(expander, nodes)
    for node in nodes if slash else ():
        place = node.removeprefix(f"{base}~").partition("/")[0]
        if node.startswith(f"{base}~") and place.isdigit() and int(place) > int(depth):
            found.append(node)
    return found


def untouched(fibers: list[str], dropped: Sequence[str]) -> list[str]:
    """Of these those of which nothing was dropped. The others will not know what they were notified of after that."""
    return [id for id in fibers if id not in dropped and not inside(id, dropped)]


def load_values(found: Iterable[Entry], run: Run) -> tuple[Outputs, dict[str, dict[tuple[str, int], bytes]]]:
    """The saved values that the run may need, and what the *begun* records of its undoable tasks carry."""
    outputs = Outputs()
    carried: dict[str, dict[tuple[str, int], bytes]] = {}
    for entry in found:
        row = run.rows.get(entry.node)
        if row is None:
            continue
        if entry.kind == "saved":
            part, attempt = entries.saved_part(entry)
            if row.saved >> part & 1 and not row.released and (row.attempt in (0, attempt) or row.state != "done"):
                outputs.put_part(entry.node, attempt, part, _value_of(entry))
        elif entry.kind == "begun" and row.begun and row.effect == "undoable":
            carried[entry.node] = entries.carried(entry)
    return outputs, carried


def find_values(found: Iterable[Entry], wanted: set[tuple[str, int]]) -> dict[tuple[str, int], Part]:
    """The values of these parts, each as it was saved last."""
    latest: dict[tuple[str, int], Part] = {}
    for entry in found:
        if entry.kind == "saved":
            key = (entry.node, entries.saved_part(entry)[0])
            if key in wanted:
                latest[key] = _value_of(entry)
    return latest


def find_outcomes(found: Iterable[Entry]) -> dict[str, Outcome]:
    """The outcomes of children, each as it was saved last."""
    known: dict[str, Outcome] = {}
    for entry in found:
        if entry.kind == "saved" and CHILD in entry.node:
            record = entries.record_of(entry, _nothing)
            if isinstance(record, records.Saved):
                note_part(known, record, _value_of(entry))
        elif entry.kind == "dropped":
            record = entries.record_of(entry, _nothing)
            for node in record.nodes if isinstance(record, records.Dropped) else ():
                known.pop(node, None)
    return known


def _nothing(reference: str) -> bytes:
    raise AssertionError("the outcome of a child is no graph")


def _value_of(entry: Entry) -> Part:
    return entry.value if entry.value is not None else Blob(entry.blob or "")
