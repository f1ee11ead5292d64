"""Outcomes of children, forked fibers and graphs beside a fiber, until they are joined (design 2.11).

Their rows are forgotten when one fiber has joined them, and others may do so much later: so what the journal records of
them is kept here, if it is small. Otherwise, and after a crash, it is read from the journal, for all of them at once,
because that means reading all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from onceflow.core.model.records import Saved
from onceflow.core.model.refs import RefPart, bits
from onceflow.data.objects import HeldRef
from onceflow.driver.hooks import Feature
from onceflow.driver.outputs import Blob, Part

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.history import History

CHILD = "/child-"
"""Marks the ids of outcomes."""

PARTS = 2
"""Of an outcome: the value and the error."""

LARGEST = 4096
"""Bytes of a value that is kept."""


class Outcome(msgspec.Struct):
    """Of one child."""

    attempt: int
    refs: tuple[RefPart, ...] = ()
    parts: dict[int, Part | None] = {}
    """Those that are saved; None for what is too large to be kept."""

    @property
    def is_whole(self) -> bool:
        return len(self.parts) == PARTS + len(self.refs)

    def declared(self) -> list[Part]:
        """Value and error."""
        return [part for number in range(PARTS) if (part := self.parts[number]) is not None]

    def held(self) -> list[HeldRef]:
        """The refs in it, as the joiner of the child has them: what they refer to is saved already."""
        return [
            HeldRef(list(bits(ref.holders)), -1, self.parts[PARTS + number])  # type: ignore[arg-type]
            for number, ref in enumerate(self.refs)
        ]


NONE = Outcome(0)
"""The outcome of a node that is no child of this run, or was ended before it came to its end."""


class Outcomes(Feature):
    """Those of one run."""

    def __init__(self, driver: Driver, past: History) -> None:
        super().__init__(driver, past)
        self._store = driver.store
        self._known: dict[str, Outcome] = {}

    def note(self, record: Saved, value: bytes | None, blob: str | None) -> None:
        """A part of one is being saved."""
        note_part(self._known, record, Blob(blob or "") if value is None else value)

    def dropped(self, nodes: Sequence[str]) -> None:
        """They will come again."""
        for node in nodes:
            self._known.pop(node, None)

    def joined(self, nodes: Sequence[str]) -> None:
        """Other joiners are improbable."""
        self.dropped(nodes)

    def find(self, node: str, *, in_journal: bool) -> Outcome | None:
        """The outcome of a child that has ended; `NONE` if it has left none. If it is not kept, it is looked up
        `in_journal`."""
        found = self._known.get(node)
        if found is not None and found.is_whole and None not in found.parts.values():
            return found
        if not in_journal:
            return None
        if found is None or not found.is_whole:
            self._known |= self._store.outcomes()
            found = self._known.get(node)
        if found is None or not found.is_whole:
            return NONE
        missing = {(node, part) for part, value in found.parts.items() if value is None}
        if missing:
            found = msgspec.structs.replace(found, parts=dict(found.parts))
            for (_, part), value in self._store.values(missing).items():
                found.parts[part] = value
        return found


def note_part(known: dict[str, Outcome], record: Saved, value: Part) -> None:
    """A part of an outcome is saved. Parts of other attempts no longer count."""
    found = known.get(record.node)
    if found is None or found.attempt != record.attempt:
        found = known[record.node] = Outcome(record.attempt)
    found.refs = record.refs or found.refs
    found.parts[record.part] = None if isinstance(value, bytes) and len(value) > LARGEST else value
