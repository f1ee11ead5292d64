"""Running a run again from a task on: a new run that begins with what another one has saved.

Everything that the given tasks lead to is done again; the rest of what was saved is copied. So the journal of the new
run reads as if it had come that far by itself and had been interrupted, and core decides as ever: if something that
was not saved has to run again and may come out otherwise, whatever was made of it is not reused either. Effects that
the first run has had stay its own: the new run never takes them back.

With a graph of its own, a new run reuses what is the same in both: the same task, with the same options and arguments,
above which everything is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from onceflow.authoring import graph_storage
from onceflow.core.model import records
from onceflow.core.model.graph import Graph
from onceflow.core.rules.state import EPOCH_BITS
from onceflow.core.run import Run
from onceflow.driver import entries
from onceflow.driver.history import History
from onceflow.engine import submission
from onceflow.errors import InvalidOption, NameTaken, NoSuchTask
from onceflow.storage.blobs import Author
from onceflow.storage.journal import AppendEntries, CreateRun, Entry, Failed, RunRow, Taken, commit
from onceflow.values import sealed_bytes
from onceflow.values.metadata import encode as encode_metadata

if TYPE_CHECKING:
    from onceflow.core.model.rows import Row
    from onceflow.storage.run_stores import Place

EPOCH = 1
"""In which everything that is copied was done, as far as the new run knows."""

OF_ATTEMPTS = ("saved", "wrote", "abandoned")
OF_NODES = ("done", "expanded", "handled", "trusted")
"""Kinds of entries that are copied."""


def create(
    row: RunRow,
    *,
    home: Place,
    id: Callable[[], str],
    from_task: str | Sequence[str] = (),
    node: object | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> str:
    """The id of a new run without a driver; of the run that has the name already, if it is the same piece of
    work. `node` leads to the graph to run instead of that of the run. Raises `NoSuchTask` and `NameTaken`."""
    tasks = [from_task] if isinstance(from_task, str) else list(from_task)
    if not tasks and node is None:
        raise InvalidOption("from_task", "say from which task on, or give a graph to run instead", kind="setting")
    if name is not None:
        submission.check_name(name)
    with home.journal.load(row.id) as loaded:
        before = _Before(row, loaded.graph, loaded.settings, list(loaded.entries), home)
    about = row.metadata if metadata is None else encode_metadata(metadata)
    if node is None:
        opening = _same_graph(before, tasks, name, about, home, id())
    else:
        opening = _other_graph(before, tasks, node, name, about, home, id)
    outcome = commit(home.journal, opening)
    match outcome.refusal:
        case Failed(error):
            raise error
        case Taken(other) if other.digest == opening[0].digest:
            return other.id
        case Taken(other):
            assert name is not None
            raise NameTaken(name, other.id)
    return opening[0].id


class _Before:
    """The run that is run again."""

    def __init__(self, row: RunRow, graph: bytes, settings: bytes, history: list[Entry], home: Place) -> None:
        self.row = row
        self.definition = graph
        self.settings = settings
        self.history = history
        past = History.read(history, home.blobs.read)
        self.run = Run.load(graph_storage.decode_structure(graph), past.records, epoch=row.epoch + 1)

    def copied(self, tasks: Iterable[str], copying: _Copying) -> list[Entry]:
        """What is saved, without what these tasks lead to."""
        saved = _saved(self.history)
        written = {entry.node: set(entries.variables(entry)) for entry in saved if entry.kind == entries.WROTE}
        dropped = _led_to(self.run, tasks, self.row.id)
        while rivals := _rivals(written, dropped):
            dropped |= _led_to(self.run, rivals, self.row.id)
        return [copying.entry(entry) for entry in saved if entry.node not in dropped]


Opening = tuple[CreateRun, AppendEntries]


def _same_graph(
    before: _Before, tasks: Sequence[str], name: str | None, metadata: str | None, home: Place, id: str
) -> Opening:
    copying = _Copying(id, home)
    references = [copying.copy(reference) for reference in graph_storage.references_of(before.definition)]
    create = CreateRun(
        id=id,
        name=name,
        workflow=before.row.workflow,
        digest=before.row.digest,
        graph=graph_storage.with_references(before.definition, references),
        settings=before.settings,
        fresh=True,
        metadata=metadata,
    )
    buffers = [entries.buffer(reference) for reference in references]
    return create, AppendEntries(id, EPOCH, [*buffers, *before.copied(tasks, copying)])


def _other_graph(
    before: _Before,
    tasks: Sequence[str],
    node: object,
    name: str | None,
    metadata: str | None,
    home: Place,
    id: Callable[[], str],
) -> Opening:
    settings = submission.decode_settings(before.settings)
    with sealed_bytes.using(home.path):
        made = submission.prepare(
            node,
            name=name,
            on_failure=settings.on_failure,
            timeout=settings.timeout,
            metadata=None,
            queue=settings.queue,
            priority=settings.priority,
            home=home,
            id=id,
        )
    create, *others = made.opening
    assert isinstance(create, CreateRun)
    buffers = [entry for request in others if isinstance(request, AppendEntries) for entry in request.entries]
    copied = before.copied([*tasks, *_different(before.run.graph, made.graph)], _Copying(made.run, home))
    create = msgspec.structs.replace(create, owner=None, status="pending", metadata=metadata)
    return create, AppendEntries(made.run, EPOCH, [*buffers, *copied])


def _led_to(run: Run, tasks: Iterable[str], id: str) -> set[str]:
    """These tasks, and all that anything leads to from them, also in returned graphs."""
    stack: list[Row] = []
    for task in tasks:
        row = run.rows.get(task)
        if row is None:
            raise NoSuchTask(id, task, list(run.rows))
        stack.append(row)
    found: set[str] = set()
    while stack:
        row = stack.pop()
        if row.id not in found:
            found.add(row.id)
            stack += [consumer for consumer, _, _ in row.consumers]
    return found


def _rivals(written: Mapping[str, set[str]], dropped: set[str]) -> list[str]:
    """Tasks that would be kept, and wrote to a variable that one of the others wrote to: what that has added cannot be
    separated from what they have, so they write again, too."""
    again = {name for node in dropped for name in written.get(node, ())}
    return [node for node, names in written.items() if node not in dropped and names & again]


def _different(before: Graph, now: Graph) -> list[str]:
    """The nodes that are not the same in both graphs, and those of the first one that the second does not have."""
    same: set[str] = set()
    for node in before.nodes:
        position = now.index.get(node.id)
        if position is None:
            continue
        other = now.nodes[position]
        read = [(before.nodes[parent].id, mask) for parent, mask in node.edges]
        read_now = [(now.nodes[parent].id, mask) for parent, mask in other.edges]
        told = (node.task, node.options, node.parts, node.fingerprint)
        if told == (other.task, other.options, other.parts, other.fingerprint) and read == read_now:
            same.add(node.id)
    return [node.id for node in before.nodes if node.id not in same]


def _saved(history: Iterable[Entry]) -> list[Entry]:
    """What counts of what is saved of each node, and what belongs to it, in the order in which it was written."""
    found: dict[str, list[tuple[int, Entry]]] = {}
    for number, entry in enumerate(history):
        if entry.kind in OF_ATTEMPTS:
            attempt = entries.attempt_of(entry)
            known = found.get(entry.node, [])
            found[entry.node] = [
                (place, other)
                for place, other in known
                if other.kind not in OF_ATTEMPTS or entries.attempt_of(other) == attempt
            ]  # if it ran again, what was saved of the earlier output does not count
            found[entry.node].append((number, entry))
        elif entry.kind in OF_NODES:
            found.setdefault(entry.node, []).append((number, entry))
        elif entry.kind == "dropped":
            record = entries.record_of(entry, _nothing)
            assert isinstance(record, records.Dropped)
            for node in record.nodes:
                found.pop(node, None)
    return [entry for _, entry in sorted([each for known in found.values() for each in known], key=itemgetter(0))]


def _nothing(reference: str) -> bytes:
    raise AssertionError(f"{reference} is not needed")


class _Copying:
    """What one run has saved, as that of another."""

    def __init__(self, run: str, home: Place) -> None:
        self._author = Author(run, EPOCH, home.engine)
        self._blobs = home.blobs
        self._copies = 0
        self._attempts: dict[tuple[str, int], int] = {}
        """(node, attempt) → the attempt of the new run that counts as having made it."""

    def entry(self, entry: Entry) -> Entry:
        if entry.kind in OF_ATTEMPTS:
            number = (EPOCH << EPOCH_BITS) + len(self._attempts) + 1
            made_by = self._attempts.setdefault((entry.node, entries.attempt_of(entry)), number)
            entry = entries.with_attempt(entry, made_by)
        if entry.blob is not None:
            entry = msgspec.structs.replace(entry, blob=self.copy(entry.blob, entry.node))
        return entry

    def copy(self, reference: str, node: str = "") -> str:
        self._copies += 1
        return self._blobs.write(self._author, f"copy.{self._copies}.0.{node}", [self._blobs.map(reference)])
