"""The task variables of one run (design 2.11): what is committed, and what is about to be.

What a task wrote waits here until all else of its output is where it must be. Then its values are worked out upon what
those before it left, its last save counts, and both stand in one batch of the journal. So commits go one after the
other: a *turn* is taken by one task until core has answered to its save, or has said nothing because that came too
late. Where functions of users have to be called, a worker does that, for all tasks that wait at that moment at once.

What is committed is shown to readers when the batch is durable, and not before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceflow.core.model import events, records
from onceflow.data.objects import Object
from onceflow.driver import entries
from onceflow.driver.hooks import Feature
from onceflow.driver.saving import Save
from onceflow.storage.journal import Entry
from onceflow.values import variables
from onceflow.values.variables import Step, Updates

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.history import History

MOST_AT_ONCE = 256
"""Tasks whose updates a worker is given at once."""

Values = dict[str, bytes]


class Variables(Feature):
    """Of one driver."""

    def __init__(self, driver: Driver, past: History) -> None:
        super().__init__(driver, past)
        self._saving = driver.saving
        self.committed = past.variables
        """The packed values that are durable."""
        self._latest = dict(self.committed)
        """The packed values after everything that was appended."""
        self._written: dict[str, tuple[int, Sequence[Step]]] = {}
        """Node → attempt, and what it wrote, until that is appended."""
        self._stored: dict[tuple[str, int], int] = {}
        """(node, attempt) of those → mask of the parts whose bytes are where they must be."""
        self._queue: deque[Save] = deque()
        """The last saves of those whose turn has not come."""
        self._asking = False
        """Whether a worker is just working out values."""
        self._worked_out: deque[tuple[Save, Values | bytes]] = deque()
        """Values that stand if all before them do, or what was raised."""
        self._turn: tuple[Save, Values] | None = None
        """Tasks that were reported to core and have not been appended."""
        self._undurable: deque[tuple[int, Values]] = deque()
        """Number of the batch → values that are committed with it."""

    @classmethod
    def is_needed(cls, past: History) -> bool:
        return bool(past.variables)

    def write(self, node: str, attempt: int, steps: Sequence[Step]) -> None:
        """What an attempt wrote that has just returned."""
        self._written[node] = (attempt, steps)

    def holds_back(self, save: Save) -> bool:
        """The bytes of this part are where they must be. Whether core is notified later, because its turn has to
        come."""
        written = self._written.get(save.node)
        row = self._driver.run.rows.get(save.node)
        if written is None or written[0] != save.attempt or row is None:
            return False
        key = (save.node, save.attempt)
        stored = self._stored[key] = self._stored.get(key, 0) | 1 << save.part
        if (stored | row.saved) != row.every_part:
            return False
        self._queue.append(save)
        return True

    def look(self) -> bool:
        if self._turn is not None:  # it came too late, and what was worked out after it does not stand
            self._turn = None
            self._queue.extendleft([save for save, _ in reversed(self._worked_out)])
            self._worked_out.clear()
        while self._worked_out or (not self._asking and self._work_out()):
            save, values = self._worked_out.popleft()
            if not self._saving.is_wanted(save):
                self._queue.extendleft([other for other, _ in reversed(self._worked_out)])
                self._worked_out.clear()
            elif isinstance(values, bytes):
                self._driver.raised_last[save.node] = values
                self._driver.tell(events.SaveFailed(*save, permanent=True))
                return True
            else:
                self._turn = (save, values)
                self._driver.tell(events.Saved(*save))
                return True
        return False

    def _work_out(self) -> bool:
        """Find the values of the next one. False if no task waits, or a worker has to find them first."""
        waiting: list[Save] = []
        while self._queue and len(waiting) < MOST_AT_ONCE:
            save = self._queue.popleft()
            if not self._saving.is_wanted(save):
                continue
            plain = variables.plain_values(self._written[save.node][1])
            if plain is not None and not waiting:
                self._worked_out.append((save, plain))
                return True
            waiting.append(save)
        if not waiting:
            return False
        steps = [(save.node, list(self._written[save.node][1])) for save in waiting]
        names = {step.name for _, written in steps for step in written}
        known = {name: value for name, value in self._latest.items() if name in names}
        updates = Updates(known, steps)

        def worked_out(parts: Sequence[bytes | Object], failure: bytes | None) -> None:
            self._asking = False
            found = [failure] * len(waiting) if failure else variables.outcomes(updates, _small(parts))
            self._worked_out.extend(zip(waiting, found, strict=True))
            self._driver.proceed()

        self._asking = True
        self._host.update(self._driver, updates, worked_out)
        return False

    def record(self, record: records.Wrote, mark: int) -> Entry:
        """The entry of a commit, which is part of the batch with this number. It marks that nothing more will be
        written, also if nothing was."""
        written = self._written.pop(record.node, None)
        if written is None:
            return entries.wrote(record, {})
        assert self._turn is not None, f"what {record.node} wrote is committed before its turn"
        (save, values), self._turn = self._turn, None
        assert save.node == record.node
        self._stored.pop((save.node, save.attempt), None)
        self._latest |= values
        self._undurable.append((mark, values))
        return entries.wrote(record, values)

    def became_durable(self, batches: int) -> None:
        """So many batches are durable."""
        if not self._undurable or self._undurable[0][0] > batches:
            return
        while self._undurable and self._undurable[0][0] <= batches:
            self.committed |= self._undurable.popleft()[1]
        self._host.changed_variables(self._driver)

    def drop(self, node: str, through: int) -> None:
        """What attempts up to this one wrote counts for nothing."""
        written = self._written.get(node)
        if written is not None and written[0] <= through:
            del self._written[node]
            self._stored.pop((node, written[0]), None)


def _small(parts: Sequence[bytes | Object]) -> list[bytes]:
    return [part for part in parts if isinstance(part, bytes)]  # what is larger than a value may be was refused
