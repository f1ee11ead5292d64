"""Sending events to runs (design 2.11): into the mailbox, which is in the journal; then whoever drives it is rung.

Whether the payload is what a run waits for is looked up in its graph. Many runs are of one graph, so what was found is
remembered by its digest. (What fibers wait for, or graphs that tasks returned, is not known beforehand: the payload is
checked where it is taken, see `authoring.waiting`.)
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onceflow.authoring import storing
from onceflow.engine.statuses import ENDED
from onceflow.errors import EventRefused, NoSuchRun, OnceflowError
from onceflow.storage.journal import Failed, Missing, RunRow, SendEvent, commit
from onceflow.values import context, packing
from onceflow.values.fitting import fit

if TYPE_CHECKING:
    from onceflow.engine.driving.hub import Hub
    from onceflow.storage.places import Place

MOST_REMEMBERED = 1000

AT_ONCE = 500
"""Events that are sent in one transaction. Those who are rung work while the others are sent."""

Types = dict[str, list[Any]]
"""Key → the types that are waited for under it."""


class Letter(NamedTuple):
    """An event, and for whom."""

    row: RunRow
    key: str
    payload: object = None
    id: str | None = None


class Mail:
    """Thread-safe."""

    def __init__(self, home: Place, hub: Hub) -> None:
        self._home = home
        self._hub = hub
        self._types: dict[str, Types] = {}
        """Digest of a graph → what it waits for."""

    def send(self, letters: Sequence[Letter]) -> None:
        """Returns when all are durable. If one is refused, none is sent."""
        requests = [(letter.row, self._request(letter)) for letter in letters]
        for start in range(0, len(requests), AT_ONCE):
            some = requests[start : start + AT_ONCE]
            outcome = commit(self._home.journal, [request for _, request in some])
            if isinstance(outcome.refusal, Failed):
                raise outcome.refusal.error
            if isinstance(outcome.refusal, Missing):
                raise NoSuchRun(some[outcome.results.index(outcome.refusal)][0].id)
            self._ring([row for row, _ in some])

    def _request(self, letter: Letter) -> SendEvent:
        row, key, payload, id = letter
        if row.status in ENDED:
            raise EventRefused(row.id, key, f"it has ended ({row.status})")
        packed = packing.dump(self._check(row, key, payload))
        return SendEvent(row.id, key, id or self._new_id(), packed)

    def _ring(self, rows: Sequence[RunRow]) -> None:
        here = [row.id for row in rows if row.owner == self._home.engine]
        if here:
            self._hub.look_for_mail(*here)
        for owner in {row.owner for row in rows if row.owner is not None} - {self._home.engine}:
            self._home.ring(owner)

    def _new_id(self) -> str:
        """A task sends an event once, however often it runs."""
        running = context.running.get()
        if running is None:
            return uuid.uuid4().hex
        token = context.job_token.get()
        number = context.sent[token] = context.sent.get(token, 0) + 1
        return f"{running['key']}/{number}"

    def _check(self, row: RunRow, key: str, payload: object) -> object:
        """The payload as somebody waits for it. Raises `EventRefused`."""
        problem = ""
        for wanted in self._waited_for(row).get(key, ()):
            try:
                return fit(payload, wanted)
            except TypeError as error:
                problem = f"it waits for {getattr(wanted, '__qualname__', wanted)}: {error}"
        if problem:
            raise EventRefused(row.id, key, problem)
        return payload

    def _waited_for(self, row: RunRow) -> Types:
        found = self._types.get(row.digest)
        if found is None:
            with self._home.journal.load(row.id) as loaded:
                try:
                    graph = storing.decode(loaded.graph, self._home.blobs.read).graph
                except OnceflowError:
                    return {}  # its code is not here: whoever drives the run has it
            found = {}
            for node in graph.nodes:
                wait = node.call.settings.wait
                if wait is not None and wait.key is not None:
                    found.setdefault(wait.key, []).append(wait.type)
            if len(self._types) >= MOST_REMEMBERED:
                self._types.clear()
            self._types[row.digest] = found
        return found
