"""The life of an output (design 2.2): it becomes visible, is saved, or is lost."""

from __future__ import annotations

from onceflow.core import commands, records
from onceflow.core.graph import Graph
from onceflow.core.refs import RefPart
from onceflow.core.rows import GRAPH, Nested, Row, forget_handling
from onceflow.core.sharing import Makers, Sharing, bits
from onceflow.core.state import reach


class Outputs(Sharing):
    """Keeps `available`, `saved`, `visible` of every row and what follows for those that read it."""

    def _become_done(
        self, row: Row, graph: Graph | None, small: bool, refs: tuple[RefPart, ...] = (), *, handled: bool = False
    ) -> None:
        """The current attempt returned, or a handler gave an outcome in its stead."""
        row.state = "done"
        row.small = small
        row.failures = 0
        row.inferred = False
        if row.repeatable != row.node.options.repeatable and not handled:
            self._trust_again(row)
        first_time = not row.visible
        if graph is not None and row.nested is None:
            if first_time:
                self._expand(row, graph)
            else:
                self._expand_again(row, graph)
            self._record_expansion(row)
        if row.group is not None or row.keeps is not None:
            self._turn_is_over(row)
        row.visible = True
        if first_time and not refs:
            self._gain(row, row.every_part, first_time)
        else:
            self._gain_with_refs(row, refs, first_time)
        if row.saved != row.every_part:
            if row.checkpoint:
                self._ask_to_save(row)
            elif row.effect != "none" and not row.exported and not any(mask for _, mask, _ in row.consumers):
                # Nobody reads it, but those that wait for it may not wait again: the journal remembers that it is done.
                self._append(records.Done(row.id))
                row.saved = row.every_part
                row.recorded = True
        if row.saved == row.every_part:
            self._note_saved(row)
        else:
            self._note_done(row)

    def _trust_again(self, row: Row) -> None:
        """What was not known of it after a crash is known again, and whoever read the old output is dropped."""
        row.repeatable = row.node.options.repeatable
        row.code = self._codes.get(row.id, "")
        self._append(records.Trusted(row.id, row.code))
        forget_handling(row)
        if row.settling is not None:
            self._release_hindered(row.settling)

    def _gain(self, row: Row, parts: int, first_time: bool) -> None:
        """These parts are available now; count off the edges that they complete."""
        before = row.available
        row.available |= parts
        ready = self._ready
        for consumer, mask, _ in row.consumers:
            if first_time if mask == 0 else mask & ~before and not mask & ~row.available:
                consumer.missing -= 1
                if consumer.missing == 0:
                    ready.append(consumer)

    def _gain_with_refs(self, row: Row, refs: tuple[RefPart, ...], first_time: bool) -> None:
        """The same for an output with refs, or one that was there before: some of what came in may be lost by now, and
        those who passed on what this row had may miss it."""
        if refs or row.refs is not None:
            self._describe(row, refs)
            self._suspects[row] = None
        self._gain(row, row.saved | self._made(row) | self._shared(row, row.every_part), first_time)
        if not first_time:
            self._share(row)

    def _share(self, row: Row) -> None:
        """What this row has again, those have again that passed it on. If it has no longer what they passed on, some of
        them may have to run themselves."""
        givers = [row]
        suspects: dict[Row, None] = {}
        while givers:
            for consumer, _, _ in givers.pop().consumers:
                lost = 0 if consumer.refs is None or consumer.released else consumer.every_part & ~consumer.available
                regained = self._shared(consumer, lost)
                if regained or (lost and consumer not in suspects):
                    givers.append(consumer)
                    suspects[consumer] = None
                if regained:
                    self._gain(consumer, regained, first_time=False)
                    if consumer.checkpoint:
                        self._ask_to_save(consumer)
        self._suspects.update(dict.fromkeys(suspects))

    def _lose_parts(self, lost: dict[Row, int]) -> None:
        """One failure took these parts from memory."""
        there: dict[tuple[Row, int], bool] = {}
        makers: Makers = {}
        for row, parts in lost.items():
            if row.recorded and parts & row.every_part:
                row.attempt = 0  # no task reads it, but an undo would be given it
            kept = self._still_shared(row, parts, lost, there)
            self._lose(row, parts & ~kept, makers)
            for part in bits(kept & row.saving):  # the save that read the lost copy may never be answered
                self._emit(commands.Save(row.id, part, row.attempt))

    def _lose(self, row: Row, parts: int, makers: Makers) -> None:
        """These parts are in memory no more. What is saved stays available."""
        before = row.available
        row.available &= ~parts | row.saved
        if row.available == before:
            return
        self._forget_saves(row, ~row.available)
        if row.settled:
            self._retirable.append(row)
        for consumer, mask, _ in row.consumers:
            if not mask & ~before and mask & ~row.available:
                consumer.missing += 1
        self._note_loss(row, makers)

    def _look_for_losses(self) -> None:
        suspects, self._suspects = self._suspects, {}
        makers: Makers = {}
        for row in suspects:
            self._note_loss(row, makers)

    def _note_loss(self, row: Row, makers: Makers) -> None:
        """If the row was done and is lost: is it needed again? It is if a consumer has yet to read it, or if it was
        to be saved and may still be dropped."""
        if row.available == row.every_part or row.scope.closed:  # what is closed is looked at when it opens
            return
        needed = 0
        if row.checkpoint and not row.settled and not row.foreign:
            needed = row.every_part
        else:
            for consumer, mask, _ in row.consumers:
                if consumer.state == "waiting" and not consumer.scope.closed:
                    needed |= mask
            if self._keeps_effects_waiting(row):
                needed = row.every_part
        self._seeds.update(dict.fromkeys(self._makers_of_lost(row, needed, makers)))

    def is_edited(self, row: Row) -> bool:
        """Whether the code that exists now is not what the row ran by, and that may still matter."""
        return row.code != self._codes.get(row.id, "") and not row.settled

    def _keeps_effects_waiting(self, row: Row) -> bool:
        """Whether something with an effect starts when this row has run by the code that exists now, and not before: it
        waits for the row to be settled, which is settled with it only, because nothing between them is saved."""
        return self.is_edited(row) and any(map(_has_yet_to_begin, reach([row], _settled_with)))

    def _needs_inputs(self, row: Row, makers: Makers) -> None:
        """The row is to run (again): what it reads and is lost must be made again."""
        if row.scope.closed:
            return  # looked at when it opens
        if row.missing:
            for parent, mask in row.parents:
                self._seeds.update(dict.fromkeys(self._makers_of_lost(parent, mask, makers)))
        else:
            self._ready.append(row)

    # -- saves ---------------------------------------------------------------------------------------------------------

    def _ask_to_save(self, row: Row) -> None:
        """What is there of its output is to be saved, as soon as the journal has the graph that it is in."""
        if row.state != "done" or row.doomed or not row.attempt:
            return  # it is asked for when it is done, or done again: some of it was lost when its graph ended
        expander = row.expander
        if expander is not None and not expander.fully_saved:
            assert expander.nested is not None
            expander.nested.held.append(row)
            return
        wanted = row.every_part & row.available & ~row.saved & ~row.saving
        if row.nested is not None and not row.saved & GRAPH:
            wanted &= GRAPH  # before its refs: whoever finds anything of it saved knows whether it returned a graph
        row.saving |= wanted
        for part in range(wanted.bit_length()):
            if wanted >> part & 1:
                self._saving += 1
                self._emit(commands.Save(row.id, part, row.attempt))

    def _become_saved(self, row: Row, part: int) -> None:
        row.saving &= ~(1 << part)
        self._saving -= 1
        row.saved |= 1 << part
        if (
            not row.checkpoint
        ):  # what was handled in its graph was dropped meanwhile: a part of it is saved all the same
            row.checkpoint = row.forced = True
        nested = row.nested
        graph = nested.graph if nested is not None and part == 0 else None
        joined = tuple([child.id for child in row.joined]) if row.joined else ()
        if row.refs is None or row.refs.told:
            self._append(records.Saved(row.id, part, row.attempt, graph, (), joined))
        else:
            row.refs.told = True
            self._append(records.Saved(row.id, part, row.attempt, graph, row.refs.parts, joined))
        if nested is not None and graph is not None:
            row.distrusted = False
            self._record_expansions_in(nested)
            self._ready.extend(inner for inner in nested.rows if inner.missing == 0)
            if row.saved != row.every_part:
                self._ask_to_save(row)
        if row.saved == row.every_part:
            if nested is not None:
                self._let_nested_begin(nested)
            if row.writes and not row.handled and row.ends is None:
                self._commit_writes(row)
            if row.writes or row.joined:
                self._show_writes(row)
            if row.ends is None:
                self._note_saved(row)
            else:
                self._outcomes[row] = None

    def _let_nested_begin(self, nested: Nested) -> None:
        """The expander is saved, with all that it holds: what is in its graph may have effects, and be saved."""
        held, nested.held = nested.held, []
        for row in dict.fromkeys(held):  # it may have been dropped since, and need not be saved any more
            if row.state == "done" and row.checkpoint and not row.released:
                self._ask_to_save(row)
            elif row.ends is not None:
                self._outcomes[row] = None
        self._ready.extend(row for row in nested.rows if row.missing == 0)


def _has_yet_to_begin(row: Row) -> bool:
    """Whether it has an effect that it has not had. An irrevocable one that has begun is repeated without waiting."""
    if row.state == "done" or (row.effect == "irrevocable" and row.begun):
        return False
    return row.effect != "none" or row.writes


def _settled_with(row: Row) -> list[Row]:
    """Those that it is settled with, and not before."""
    return [] if row.checkpoint or row.fully_saved else [consumer for consumer, _, _ in row.consumers]
