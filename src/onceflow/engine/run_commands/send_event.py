"""Sending events to runs (design 2.11): into the mailbox, which is in the journal; then the engine that drives it is
rung.

Whether the payload is what a run waits for is looked up in its graph. Many runs are of one graph, so what was found is
remembered by its digest. What fibers wait for, or graphs that tasks returned, is not known beforehand: there the
payload is checked where it is taken (`authoring.event_nodes`). But the sender of a single event to a parked run gets an
error at once if it is invalid: what that run waits for is in its journal. (To look there for each of many would take
too long.)
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onceflow.authoring import graph_storage
from onceflow.core.model.graph import Graph
from onceflow.core.run import Run
from onceflow.driver.history import History
from onceflow.engine.inspect.journal_view import wake
from onceflow.engine.statuses import ENDED
from onceflow.errors import EventRefused, FunctionNotLoaded, NoSuchRun, OnceflowError
from onceflow.storage.journal import Failed, Missing, RunRow, SendEvent, commit
from onceflow.values import context, packed_outputs, scripts
from onceflow.values.type_fit import fit

if TYPE_CHECKING:
    from onceflow.engine.run_commands.reach import Reach
    from onceflow.storage.run_stores import Place

MOST_REMEMBERED = 1000

AT_ONCE = 500
"""Events that are sent in one transaction. The engines that are rung work while the others are sent."""

Types = dict[str, list[Any]]
"""Key → the types that are waited for under it."""


class Letter(NamedTuple):
    """An event, and its receiver."""

    row: RunRow
    key: str
    payload: object = None
    id: str | None = None


class Mail:
    """Thread-safe."""

    def __init__(self, home: Place, reach: Reach) -> None:
        self._home = home
        self._reach = reach
        self._types: dict[str, Types] = {}
        """Digest of a graph → what it waits for."""

    def send(self, letters: Sequence[Letter]) -> None:
        """Returns when all are durable. If one is refused, none is sent."""
        is_one = len(letters) == 1
        requests = [(letter.row, self._request(letter, is_one)) for letter in letters]
        for start in range(0, len(requests), AT_ONCE):
            some = requests[start : start + AT_ONCE]
            outcome = commit(self._home.journal, [request for _, request in some])
            if isinstance(outcome.refusal, Failed):
                raise outcome.refusal.error
            if isinstance(outcome.refusal, Missing):
                raise NoSuchRun(some[outcome.results.index(outcome.refusal)][0].id)
            self._reach.ring([row.id for row, _ in some])

    def _request(self, letter: Letter, is_one: bool) -> SendEvent:
        row, key, payload, id = letter
        if row.status in ENDED:
            raise EventRefused(row.id, key, f"it has ended ({row.status})")
        checked = self._check(row, key, payload)
        if is_one and row.status == "waiting" and key not in self._waited_for(row):
            self._check_parked(row, key, payload)
        packed = packed_outputs.dump(checked)
        return SendEvent(row.id, key, id or self._new_id(), packed)

    def _new_id(self) -> str:
        """A task sends an event once, however often it runs."""
        running = context.running.get()
        if running is None:
            return uuid.uuid4().hex
        token = context.job_token.get()
        number = context.sent[token] = context.sent.get(token, 0) + 1
        return f"{running['key']}/{number}"

    def _check(self, row: RunRow, key: str, payload: object) -> object:
        """The payload in the form that the waiting node expects. Raises `EventRefused`."""
        return _fitted(row, key, payload, self._waited_for(row).get(key, ()))

    def _check_parked(self, row: RunRow, key: str, payload: object) -> None:
        """Raises `EventRefused` if fibers wait for it, and for something else. Of plain data only that is certain: a
        class may be another one here than where the fiber runs."""
        if type(payload).__module__ != "builtins" or self._home.journal.mailbox(row.id, key):
            return
        with self._home.journal.load(row.id) as loaded:
            try:
                past = History.read(loaded.entries, self._home.blobs.read, _load_graph)
            except OnceflowError:
                return  # its code is not here: the engine that drives the run has it
        state = Run.load(graph_storage.decode_structure(loaded.graph), past.records, epoch=loaded.run.epoch + 1)
        wake(state, past)
        begun = [state.rows.get(id) for id, awaited in past.awaited.items() if awaited == key]
        known: list[Any] = [
            getattr(found.node.call, "settings", None) for found in begun if found and found.state != "done"
        ]
        if None not in known:
            _fitted(row, key, payload, [settings.wait.type for settings in known])

    def _waited_for(self, row: RunRow) -> Types:
        found = self._types.get(row.digest)
        if found is None:
            with self._home.journal.load(row.id) as loaded:
                try:
                    graph = graph_storage.decode(loaded.graph, self._home.blobs.read).graph
                except OnceflowError:
                    return {}  # its code is not here: the engine that drives the run has it
            found = {}
            for node in graph.nodes:
                wait = node.call.settings.wait
                if wait is not None and wait.key is not None:
                    found.setdefault(wait.key, []).append(wait.type)
            if len(self._types) >= MOST_REMEMBERED:
                self._types.clear()
            self._types[row.digest] = found
        return found


def _fitted(row: RunRow, key: str, payload: object, types: Iterable[Any]) -> object:
    """The payload as one of these, if there are any. Raises `EventRefused`."""
    problem = ""
    for wanted in types:
        try:
            return fit(payload, wanted)
        except TypeError as error:
            problem = f"it waits for {getattr(wanted, '__qualname__', wanted)}: {error}"
    if problem:
        raise EventRefused(row.id, key, problem)
    return payload


def _load_graph(node: str, value: bytes) -> Graph:
    """The graph that this task returned, with the classes of this process's script."""
    try:
        graph: Graph = scripts.loads(value)
    except Exception as error:
        raise FunctionNotLoaded(node, "the graph that it returned", f"{type(error).__name__}: {error}") from error
    return graph
