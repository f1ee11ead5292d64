"""What attempts and undos read: found when they are decided, read when they start.

In between, memory may be released; so what is in memory is taken at once. What only the journal has is read last,
because a record that was appended a moment ago is not there yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from onceflow.core.model.graph import narrow, widen
from onceflow.core.model.refs import RefPart
from onceflow.core.model.rows import Row
from onceflow.core.model.walks import taken_by
from onceflow.driver.actors import Use, Version
from onceflow.driver.outputs import Outputs, Part
from onceflow.driver.work import GivenRefs, Store

Key = tuple[str, int]
"""(node, part): a value that is not in memory and has to be read from the journal."""

DESCRIPTION = -1
"""Stands for a part among what a *begun* record carries: which refs are in the output, and which parts hold them."""

Value = list[Part | Key]
"""The parts of one value, each in memory, in a blob, or in the journal."""


class FoundRefs:
    """The refs in what is read. As in `GivenRefs`, but that some contents have yet to be read from the journal."""

    __slots__ = ("actors", "contents", "ids", "inner", "instead", "places", "sources", "tables")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.sources: list[Key] = []
        self.contents: Value = []
        self.inner: dict[int, list[int]] = {}
        self.tables: dict[int, list[int]] = {}
        self.actors: dict[int, Use] = {}
        self.instead: list[int] = []
        """Places among the inputs where a ref itself is read."""
        self.places: dict[Key, int] = {}
        """Source → place."""


class Needs(NamedTuple):
    """The inputs of an attempt, found when core decides to start it."""

    values: list[Value]
    """For each slot."""
    refs: FoundRefs | None = None
    output: Value | None = None
    """For an undo that may see what was returned."""

    @property
    def in_journal(self) -> bool:
        """Whether only the journal has some of it, which may have yet to be committed."""
        refs = self.refs
        return any(type(part) is tuple for value in self.values for part in value) or (
            refs is not None and any(type(part) is tuple for part in refs.contents)
        )


class Read(NamedTuple):
    """The inputs of an attempt, in the form of `Work`."""

    parts: list[Part]
    spans: Sequence[int]
    refs: GivenRefs | None
    has_output: bool


NOTHING = Needs([])
READ_NOTHING = Read([], (), None, False)


class Inputs(msgspec.Struct):
    """Finds and reads values. `rows` are those of the run; `carried` the inputs that *begun* records carry, by node."""

    _outputs: Outputs
    _store: Store
    _rows: Mapping[str, Row]
    carried: dict[str, dict[Key, bytes]] = {}
    _swept: int = 0
    """How many were left of `carried` when it was last swept."""

    def of_attempt(self, row: Row, *, private: bool = False) -> Needs:
        """What the slots of its arguments read. `private`: it is run for an undo."""
        slots = row.node.call.slots
        if not slots:
            return NOTHING
        values = [self._find(row.parents[edge][0], part) for edge, part in slots]
        refs = self._refs_of(row, {})
        if refs is not None and refs.actors:
            self._use_actors(row, refs, private=private)
        return Needs(values, refs)

    def _use_actors(self, row: Row, refs: FoundRefs, *, private: bool) -> None:
        """Takes those that are for this attempt alone: from now on others do not find them."""
        taken = {(parent.id, part) for parent, part in taken_by(row)}
        for place in refs.actors:
            if refs.sources[place] in taken:
                node, part = refs.sources[place]
                version = refs.contents[place]
                if private and isinstance(rebuilt := self._outputs.get_privately(node, part), Version):
                    refs.actors[place] = "copy"
                    refs.contents[place] = rebuilt.use("copy")
                elif isinstance(version, Version):
                    refs.actors[place] = "take"
                    refs.contents[place] = version.use("take")

    def of_undo(self, row: Row, *, with_output: bool) -> Needs:
        """The same for its undo, which sees what the attempt saw, and perhaps what it returned."""
        carried = self.carried.get(row.id, {})
        values = [self._find(row.parents[edge][0], part, carried) for edge, part in row.node.call.slots]
        output = self._find(row, None) if with_output else None
        refs = self._refs_of(row, carried, output=with_output)
        if refs is not None:
            for place in refs.actors:
                refs.actors[place] = "copy"
                if isinstance(version := refs.contents[place], Version):
                    refs.contents[place] = version.use("copy")
        return Needs(values, refs, output)

    def output(self, row: Row) -> Needs:
        """Its own output, as a whole."""
        return Needs([self._find(row, None)], self._refs_in([(row, None, False)], {}))

    def read(self, needs: Needs, *, caught: bool = False) -> Read:
        """As `Work` has it. `caught`: the output is value and error, and the function itself returned the value."""
        values, refs, output = needs.values, needs.refs, needs.output
        if not values and output is None:
            return READ_NOTHING
        if output is not None and self._is_kept(output):
            values = [*values, output[:1] if caught else output]
        missing = {part for value in values for part in value if isinstance(part, tuple)}
        if refs is not None:
            missing.update([part for part in refs.contents if isinstance(part, tuple)])
        stored = self._store.values(missing) if missing else {}
        parts: list[Part] = [stored[part] if isinstance(part, tuple) else part for value in values for part in value]
        spans = () if len(parts) == len(values) else [len(value) for value in values]
        given = None
        if refs is not None:
            # Of an output that an undo cannot see any more, the refs may be gone as well: they are not needed.
            contents = [stored.get(part, b"") if isinstance(part, tuple) else part for part in refs.contents]
            for place, use in refs.actors.items():
                if not isinstance(found := contents[place], Version):  # only the journal had it
                    contents[place] = self._version(*refs.sources[place], found).use(use)
            given = GivenRefs(refs.ids, refs.sources, contents, refs.inner, refs.tables, refs.actors)
            for place in refs.instead:
                parts[place] = b""
        return Read(parts, spans, given, len(values) > len(needs.values))

    def resolve(self, node: str, part: int) -> Part | Key:
        """This part, in memory or in the journal. A ref that was passed on may be found with its previous holder."""
        while True:
            value = self._outputs.get(node, part)
            if value is not None:
                return value
            row = self._rows.get(node)
            if row is None or row.refs is None or part < row.node.parts or row.saved >> part & 1:
                return node, part
            origin = row.refs.parts[part - row.node.parts].origin
            if origin is None:
                return node, part
            node, part = origin

    def only_in_journal(self, node: str, part: int) -> bool:
        """Whether this part is not in memory."""
        return isinstance(self.resolve(node, part), tuple)

    def _is_kept(self, value: Value) -> bool:
        """Whether an output that an undo may see can be read. It may have been released without having been saved."""
        missing = {part for part in value if isinstance(part, tuple)}
        return not missing or not missing - self._store.values(missing).keys()

    # -- refs ----------------------------------------------------------------------------------------------------------

    def _refs_of(self, row: Row, carried: Mapping[Key, bytes], *, output: bool = False) -> FoundRefs | None:
        """The refs in what its slots read; None if there are none, as mostly."""
        call = row.node.call
        by_ref = call.template.by_ref
        if not (by_ref or carried or row.refs is not None or self._outputs.described):
            for parent, _ in row.parents:
                if parent.refs is not None:
                    break
            else:
                return None
        read = [(row.parents[edge][0], part, slot in by_ref) for slot, (edge, part) in enumerate(call.slots)]
        if output:
            read.append((row, 0 if call.settings.catch else None, False))
        return self._refs_in(read, carried)

    def _refs_in(self, read: list[tuple[Row, int | None, bool]], carried: Mapping[Key, bytes]) -> FoundRefs | None:
        """`read`: for each slot the row, the part, and whether it is read as a ref."""
        found = FoundRefs()
        place = 0
        for row, part, as_ref in read:
            for number in range(row.node.parts) if part is None else (part,):
                table = self._table(found, row, number, carried)
                if as_ref:
                    ref = self._add_ref(found, row, number, carried)
                    found.tables[place] = [ref]
                    found.instead.append(place)
                    if table:
                        found.inner[ref] = table
                elif table:
                    found.tables[place] = table
                place += 1
        return found if found.ids else None

    def _table(self, found: FoundRefs, row: Row, part: int, carried: Mapping[Key, bytes]) -> list[int]:
        """For each ref in this part its place among those that are found, or -1."""
        if part >= row.node.parts:
            return []
        return [
            self._add_ref(found, row, row.node.parts + k, carried, actor=actor) if mask >> part & 1 else -1
            for k, (mask, actor) in enumerate(self._refs_in_output(row, carried))
        ]

    def _refs_in_output(self, row: Row, carried: Mapping[Key, bytes]) -> list[tuple[int, bool]]:
        """For each ref in an output the mask of the parts that hold it, and whether it is an actor. A row that was
        forgotten, or whose output was rebuilt for an undo, does not know it any more."""
        description = carried.get((row.id, DESCRIPTION))
        if description is not None:
            return _read_description(description)
        parts = self._outputs.described.get(row.id, ()) if row.refs is None else row.refs.parts
        return [(ref.holders, ref.actor) for ref in parts]

    def _add_ref(
        self, found: FoundRefs, row: Row, part: int, carried: Mapping[Key, bytes], *, actor: bool = False
    ) -> int:
        source = (row.id, part)
        if source not in found.places:
            found.places[source] = len(found.ids)
            found.ids.append("{}.{}".format(*self.maker_of(row.id, part)))
            found.sources.append(source)
            content = self._find(row, part, carried)
            if actor:
                found.actors[found.places[source]] = "share"
                if not isinstance(content[0], tuple):
                    content = [self._version(row.id, part, content[0])]
            found.contents += content
        return found.places[source]

    def _version(self, node: str, part: int, found: Part) -> Version:
        row = self._rows.get(node)
        return self._outputs.version(node, 0 if row is None else row.attempt, part, found)

    def maker_of(self, node: str, part: int) -> Key:
        """Where a ref comes from that may have been passed on."""
        row = self._rows.get(node)
        while row is not None and row.refs is not None and part >= row.node.parts:
            origin = row.refs.parts[part - row.node.parts].origin
            if origin is None:
                break
            node, part = origin
            row = self._rows.get(node)
        return node, part

    def carry(self, node: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        """The inputs that go into the *begun* record of a node, and which refs are in them. They are remembered for its
        undo, instead of those that it began with before."""
        values: dict[Key, bytes] = {}
        for key in keys:
            value = self.resolve(*key)
            assert isinstance(value, bytes)
            values[key] = value
        row = self._rows[node]
        for parent, mask in row.parents if row.effect == "undoable" else ():
            if mask and parent.refs is not None:
                values[parent.id, DESCRIPTION] = _description(parent.refs.parts)
        self.carried.pop(node, None)
        if values:
            self.carried[node] = values
            self._sweep()
        return values

    def forget_carried(self, node: str) -> None:
        self.carried.pop(node, None)

    def _find(self, row: Row, part: int | None, carried: Mapping[Key, bytes] | None = None) -> Value:
        found: Value = []
        for number in range(row.node.parts) if part is None else (part,):
            value: Part | None = None
            if carried is not None:
                value = carried.get((row.id, number))
            if value is None:
                value = self._outputs.get(row.id, number)
            if value is None or (isinstance(value, Version) and not value.is_there):
                value = self._outputs.get_privately(row.id, number) or value
            found.append(self.resolve(row.id, number) if value is None else value)
        return found

    def _sweep(self) -> None:
        """Forget entries of tasks that the run has forgotten, now and then."""
        if len(self.carried) > 2 * self._swept + 100:
            self.carried = {node: values for node, values in self.carried.items() if node in self._rows}
            self._swept = len(self.carried)


def _description(refs: Sequence[RefPart]) -> bytes:
    """Of each ref the mask of the parts that hold it, in a list of its own if it is an actor."""
    masks = [narrow(ref.holders) for ref in refs]
    return msgspec.msgpack.encode([[mask] if ref.actor else mask for mask, ref in zip(masks, refs, strict=True)])


def _read_description(description: bytes) -> list[tuple[int, bool]]:
    return [
        (widen(found[0]), True) if isinstance(found, list) else (widen(found), False)
        for found in msgspec.msgpack.decode(description)
    ]
