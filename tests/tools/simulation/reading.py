"""What a prefix of the journal says, read independently of `Run.load`.

The simulation keeps two readings: one of everything that was appended, and one of what is committed, which is all that
a crash would leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from onceflow.core.model import records
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart
from tests.tools.simulation.attempts import Attempt

Entry = tuple[records.Record, Attempt | None]
"""A record, and the attempt it is about."""


class Reading:
    """The state that follows from the entries so far."""

    def __init__(self) -> None:
        self.saved: dict[str, dict[int, Attempt]] = {}
        self.refs: dict[str, Mapping[int, RefPart]] = {}
        """Node → the refs in its saved output."""
        self.told: dict[str, Attempt] = {}
        """Node → the attempt whose save was read last. The first one told the refs."""
        self.wrote: dict[str, Attempt] = {}
        """Node → the attempt whose writes to task variables are committed."""
        self.recorded: dict[str, Attempt] = {}
        self.abandoning: dict[str, tuple[int, str]] = {}
        """Sink → the attempt with whose output its graph ends, and the expander of that."""
        self.begun: dict[str, Attempt] = {}
        """The last begun attempt; of an undoable task only until it is undone, of an irrevocable one for ever,
        unless that never started."""
        self.recovering: Set[str] = frozenset()
        """The members of recoveries that are not over; a second one may begin inside the first."""
        self.graphs: dict[str, Graph] = {}
        self.cancelled: records.Cancelled | None = None
        self.finished: records.Status | None = None
        self.parked: Set[str] = frozenset()
        self.failed: set[str] = set()
        self.failures: dict[str, int] = {}

    def copy(self) -> Reading:
        """An independent reading of the same entries."""
        other = Reading()
        other.saved = {node: dict(parts) for node, parts in self.saved.items()}
        other.refs, other.told = dict(self.refs), dict(self.told)
        other.wrote = dict(self.wrote)
        other.recorded = dict(self.recorded)
        other.abandoning = dict(self.abandoning)
        other.begun = dict(self.begun)
        other.recovering = self.recovering
        other.graphs = dict(self.graphs)
        other.cancelled, other.finished, other.parked = self.cancelled, self.finished, self.parked
        other.failed = set(self.failed)
        other.failures = dict(self.failures)
        return other

    def after_crash(self) -> Reading:
        """What is left of this by a crash: what is saved of a task that writes variables or has joined others (2.11),
        and what a graph ends with (2.8), count as a whole or not at all."""
        torn = [node for node, parts in self.saved.items() if self._is_torn(node, parts)]
        if not torn:
            return self
        left = self.copy()
        for node in torn:
            left._drop(node)
        return left

    def is_saved_in_part(self, node: str) -> bool:
        """Whether some of its output is saved, and some is not."""
        parts = self.saved.get(node)
        if not parts:
            return False
        declared = 1 if node in self.graphs else next(iter(parts.values())).task.parts
        return len(parts) != declared + len(self.refs[node])

    def _is_torn(self, node: str, parts: Mapping[int, Attempt]) -> bool:
        latest = next(iter(parts.values()))
        whole = (
            latest.task.options.writes
            or bool(latest.joined)
            or (node in self.abandoning and self.abandoning[node][0] == latest.number)
        )
        return whole and self.is_saved_in_part(node) and node not in self.recovering

    @property
    def stopping(self) -> bool:
        """Nothing new starts: it has failed, or somebody cancelled it."""
        return bool(self.failed) or self.cancelled is not None

    def read(self, entry: Entry) -> None:
        """Takes in one more entry."""
        record, attempt = entry
        match record:
            case records.Saved():
                assert attempt is not None
                self._save(record, attempt)
            case records.Wrote():
                assert attempt is not None
                self.wrote[record.node] = attempt
            case records.Begun():
                assert attempt is not None
                self.begun[record.node] = attempt
            case records.Withdrawn():
                del self.begun[record.node]
            case records.Abandoned():
                self.abandoning[record.node] = (record.attempt, record.expander)
            case records.Done():
                assert attempt is not None
                self.recorded[record.node] = attempt
            case records.Recovering():
                self.recovering = self.recovering | set(record.nodes)
            case records.Undone():
                self.begun.pop(record.node, None)
                self.parked = frozenset()
                if record.node not in self.recovering:
                    self._drop(record.node)
            case records.Dropped():
                self.recovering = self.recovering - set(record.nodes)
                for node in record.nodes:
                    self._drop(node)
            case records.Parked():
                self.parked = self.parked | {record.node}
            case records.Cancelled():
                self.cancelled = record
            case records.Finished():
                self.finished = record.status
            case records.Failed():
                self.failures[record.node] = record.failures
                if record.final:
                    self.failed.add(record.node)
            case records.Resumed():
                self.cancelled = self.finished = None
                self.parked = frozenset()
                self.failed.clear()
                self.failures.clear()

    @property
    def ended(self) -> dict[str, str]:
        """Sink → expander (empty for the run) of the graphs that have ended before they were done."""
        if not self.abandoning:
            return {}
        return {
            sink: expander
            for sink, (attempt, expander) in self.abandoning.items()
            if sink not in self.recovering
            and (parts := self.saved.get(sink))
            and all(version.number == attempt for version in parts.values())
            and len(parts) == next(iter(parts.values())).task.parts
        }

    def _save(self, record: records.Saved, attempt: Attempt) -> None:
        parts = self.saved.setdefault(record.node, {})
        if not attempt.repeatable and any(other is not attempt for other in parts.values()):
            parts.clear()
        parts[record.part] = attempt
        if self.told.get(record.node) is not attempt:
            self.told[record.node] = attempt
            self.refs[record.node] = dict(enumerate(record.refs, attempt.task.parts))
        if record.graph is not None:
            self.graphs[record.node] = record.graph

    def _drop(self, node: str) -> None:
        self.saved.pop(node, None)
        self.refs.pop(node, None)
        self.told.pop(node, None)
        self.recorded.pop(node, None)
        self.graphs.pop(node, None)
