"""What a driver writes down, and what waits for that.

Records are collected and handed to the journal in batches (`flush`), which are answered in their order. A durable
command is held until the batch with the last record before it is answered. What it needs of memory is taken when it is
issued, because memory may be released while it waits; what only the journal has is read when it is carried out, because
by then the journal has it (`inputs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec

from onceflow.core.model import commands, records
from onceflow.data.objects import Object
from onceflow.driver import entries
from onceflow.driver.children import CHILD
from onceflow.driver.inputs import NOTHING, Needs
from onceflow.driver.outputs import Blob
from onceflow.driver.saving import Save
from onceflow.driver.state import DriverState
from onceflow.storage.journal import AppendEntries, Entry, SetStatus


class Held(msgspec.Struct, gc=False):
    """A durable command that waits for a commit."""

    mark: int
    """The number of the batch."""
    command: commands.Command
    needs: Needs
    """What it reads."""

    def survives(self, objects: Set[Object], replaced: Mapping[Object, Blob]) -> bool:
        """Whether it can be carried out although these objects are no more."""
        values, refs, output = self.needs
        if output is not None:
            values = [*values, output]
        for value in values if refs is None else [*values, refs.contents]:
            for number, part in enumerate(value):
                if isinstance(part, Object) and part in objects:
                    if part not in replaced:
                        return False
                    value[number] = replaced[part]
        return True


class Batching(DriverState):
    """Collects entries, and holds commands."""

    __slots__ = ()

    def flush(self) -> None:
        """Hand the journal what has been collected."""
        if self.over:
            return
        if self.run.epoch > 1 and self._submitted and not self._committed:
            return  # the first batch claims the run; if that is refused, another driver of this engine has this epoch
        requests = list(self._opening)
        status, due = self.status, self.due
        if (status, due) != self._written or (self.measurements.due and (self._entries or requests)):
            measured = self.measurements.take(self.run.epoch)
            if measured is not None:
                self._entries.insert(0, entries.measured(measured))  # the entry that ends the run is its last one
        if self._entries:
            requests.append(AppendEntries(self.id, self.run.epoch, self._entries))
            if self._rare is not None:
                requests += self._rare.marks()
        if (status, due) != self._written:
            requests.append(SetStatus(self.id, self.run.epoch, status, due))
            self._written = (status, due)
        if requests:
            self._opening = ()
            self._entries = []
            self._submitted += 1
            self._host.commit(self._whole, requests)

    def note(self, entry: Entry) -> None:
        """Write this down with what is written next."""
        self._entries.append(entry)

    def _hold(self, command: commands.Command, needs: Needs = NOTHING) -> None:
        mark = self._submitted + bool(self._entries or self._opening)
        self._held.append(Held(mark, command, needs))

    def _append(self, record: records.Record) -> None:
        match record:
            case records.Saved(node, part, attempt):
                annotations = self.annotations.get(node) if self.annotations and not part else None
                value, blob = self._saving.record(Save(node, part, attempt))
                if self._rare is not None:
                    took = self._rare.saved(node, part)
                    if took is not None:
                        self._entries.append(took)
                if CHILD in node:
                    self.rare.outcomes.note(record, value, blob)
                entry = entries.saved(record, value, blob, annotations)
            case records.Wrote():
                mark = self._submitted + 1
                entry = self.rare.variables.record(record, mark)
            case records.Begun(node, _, carried):
                entry = entries.begun(record, self._inputs.carry(node, carried), self._since_when(node))
            case records.Failed(node, failures, final):
                due = 0.0 if final else self.rare.delays.failed(node, failures)
                delay, since = self.rare.delays.asked_for(node), self.rare.limits.since(node)
                entry = entries.failed(record, self.raised_last.get(node), due, since, delay)
            case records.Again(node):
                self.rare.limits.forget_inside(node)
                entry = entries.again(record, self.raised_last.get(node), *self.rare.delays.ended(node))
            case records.Undone(node):
                self._inputs.forget_carried(node)
                entry = entries.plain(record)
            case records.Dropped(nodes):
                self.rare.dropped(nodes)
                for node in nodes:
                    self.annotations.pop(node, None)
                entry = entries.plain(record)
            case _:
                entry = entries.plain(record)
        self._entries.append(entry)

    def _since_when(self, node: str) -> float | None:
        """Its time runs, if it may not take as long as it likes."""
        call = self.run.rows[node].node.call
        return None if call is None or call.settings.total_timeout is None else self.rare.limits.begun(node)
