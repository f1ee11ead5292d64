"""Refs and actors in outputs (design 2.7): which rows read them, and which rows share their object.

**Refs.** Each ref in an output is one more part of it (`model.refs`). A reader of a declared part also reads the refs
it holds: the edge's mask grows when the parent is done, and shrinks when it is dropped.

A ref that came in **shares** the object with its origin. So it is available whenever its origin is: a loss leaves it
alone if the origin is still there, and if the origin is there again, it is as well, without anything between being run.
If it is lost, its **maker** runs again: the row at the end of the chain of origins. A chain may have been cut: its next
row is forgotten, or nothing is known of it after a crash, or it ran again and returned other refs although it promised
not to. Then the row at the cut counts as the maker, because running it makes the ref anew.

No row is kept for the sake of a chain. A row is released or forgotten when it and all its consumers are settled. A
consumer that passed its ref on is then saved, with its own copy; or all *its* consumers are settled, and the same holds
for them. So an unsettled row that reads a ref of that chain finds a row between that has it for ever.

**Actors.** A version of an actor is a ref part of the output that holds it, made by the task that returned it. A row
that reads the part may **share** it with others, or **take** it, as the graph says (`Node.takes`): then it changes the
actor, and the version that it found is gone, unless that is to be saved. In that case a snapshot was taken when it
was made, which is in memory until it is saved: so for core a version that is to be saved stays available, and one that
is not is lost when another row takes it. What follows is the business of the usual rules: a row that needs a lost
version has its maker run again.

A taker waits for those that share the live actor at that moment, also if they do so for an undo. If the version is not
to be saved, it also waits for those that have yet to read it, except for its own descendants: they would find it lost.
Two that take one version do not wait for each other. The check before the run (`checks.check`) refuses graphs in which
that would go on for ever.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from onceflow.core.model import walks
from onceflow.core.model.refs import RefPart, bits
from onceflow.core.model.rows import Effort, Refs, Row
from onceflow.core.rules.state import State

Makers = dict[tuple[Row, int], Row]
"""Part of a row → its maker, as far as it was looked for: a long chain is gone along once for all that share in it."""


def describe(run: State, row: Row, refs: tuple[RefPart, ...], *, told: bool = False) -> None:
    """These refs are in the output from now on. No part of it is available; the caller makes that good.

    What was saved of an output with other refs is not part of this one: a value names its refs by number.
    """
    before, replaced = ((), False) if row.refs is None else (row.refs.parts, row.refs.replaced)
    if refs != before and row.saved:
        forget_saves(run, row, row.saving)
        row.saved = 0
        replaced = True
    set_refs(row, Refs(refs, told=told, replaced=replaced) if refs or replaced else None)


def set_refs(row: Row, refs: Refs | None) -> None:
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


def forget_saves(run: State, row: Row, parts: int) -> None:
    """Answers to these saves will be late."""
    run.saving -= (row.saving & parts).bit_count()
    row.saving &= ~parts


# -- where refs came from ----------------------------------------------------------------------------------------------


def _origin(run: State, row: Row, part: int) -> tuple[Row, int] | None:
    """The row and its part through which this one came in; None if it was made, or the chain is cut here."""
    if row.refs is None or part < row.node.parts:
        return None
    origin = row.refs.parts[part - row.node.parts].origin
    if origin is None:
        return None
    parent = run.rows.get(origin[0])
    if parent is None or not (parent.saved if parent.released else parent.every_part) >> origin[1] & 1:
        return None
    return parent, origin[1]


def makers_of_lost(run: State, row: Row, mask: int, known: Makers) -> Iterator[Row]:
    """The rows that have to run again for the lost ones of these parts, without those about to run anyway."""
    lost = mask & ~row.available
    if not lost or row.state != "done":
        return
    if row.refs is None:
        yield row
        return
    for part in bits(lost):
        maker = _maker(run, row, part, known)
        if maker.state == "done":
            yield maker


def _maker(run: State, row: Row, part: int, known: Makers) -> Row:
    """The rows that have to run again if this part is lost."""
    passed: list[tuple[Row, int]] = []
    while (maker := known.get((row, part))) is None:
        passed.append((row, part))
        origin = _origin(run, row, part)
        if origin is None:
            maker = row
            break
        row, part = origin
    known.update(dict.fromkeys(passed, maker))
    return maker


def made(run: State, row: Row) -> int:
    """The parts that are there when an attempt has finished, whatever happened to its inputs meanwhile."""
    made = row.every_part
    if row.refs is not None:
        for part in bits(made & ~row.node.every_part):
            if _origin(run, row, part) is not None:
                made &= ~(1 << part)
    return made


def shared(run: State, row: Row, parts: int) -> int:
    """Those of these parts whose origin is available."""
    shared = 0
    if row.refs is not None:
        for part in bits(parts & ~row.node.every_part):
            origin = _origin(run, row, part)
            if origin is not None and origin[0].available >> origin[1] & 1:
                shared |= 1 << part
    return shared


def still_shared(run: State, row: Row, parts: int, lost: dict[Row, int], known: dict[tuple[Row, int], bool]) -> int:
    """Those of these lost parts that share their object with one that is not lost."""
    shared = 0
    if row.refs is not None:
        for part in bits(parts & row.every_part & ~row.node.every_part):
            shared |= _is_still_there(run, row, part, lost, known) << part
    return shared


def _is_still_there(run: State, row: Row, part: int, lost: dict[Row, int], known: dict[tuple[Row, int], bool]) -> bool:
    passed: list[tuple[Row, int]] = []
    while (there := known.get((row, part))) is None:
        passed.append((row, part))
        if not lost.get(row, 0) & ~row.saved & 1 << part:
            there = bool(row.available >> part & 1)
            break
        origin = _origin(run, row, part)
        if origin is None:
            there = False
            break
        row, part = origin
    known.update(dict.fromkeys(passed, there))
    return there


# -- actors ------------------------------------------------------------------------------------------------------------


UNREAD = ("waiting", "backoff", "handled")
"""States of rows that may yet read, or read again, what is above them."""


def is_in_use(run: State, row: Row) -> bool:
    """Has this taker to wait for a reader?"""
    for parent, part in walks.taken_by(row):
        if _is_read_now(run, parent, part):
            return True
        for reader in () if parent.checkpoint else walks.readers_of(parent, part):
            if reader.state in UNREAD and not walks.descends(reader, row):
                return True
    return False


def is_being_read(run: State, row: Row) -> bool:
    """The same for one that is run for an undo. What has not started does not start before the undo has ended."""
    return any(_is_read_now(run, parent, part) for parent, part in walks.taken_by(row))


def _is_read_now(run: State, row: Row, part: int) -> bool:
    """Does any row use the live actor, for an undo or not? The undo of a taker reads what that took."""
    return any(
        reader.state == "running" or _is_under_way(run.rebuilding.get(reader)) for reader in walks.readers_of(row, part)
    ) or any(_is_under_way(consumer.undo) for consumer, mask, _ in row.consumers if mask >> part & 1)


def _is_under_way(effort: Effort | None) -> bool:
    return effort is not None and bool(effort.attempt) and not effort.waiting


def take(run: State, row: Row, besides: Container[Row] = ()) -> None:
    """A taker starts: what is neither saved nor to be saved of what it takes is lost to all others. (What is saved
    in a graph that has ended stays saved.) `besides`: what was made of these for undos only, and is not used up."""
    for parent, part in walks.taken_by(row):
        in_memory_only = parent.available & ~parent.saved
        if not parent.checkpoint and in_memory_only >> part & 1 and parent not in besides:
            overwrite(run, parent, part)


def overwrite(run: State, row: Row, part: int) -> None:
    before = row.available
    row.available &= ~(1 << part)
    for consumer, mask, _ in row.consumers:
        if not mask & ~before and mask >> part & 1:
            consumer.missing += 1
    run.suspects[row] = None
