"""Rebuilding a run from its journal (design 2.5, 2.6): any committed prefix of the records will do.

The records say what is saved, begun, undone. That an unsaved node had been done is not recorded, but follows if
anything below it has left a trace. With that, an engine crash is nothing but the loss of all that was not saved, and
the recovery is the usual one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from onceflow.core import commands, records
from onceflow.core.concluding import Concluding
from onceflow.core.expanding import row_around
from onceflow.core.graph import Graph
from onceflow.core.rows import Row, Scope, Undo, forget_handling
from onceflow.core.sharing import Makers
from onceflow.core.state import OnFailure, reach, topological, unsaved_parents


class Loading(Concluding):
    """Replays records into rows, then takes stock of what that means."""

    _loaded: bool = False
    _dormant: bool = False
    """Loaded as a run that had ended or parked, or to be cancelled: nothing happens before somebody resumes or cancels
    it."""
    _to_be_dropped: dict[str, None] = {}
    """The members of the journaled R. Some become known only later, when their expander turns out to be saved."""
    _torn: list[Row] = []
    """What is saved in part, and counts as a whole or not at all."""
    _were_joined: dict[str, tuple[str, ...]] = {}
    """Node → what it has joined, with what is saved of it."""

    @classmethod
    def load(
        cls,
        graph: Graph,
        history: Iterable[records.Record],
        *,
        epoch: int,
        on_failure: OnFailure = "keep",
        straggling: Iterable[tuple[str, int]] = (),
        changed: Mapping[str, str] | None = None,
        asleep: bool = False,
        validate: bool = False,
    ) -> Self:
        """A run that goes on where the journal ends. `begin()` tells what to do first.

        The caller has proof that every attempt and undo of earlier epochs has ended, except those in `straggling`, for
        which it will send `Ended`. `changed`: see `note_changed`. With `asleep`, nothing starts before the next
        event: a run that is loaded to be cancelled does not go on.
        """
        run = cls(graph, epoch=epoch, on_failure=on_failure, validate=validate)
        run._loaded = True
        for record in history:
            run._replay(record)
        run._forget_torn()
        run._replay_joins()
        for node, attempt in straggling:
            run._zombies[attempt] = node  # its row may come back with the graph that a crash took
            for row in run._known([node]):
                run._bury(row, attempt)
        run.note_changed(changed or {})
        run._dormant = asleep or run.final is not None or bool(run._were_parked)
        return run

    @property
    def is_dormant(self) -> bool:
        """Whether nothing happens before somebody resumes or cancels it."""
        return self._dormant

    def note_changed(self, codes: Mapping[str, str]) -> None:
        """To be called before `begin()`: the code of these nodes is no longer what it was when their graph was stored,
        but has these versions. Unsaved, they count as nondeterministic, unless they ran by that version; and `begin()`
        raises `BrokenPromise` if something irrevocable was built on one of them."""
        self._codes.update(codes)

    def _distrust_changed(self) -> None:
        """What was made by other code than exists now would not come again."""
        for row in self.rows.values():
            if row.code != self._codes.get(row.id, "") and not row.fully_saved:
                row.repeatable = False

    def _replay(self, record: records.Record) -> None:
        match record:
            case records.Begun(node, _, carried):
                row = self.rows[node]
                row.begun = True
                row.carried = carried
            case records.Withdrawn(node):
                self.rows[node].begun = False
            case records.Saved():
                self._replay_save(record)
            case records.Done(node):
                row = self.rows[node]
                row.saved = row.every_part
            case records.Wrote(node):
                self.rows[node].wrote = True
            case records.Expanded(node):
                self.rows[node].repeatable = False
            case records.Handled(node):
                self._make_handled(self.rows[node])
            case records.Trusted(node, code):
                for row in self._known([node]):
                    row.code = code
                    row.repeatable = row.node.options.repeatable
                    forget_handling(row)
            case records.Failed(node, failures, final):
                for row in self._known([node]):
                    row.failures = failures
                if final:
                    self._note_failed(node, self._scope_of(node))
            case records.Again(node, failures):
                for row in self._known([node]):
                    if row.nested is not None:  # else a crash took the graph, and what had failed in it
                        self._count_from_zero(row.nested.rows[0].scope, failures)
            case records.Recovering(nodes):
                self._to_be_dropped.update(dict.fromkeys(nodes))
                self._replay_doom()
                self._undoing_all = self._stopping is not None
            case records.Undone(node):
                row = self.rows[node]
                row.begun = False
                row.carried = ()
                self.undos[node] = self.undos.get(node, 0) + 1
                self._were_parked.clear()  # somebody took care of it; whatever still fails is parked again
            case records.Dropped(nodes):
                self._replay_drop(self._known(nodes))
            case records.Abandoned(node, attempt, expander):
                self._abandonments[(node, attempt, expander)] = None
            case records.Parked(node):
                self._were_parked[node] = None
            case records.Cancelled(undo):
                self._stopping = self._stopping or "cancelled"
                self._undo_all = undo
            case records.Limited(group, limit):
                self._set_limit(group, limit)
            case records.Finished(status):
                self.final = status
            case records.Resumed():
                self._forget_stop()

    def _replay_save(self, record: records.Saved) -> None:
        row = self.rows[record.node]
        if record.graph is not None:
            forget_handling(row)  # something in its graph was handled, which is known from now on
            if row.nested is None:
                self._expand(row, record.graph)
                self._replay_doom()
        if record.refs or (row.refs is not None and record.attempt != row.attempt):
            self._describe(row, record.refs, told=True)
        if record.joined:
            self._were_joined[row.id] = record.joined
        else:
            self._were_joined.pop(row.id, None)
        row.saved |= 1 << record.part
        self._force(row)  # whatever it declares: who saves a part is to be saved as a whole
        if row.saved & row.node.every_part and not row.handled:  # else not yet known whether it returned a graph
            row.repeatable = row.node.options.repeatable
        row.attempt = record.attempt
        row.failures = 0

    def _scope_of(self, node: str) -> Scope | None:
        """The scope that a node is in, or one around it: a crash may have taken the graph that it was in."""
        row = self.rows.get(node)
        if row is not None:
            return row.scope
        around = row_around(self.rows, node)
        if around is None:
            return None
        return around.scope if around.nested is None else around.nested.rows[0].scope

    def _known(self, nodes: Iterable[str]) -> list[Row]:
        """Their rows, without those of a graph whose expander was not saved: a crash forgets them altogether."""
        return [self.rows[node] for node in nodes if node in self.rows]

    def _replay_doom(self) -> None:
        for row in self._known(self._to_be_dropped):
            self._recovering[row] = None
            row.doomed = True

    def _replay_drop(self, rows: list[Row]) -> None:
        for row in rows:
            self._leave(row)
            self._were_joined.pop(row.id, None)
            if row.refs is not None:
                self._set_refs(row, None)
            row.saved = row.attempt = row.failures = 0
            row.repeatable = row.node.options.repeatable
            row.doomed = False
            forget_handling(row)
            self._recovering.pop(row, None)
            self._to_be_dropped.pop(row.id, None)
        if not self._recovering:
            self._to_be_dropped.clear()
        for row in sorted((row for row in rows if row.nested is not None), key=lambda row: -row.depth):
            self._collapse(row)

    def _forget_torn(self) -> None:
        """What counts as a whole or not at all, and is saved in part: nobody has read it. What tasks wrote went with
        whoever drove the run, and they run again; and a scope that was about to end has not ended."""
        given = self._ended_with()
        self._torn = [
            row
            for row in self.rows.values()
            if row.saved and not row.fully_saved and (row.writes or (row in given and not row.doomed))
        ]
        self._replay_drop(self._torn)

    def _replay_joins(self) -> None:
        for node, children in self._were_joined.items():
            for row in self._known([node]):
                self._join(row, self._known(children))
        self._were_joined.clear()

    def _forget_stop(self) -> None:
        self.final = None
        self._stopping = None
        self._undo_all = self._undoing_all = False
        self._were_parked.clear()
        self._failed.clear()
        for row in self.rows.values():
            row.failures = row.scope.failures = 0

    def _resume(self, again: list[Row]) -> None:
        self._append(records.Resumed())
        self._forget_stop()
        if again:
            self._append(records.Dropped(tuple(row.id for row in again)))
            for row in again:
                self._emit(commands.Drop(row.id, self._attempt))
            self._replay_drop(again)
            self._distrust_changed()
        self._wake()
        self._refuse_broken_promises()

    def _wake(self) -> None:
        self._dormant = False
        self._were_parked.clear()
        self._take_stock()

    def droppable(self, nodes: Iterable[str]) -> list[Row]:
        """Of these nodes those of which what is saved can be dropped together when a run that was just loaded is
        resumed, and nobody notices: what they read is there, or can be made again; nothing has to be taken back; and
        nothing below them has left a trace. (What was written to variables counts for good, what stands aside others
        may have seen, also that its graph has its result, and nothing is done again in a graph that has ended, unless
        what it ended with is dropped.)"""
        ended = list(self._ended_scopes())
        seen = self._results_around(self._aside)
        rows: dict[Row, None] = {} if self._recovering else dict.fromkeys(self._known(nodes))
        rows = {row: None for row in rows if seen.isdisjoint([row, *reach([row], unsaved_parents)])}
        given = self._ended_with()
        while True:
            over = [scope for sink, scope in ended if sink not in rows]
            left = {
                row: None
                for row in rows
                if _is_droppable(row, rows, has_read=row not in given)
                and not any(row.scope.is_in(scope) for scope in over)
            }
            if len(left) == len(rows):
                return list(left)
            rows = left

    def _results_around(self, rows: Iterable[Row]) -> set[Row | None]:
        """What gives the results of the graphs that these are in."""
        found: set[Row | None] = set()
        for row in rows:
            scope: Scope | None = row.scope
            while scope is not None:
                found.add(scope.sink)
                scope = scope.outer
        return found

    # -- what the records mean -----------------------------------------------------------------------------------------

    def _take_stock(self) -> None:
        self._stalled = True
        self._replay_endings()
        self._drop_torn()
        order = topological(self.rows)
        _infer_done(order, self._ended_with())
        for row in order:
            if row.state != "done" and row.repeatable != row.node.options.repeatable:
                self._trust_again(row)  # nothing is left of what it gave
        answer, self._commands = self._commands, []
        for row in order:
            if row.begun and row.effect == "undoable":
                self._pin(row)
        for row in order:
            if (row.begun and row.effect == "irrevocable") or row.wrote:
                self._cover_above(row)
            row.uncommitted = sum(parent.holds_up for parent, _ in row.parents)
        done = [row for row in order if row.state == "done"]
        for row in done:
            if row.keeps is not None:
                self._turn_is_over(row)
            self._gain(row, row.saved | self._shared(row, row.every_part), first_time=True)
            if row.fully_saved and not row.is_empty:
                self._set_reproducible(row)
        for row in done:
            if not row.doomed:
                if row.fully_saved:
                    self._note_saved(row)
                else:
                    self._note_done(row)
                self._work_off_marks()
        self._retire_rows()
        self._commands = answer  # what was released in passing is not in this process's memory anyway
        self._continue_undos()
        self._replay_pauses()
        if self._stopping is None:
            makers: Makers = {}
            for row in self.rows.values():
                self._note_loss(row, makers)
                self._save_the_rest(row)
            if not self._recovering:
                self._resume_starts()
        self._ready.extend(row for row in self.rows.values() if row.missing == 0)

    def _refuse_broken_promises(self) -> None:
        """What waits for its delay, is in a graph that does, or is about to be dropped needs what it reads only later;
        but if something irrevocable would fall into R then, the run is refused now."""
        was_edited = bool(self._codes) or any(row.code for row in self.rows.values())  # and restored since
        if not was_edited or self._stopping is not None:
            return
        makers: Makers = {}
        seeds: dict[Row, None] = {}
        for row in self.rows.values():
            if row.scope.over:
                continue
            if row.state != "done" or row.doomed:
                for parent, mask in row.parents:
                    seeds.update(dict.fromkeys(self._makers_of_lost(parent, mask, makers)))
            elif (row.checkpoint and not row.settled) or self._keeps_effects_waiting(row):
                seeds.update(dict.fromkeys(self._makers_of_lost(row, row.every_part, makers)))
        self._rerun_set(seeds, makers)

    def _drop_torn(self) -> None:
        torn, self._torn = [row for row in self._torn if not row.abandoned], []
        if torn:
            self._append(records.Dropped(tuple(row.id for row in torn)))
            for row in torn:
                self._emit(commands.Drop(row.id, self._attempt))

    def _save_the_rest(self, row: Row) -> None:
        """What is not saved of an output may be there all the same: refs whose origin is saved. In a graph that has
        ended it need not be."""
        if row.refs is not None and row.checkpoint and row.available == row.every_part:
            self._ask_to_save(row)

    def _continue_undos(self) -> None:
        for row in self._recovering:
            if row.effect == "undoable" and row.begun:
                row.undo = Undo()
                self._undos[row] = None
        self._order_undos()
        for row in self.rows.values():
            if row.state == "done" or row in self._recovering:
                continue
            unfinished = row.effect == "undoable" and row.begun
            if row.failures:
                row.state = "backoff"
                row.attempt = self._new_attempt()
                if not unfinished and self._stopping is None:
                    self._emit(commands.Wait(row.id, row.attempt, row.failures))
            if unfinished:
                self._undo_locally(row)


def _is_droppable(row: Row, together: dict[Row, None], *, has_read: bool) -> bool:
    """`has_read`: it ran, and was not given to end its graph."""
    if not row.saved or row.nested is not None or row.writes:
        return False
    if row.node.aside or not row.consumers:
        return False
    if row.effect == "undoable" and row.begun:
        return False
    if has_read and not all(parent.repeatable for parent in reach([row], unsaved_parents)):
        return False
    return not any(other.begun or (other.saved and other not in together) for other in reach([row], _consumers))


def _consumers(row: Row) -> list[Row]:
    return [consumer for consumer, _, _ in row.consumers]


def _infer_done(order: list[Row], given: set[Row]) -> None:
    """A node has been done if any of it is saved, or if anything that waited for it has begun or been done, but for
    what was `given` to end a graph. Who has saved refs and nothing else returned no graph: that would have been
    saved before."""
    for row in reversed(order):
        if row.saved or any(
            consumer.begun or (consumer.state == "done" and consumer not in given) for consumer, _, _ in row.consumers
        ):
            row.state = "done"
            row.visible = True
            row.failures = 0
            row.inferred = not row.saved & row.node.every_part
