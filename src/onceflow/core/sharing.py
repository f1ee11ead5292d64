"""Refs in outputs (design 2.7): who reads them, and with whom they share their object.

Each ref in an output is one more part of it (`refs`). Whoever reads a declared part reads the refs it holds: the edge's
mask grows when the parent is done, and shrinks when it is dropped.

A ref that came in **shares** the object with its origin. So it is available whenever its origin is: a loss leaves it
alone if the origin is still there, and if the origin is there again, it is as well, without anything between being run.
If it is lost, its **maker** runs again: the row at the end of the chain of origins. A chain may have been cut: its next
row is forgotten, or nothing is known of it after a crash, or it ran again and returned other refs although it promised
not to. Then the row at the cut counts as the maker, because running it makes the ref anew.

No row is kept for the sake of a chain. A row is released or forgotten when it and all its consumers are settled. A
consumer that passed its ref on is then saved, with its own copy; or all *its* consumers are settled, and the same holds
for them. So whoever is not settled and reads a ref of that chain finds a row between that has it for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from onceflow.core.expanding import Expanding
from onceflow.core.refs import RefPart
from onceflow.core.rows import Refs, Row

Makers = dict[tuple[Row, int], Row]
"""Part of a row → its maker, as far as it was looked for: a long chain is gone along once for all that share in it."""


class Sharing(Expanding):
    """Keeps the refs of every row, and finds where they came from."""

    def _describe(self, row: Row, refs: tuple[RefPart, ...], *, told: bool = False) -> None:
        """These refs are in the output from now on. No part of it is available; whoever called makes that good.

        What was saved of an output with other refs is not part of this one: a value names its refs by number.
        """
        before, replaced = ((), False) if row.refs is None else (row.refs.parts, row.refs.replaced)
        if refs != before and row.saved:
            self._forget_saves(row, row.saving)
            row.saved = 0
            replaced = True
        self._set_refs(row, Refs(refs, told=told, replaced=replaced) if refs or replaced else None)

    def _set_refs(self, row: Row, refs: Refs | None) -> None:
        row.refs = refs
        masks: dict[int, int] = {}
        for index, (consumer, mask, position) in enumerate(row.consumers):
            if mask and not consumer.retired:
                if row.gives(mask):
                    consumer.missing += 1
                declared = mask & row.node.every_part
                grown = masks.get(declared)
                if grown is None:
                    grown = masks[declared] = row.with_refs(declared)
                row.consumers[index] = (consumer, grown, position)
                consumer.parents[position] = (row, grown)
        row.available = 0
        row.every_part = row.declared
        if refs is not None:
            row.every_part |= ((1 << len(refs.parts)) - 1) << row.node.parts

    def _forget_saves(self, row: Row, parts: int) -> None:
        """Answers to these saves will be late."""
        self._saving -= (row.saving & parts).bit_count()
        row.saving &= ~parts

    # -- where refs came from ------------------------------------------------------------------------------------------

    def _origin(self, row: Row, part: int) -> tuple[Row, int] | None:
        """The row and its part through which this one came in; None if it was made, or the chain is cut here."""
        if row.refs is None or part < row.node.parts:
            return None
        origin = row.refs.parts[part - row.node.parts].origin
        if origin is None:
            return None
        parent = self.rows.get(origin[0])
        if parent is None or not (parent.saved if parent.released else parent.every_part) >> origin[1] & 1:
            return None
        return parent, origin[1]

    def _makers_of_lost(self, row: Row, mask: int, known: Makers) -> Iterator[Row]:
        """Who has to run again for what is lost of these parts, as far as it is not about to run anyway."""
        lost = mask & ~row.available
        if not lost or row.state != "done":
            return
        if row.refs is None:
            yield row
            return
        for part in bits(lost):
            maker = self._maker(row, part, known)
            if maker.state == "done":
                yield maker

    def _maker(self, row: Row, part: int, known: Makers) -> Row:
        """Who has to run again if this part is lost."""
        passed: list[tuple[Row, int]] = []
        while (maker := known.get((row, part))) is None:
            passed.append((row, part))
            origin = self._origin(row, part)
            if origin is None:
                maker = row
                break
            row, part = origin
        known.update(dict.fromkeys(passed, maker))
        return maker

    def _made(self, row: Row) -> int:
        """The parts that are there when an attempt has finished, whatever happened to its inputs meanwhile."""
        made = row.every_part
        if row.refs is not None:
            for part in bits(made & ~row.node.every_part):
                if self._origin(row, part) is not None:
                    made &= ~(1 << part)
        return made

    def _shared(self, row: Row, parts: int) -> int:
        """Those of these parts whose origin is available."""
        shared = 0
        if row.refs is not None:
            for part in bits(parts & ~row.node.every_part):
                origin = self._origin(row, part)
                if origin is not None and origin[0].available >> origin[1] & 1:
                    shared |= 1 << part
        return shared

    def _still_shared(self, row: Row, parts: int, lost: dict[Row, int], known: dict[tuple[Row, int], bool]) -> int:
        """Those of these lost parts that share their object with one that is not lost."""
        shared = 0
        if row.refs is not None:
            for part in bits(parts & row.every_part & ~row.node.every_part):
                shared |= self._is_still_there(row, part, lost, known) << part
        return shared

    def _is_still_there(self, row: Row, part: int, lost: dict[Row, int], known: dict[tuple[Row, int], bool]) -> bool:
        passed: list[tuple[Row, int]] = []
        while (there := known.get((row, part))) is None:
            passed.append((row, part))
            if not lost.get(row, 0) & ~row.saved & 1 << part:
                there = bool(row.available >> part & 1)
                break
            origin = self._origin(row, part)
            if origin is None:
                there = False
                break
            row, part = origin
        known.update(dict.fromkeys(passed, there))
        return there


def bits(mask: int) -> Iterator[int]:
    """The numbers of the parts in a mask."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
