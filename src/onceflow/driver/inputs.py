"""What attempts and undos read: found when they are decided, read when they start.

In between, memory may be released; so what is in memory is taken at once. What only the journal has is read last,
because a record that was appended a moment ago is not there yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onceflow.core.rows import Row
from onceflow.driver.outputs import Outputs, Part
from onceflow.driver.work import Store

Key = tuple[str, int]
"""(node, part): a value that is not in memory and has to be read from the journal."""

Value = list[Part | Key]
"""The parts of one value, each in memory, in a blob, or in the journal."""


class Inputs:
    """Finds and reads values. `rows` are those of the run; `carried` the inputs that *begun* records carry, by node."""

    def __init__(
        self, outputs: Outputs, store: Store, rows: Mapping[str, Row], carried: dict[str, dict[Key, bytes]] | None
    ) -> None:
        self._outputs = outputs
        self._store = store
        self._rows = rows
        self._carried = carried or {}
        self._swept = 0
        """How many were left of `_carried` when it was last swept."""

    def of_attempt(self, row: Row) -> list[Value]:
        """What the slots of its arguments read."""
        slots = row.node.call.slots
        return [self._find(row.parents[edge][0], part) for edge, part in slots] if slots else []

    def of_undo(self, row: Row) -> list[Value]:
        """The same for its undo, which sees what the attempt saw."""
        carried = self._carried.get(row.id, {})
        return [self._find(row.parents[edge][0], part, carried) for edge, part in row.node.call.slots]

    def output(self, row: Row) -> Value:
        """Its own output, as a whole."""
        return self._find(row, None)

    def read(self, values: list[Value]) -> tuple[list[Part], Sequence[int]]:
        """As `Work` has it: all parts, and how many of them belong to each value."""
        missing = {part for value in values for part in value if isinstance(part, tuple)}
        stored = self._store.values(missing) if missing else {}
        parts = [stored[part] if isinstance(part, tuple) else part for value in values for part in value]
        return parts, () if len(parts) == len(values) else [len(value) for value in values]

    def is_kept(self, value: Value) -> bool:
        """Whether an output that an undo may see can be read. It may have been released without having been saved."""
        missing = {part for part in value if isinstance(part, tuple)}
        return not missing or not missing - self._store.values(missing).keys()

    def carry(self, node: str, keys: Iterable[Key]) -> list[bytes]:
        """The inputs that go into the *begun* record of a node. They are remembered for its undo."""
        values: dict[Key, bytes] = {}
        for key in keys:
            value = self._outputs.get(*key)
            assert isinstance(value, bytes)
            values[key] = value
        if values:
            self._carried[node] = values
            self._sweep()
        return list(values.values())

    def forget_carried(self, node: str) -> None:
        self._carried.pop(node, None)

    def _find(self, row: Row, part: int | None, carried: Mapping[Key, bytes] | None = None) -> Value:
        found: Value = []
        for number in range(row.every_part.bit_length()) if part is None else (part,):
            value: Part | None = None
            if carried is not None:
                value = carried.get((row.id, number))
            if value is None:
                value = self._outputs.get(row.id, number)
            if value is None:
                value = self._outputs.get_privately(row.id, number)
            found.append((row.id, number) if value is None else value)
        return found

    def _sweep(self) -> None:
        """Forget what belongs to tasks that the run has forgotten, now and then."""
        if len(self._carried) > 2 * self._swept + 100:
            self._carried = {node: values for node, values in self._carried.items() if node in self._rows}
            self._swept = len(self._carried)
