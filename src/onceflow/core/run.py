"""One run of one graph: the state machine that obeys the law (design section 2).

`Run.handle(event)` returns the commands that the driver carries out, in order. No I/O, no clock, no threads, no
randomness: the same events give the same commands. What an event means is decided here; what follows from it is the
work of the verbs, one file each, stacked in the order in which they build on each other:

    state → settling → retiring → committing → joining → taking → turns → admitting → starting → expanding → sharing
    → outputs → undoing → recovery → stopping → handling → ending → expiring → concluding → loading → run

Each event is first judged (is it late? is it impossible?) and only then changes anything. Then the agenda that the
verbs left is worked off until nothing is left to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceflow.core import commands, events, records
from onceflow.core.check import find_misfit, find_nested_problem
from onceflow.core.graph import Graph
from onceflow.core.loading import Loading
from onceflow.core.refs import RefPart
from onceflow.core.rows import Effort, Row, Undo
from onceflow.core.settling import settling
from onceflow.core.state import EPOCH_BITS
from onceflow.core.validating import validate
from onceflow.errors import IllegalEvent, NotDeterministic, OnceflowError


class Run(Loading):
    """The life of one run.

    `on_failure="undo"` makes it a saga. `members` restricts it to a part of the graph: what the others do arrives as
    `Given`. `validate` compares every state with its definition after every event, which is slow.
    """

    def begin(self) -> list[commands.Command]:
        """What to do first. Called once, before any event."""
        if self._loaded:
            self._distrust_changed()
            if not self._dormant:
                self._take_stock()
                self._refuse_broken_promises()
        else:
            self._ready.extend(row for row in self.rows.values() if row.missing == 0)
        return self._answer()

    def handle(self, event: events.Event) -> list[commands.Command]:
        """Take notice of an event. Late events change nothing; impossible ones raise `IllegalEvent` and change
        nothing."""
        _HANDLERS[type(event)](self, event)
        return self._answer()

    def let_go(self) -> None:
        """Nobody will tell it anything any more: what refers to each other in it is taken apart."""
        self.has_place = None
        for row in self.rows.values():
            row.parents.clear()
            row.consumers.clear()
            row.scope.ends_with(None)
        self.rows.clear()

    def _answer(self) -> list[commands.Command]:
        if self._dormant:
            return []
        while True:
            while (
                self._outcomes
                or self._reconsider
                or self._explore
                or self._retirable
                or self._suspects
                or self._seeds
                or self._ready
                or self._eager
                or self._admitted
            ):
                if self._outcomes:
                    self._advance_outcomes()
                if self._reconsider or self._explore:
                    self._work_off_marks()
                if self._retirable:
                    self._retire_rows()
                if self._suspects:
                    self._look_for_losses()
                if self._seeds:
                    if self._stopping is None:
                        self._recover()
                    else:
                        self._seeds.clear()  # nothing runs again; a later resume finds out anew
                if self._ready:
                    self._start_ready()
                elif self._eager:
                    self._give_turns()
                elif self._admitted:
                    self._start_admitted()
            if self._takers and self._start_takers():
                continue
            if self._undos or self._rebuilding or self._rebuilt:
                self._advance_undos()
                if self._suspects:
                    continue  # what it took is needed by others
            if not self._conclude():
                break
        if self.validate:
            validate(self)
        answer, self._commands = self._commands, []
        return answer

    # -- which row is meant --------------------------------------------------------------------------------------------

    def _row(self, node: str, attempt: int) -> Row | None:
        """The row of an event about an attempt; None if the event is late because the row is gone."""
        if attempt > self._attempt or attempt <= 0:
            raise IllegalEvent(f"attempt {attempt} of {node!r} was never started")
        row = self.rows.get(node)
        if row is None and node not in self.graph.index and "/" not in node:
            raise IllegalEvent(f"there is no node {node!r} in this run")
        return row

    def _current(self, node: str, attempt: int) -> Row | None:
        """The row of an attempt that reports its end, if the attempt still counts."""
        row = self._row(node, attempt)
        if self.final is not None:
            return None
        if row is not None and row.attempt == attempt and row.state == "running":
            return row
        self._prove_ended(row, attempt)
        return None

    def _current_effort(self, node: str, attempt: int) -> tuple[Row, Effort] | None:
        row = self._row(node, attempt)
        if row is None:
            return None
        effort = self._effort(row, attempt)
        return None if effort is None or effort.waiting else (row, effort)

    # -- attempts ------------------------------------------------------------------------------------------------------

    def _finished(self, event: events.Finished) -> None:
        if self._rebuilding:
            rebuilt = self._current_effort(event.node, event.attempt)
            if rebuilt is not None and not isinstance(rebuilt[1], Undo):
                self._rebuilt_privately(*rebuilt, event.graph)
                return
        row = self._current(event.node, event.attempt)
        if row is None:
            return
        if event.refs:
            self._judge_refs(row, event.refs)
        if event.joined and not self._may_count(row, event):
            self._ended(events.Ended(event.node, event.attempt))
            return
        if row.begun_with:
            self._count_as_started(row)
        if event.handled:
            self._was_handled(row, event.small)
            return
        error = self._problem_with(row, event.graph)
        if error is None:
            self._running -= 1
            if event.joined:
                known = [self.rows[child] for child in event.joined if child in self.rows]
                self._join(row, known)
                if len(known) < len(event.joined):  # what is forgotten may have been abandoned
                    self._follow_writes(row)
            self._become_done(row, event.graph, event.small, event.refs)
        else:
            self._emit(commands.Refuse(row.id, row.attempt, error))
            self._attempt_raised(row, permanent=True)

    def _judge_refs(self, row: Row, refs: tuple[RefPart, ...]) -> None:
        parents = {parent.id for parent, mask in row.parents if mask}
        for ref in refs:
            if ref.holders & ~row.node.every_part:
                raise IllegalEvent(f"a ref is in a part that {row.id!r} does not have")
            if ref.actor and (ref.origin is not None or ref.holders.bit_count() != 1):
                raise IllegalEvent(
                    f"a version of an actor is made by who returns it, in one part: not so in {row.id!r}"
                )
            if ref.origin is not None and (ref.origin[0] not in parents or ref.origin[1] < 0):
                raise IllegalEvent(f"{row.id!r} returned a ref from {ref.origin[0]!r}, which it does not read")

    def _may_count(self, row: Row, event: events.Finished) -> bool:
        """Whether what it was given by those that it has joined still counts: it may have been taken back meanwhile."""
        options = row.node.options
        is_wait = options.effect == "none" and not (options.deterministic or options.writes) and options.checkpoint
        if event.handled or event.graph is not None or not is_wait:
            raise IllegalEvent(f"{row.id!r} cannot join others")
        return all(self.may_join(child) for child in event.joined)

    def _rebuilt_privately(self, row: Row, effort: Effort, graph: Graph | None) -> None:
        error = self._problem_with(row, graph)
        if error is not None:
            self._emit(commands.Refuse(row.id, effort.attempt, error))
            self._effort_raised(row, effort)
            return
        if graph is not None and row.nested is None:
            self._expand_again(row, graph)  # the undo reads the nested sink, which is rebuilt next
            self._doom_nested(row)
        self._rebuild_finished(row)

    def _problem_with(self, row: Row, graph: Graph | None) -> OnceflowError | None:
        """What forbids this outcome? A repeatable row that was seen before must return the same graph again, or
        none."""
        if not row.visible:
            return None if graph is None else find_nested_problem(self, row, graph)
        if row.nested is None and row.inferred:
            return self._problem_after_crash(row, graph)
        before = None if row.nested is None else row.nested.graph.digest
        now = None if graph is None else graph.digest
        return None if before == now else NotDeterministic(row.id)

    def _problem_after_crash(self, row: Row, graph: Graph | None) -> OnceflowError | None:
        """What it returned before a crash is not known; but a graph was of repeatable tasks only, else the journal
        would say so (*expanded*)."""
        if graph is None:
            return None
        if not all(node.options.repeatable for node in graph.nodes):
            return NotDeterministic(row.id)
        return find_misfit(row, graph)

    def _raised(self, event: events.Raised) -> None:
        effort = self._current_effort(event.node, event.attempt)
        if effort is not None:
            self._effort_raised(*effort)
            return
        row = self._current(event.node, event.attempt)
        if row is not None:
            if not event.started:
                self._withdraw(row, event.attempt)
            elif row.begun_with:
                self._count_as_started(row)
            self._attempt_raised(row, event.permanent, event.again)

    def _scope_ends(self, event: events.Ends) -> None:
        row = self._row(event.node, event.attempt)
        least = 1 if event.again else 0  # nobody stands for the whole run, and could try it again
        if row is not None and not (event.failed <= row.scope.depth and least <= event.ends <= row.scope.depth):
            raise IllegalEvent(f"{event.node!r} is not in a graph at depth {max(event.failed, event.ends)}")
        if 0 <= event.failed < event.ends:
            raise IllegalEvent(f"the graph at depth {event.failed} has failed, so one inside of it cannot end for it")
        row = self._current(event.node, event.attempt)
        if row is not None:
            if row.begun_with:
                self._count_as_started(row)
            self._answered_for(row, event.failed, event.ends, event.small, event.again)

    def _time_is_over(self, event: events.Expired) -> None:
        row = self.rows.get(event.node)
        if row is None or self._dormant:
            return
        if not 0 < event.ends <= row.scope.depth:
            raise IllegalEvent(f"{event.node!r} is not in a graph at depth {event.ends}")
        self._expire(row.scope.at(event.ends), event.small)

    def _elapsed(self, event: events.Elapsed) -> None:
        row = self._row(event.node, event.attempt)
        if event.attempt in self._pausing and self.final is None:
            scope = self._pausing.pop(event.attempt)
            if self._stopping is None:  # else nothing in it starts any more, and it may have been taken back for good
                self._open(scope)
            return
        if row is None or self.final is not None:
            return
        effort = self._effort(row, event.attempt)
        if effort is not None and effort.waiting:
            self._effort_elapsed(effort)
        elif row.state == "backoff" and row.attempt == event.attempt and row.undo is None:
            row.state = "waiting"
            row.attempt = 0
            self._needs_inputs(row, {})

    def _lost(self, event: events.Lost) -> None:
        rows = [(self._row(node, attempt), attempt) for node, attempt in event.attempts]
        lost: dict[Row, int] = {}
        for node, part in event.outputs:
            if part < 0:
                raise IllegalEvent(f"{node!r} has no part {part}")
            row = self.rows.get(node)
            if row is not None:
                lost[row] = lost.get(row, 0) | 1 << part
        if self.final is not None:
            return
        for row in lost:
            self._rebuilt.pop(row, None)
        self._lose_parts(lost)
        for row, attempt in rows:
            if row is not None:
                self._lose_attempt(row, attempt)

    def _lose_attempt(self, row: Row, attempt: int) -> None:
        effort = self._effort(row, attempt)
        if effort is not None:
            self._effort_lost(row, effort)
        elif row.state == "running" and row.attempt == attempt:
            self._running -= 1
            self._end_turn(row)
            self._bury(row, attempt)
            row.state = "waiting"
            row.attempt = 0
            if row.effect == "undoable":
                self._undo_locally(row)
            self._needs_inputs(row, {})

    def _ended(self, event: events.Ended) -> None:
        row = self._row(event.node, event.attempt)
        if self.final is None:
            if row is not None:
                if not event.started:
                    self._withdraw(row, event.attempt)
                self._lose_attempt(row, event.attempt)  # an attempt that ended without a word is lost as well
            self._prove_ended(row, event.attempt)

    # -- saves ---------------------------------------------------------------------------------------------------------

    def _pending_save(self, node: str, part: int, attempt: int) -> Row | None:
        row = self._row(node, attempt)
        if row is None or row.attempt != attempt:
            return None
        if part < 0 or not row.every_part >> part & 1:
            raise IllegalEvent(f"{node!r} has no part {part}")
        return row if row.saving >> part & 1 else None

    def _saved(self, event: events.Saved) -> None:
        row = self._pending_save(event.node, event.part, event.attempt)
        if row is not None:
            self._become_saved(row, event.part)

    def _save_failed(self, event: events.SaveFailed) -> None:
        row = self._pending_save(event.node, event.part, event.attempt)
        if row is None:
            return
        if event.permanent:
            self._forget_saves(row, 1 << event.part)
            self._append(records.Failed(row.id, row.failures, True))
            self._fail(row.id, row.scope)
        else:
            self._emit(commands.Save(row.id, event.part, event.attempt))

    # -- undos ---------------------------------------------------------------------------------------------------------

    def _current_undo(self, node: str, attempt: int) -> Row | None:
        row = self._row(node, attempt)
        if self.final is not None:
            return None
        if row is not None and row.undo is not None and row.undo.attempt == attempt and not row.undo.waiting:
            return row
        self._prove_ended(row, attempt)
        return None

    def _undone(self, event: events.Undone) -> None:
        row = self._current_undo(event.node, event.attempt)
        if row is None:
            return
        self._note_undone(row)
        if row in self._recovering:
            return
        if row.state == "backoff":
            if self._stopping is None:
                self._emit(commands.Wait(row.id, row.attempt, row.failures))
        elif row.state == "handled":
            self._undone_and_handled(row)
        elif row.state == "waiting":
            self._needs_inputs(row, {})

    def _undo_failed(self, event: events.UndoFailed) -> None:
        row = self._current_undo(event.node, event.attempt)
        if row is not None and row.undo is not None:
            self._effort_raised(row, row.undo)

    def _retry_undo(self, event: events.RetryUndo) -> None:
        if event.node in self._were_parked:
            self._wake()
            self._refuse_broken_promises()
            return
        row = self.rows.get(event.node)
        efforts = [] if row is None else [row.undo, self._rebuilding.get(row)]
        parked = [effort for effort in efforts if effort is not None and effort.parked]
        if not parked:
            raise IllegalEvent(f"no undo of {event.node!r} is parked")
        for effort in parked:
            effort.parked = False
            effort.failures = 0

    # -- the whole run -------------------------------------------------------------------------------------------------

    def _cancel(self, event: events.Cancel) -> None:
        if self.final is not None:
            return
        if self._dormant:
            self._wake()
        if self._stopping is not None and (self._undo_all or not event.undo):
            return
        self._append(records.Cancelled(event.undo))
        self._undo_all = event.undo
        self._stop("cancelled")
        if self._undoing_all:  # a transaction that failed is being taken back: the rest goes with it
            self._take_back(self._saga())

    def _gave_up_waiting(self, _: events.GiveUp) -> None:
        if self.final is None:
            if self._stopping is None:
                raise IllegalEvent("the run is not being stopped")
            self._give_up()

    def _was_admitted(self, event: events.Admitted) -> None:
        row = self.rows.get(event.node)
        if row is not None and self.final is None:
            self._answer_to(row)

    def _limited(self, event: events.Limit) -> None:
        if event.limit < 1:
            raise IllegalEvent(f"the limit of {event.group!r} must be at least 1, not {event.limit}")
        if self.final is None and self.limits.get(event.group) != event.limit:
            self._append(records.Limited(event.group, event.limit))
            self._set_limit(event.group, event.limit)

    def _resumed(self, event: events.Resume) -> None:
        if not self._dormant or self.final == "succeeded":
            raise IllegalEvent(
                "only a run that was loaded after it ended unsuccessfully, or was parked, can be resumed"
            )
        again = self.droppable(event.again)
        if len(again) < len(event.again):
            raise IllegalEvent(f"something may be built on what is saved of {event.again}")
        self._resume(again)

    def _given(self, event: events.Given) -> None:
        row = self.rows.get(event.node)
        if row is None or not row.foreign:
            raise IllegalEvent(f"{event.node!r} is not outside this part of the graph")
        if event.available:
            row.asked_for = False
            first_time = not row.visible
            row.state = "done"
            row.visible = True
            self._gain(row, row.every_part, first_time)
            if not first_time:
                self._share(row)
        elif row.visible:
            self._lose(row, row.every_part, {})
        if event.quiet and not row.quiet:
            self._set_quiet(row)
            self._release_hindered(settling(row))
            if row.writes:
                self._show_writes(row)
        if event.reproducible and not row.reproducible:
            self._set_reproducible(row)


_HANDLERS: dict[type[events.Event], Callable[[Run, Any], None]] = {
    events.Finished: Run._finished,
    events.Raised: Run._raised,
    events.Ends: Run._scope_ends,
    events.Expired: Run._time_is_over,
    events.Lost: Run._lost,
    events.Ended: Run._ended,
    events.Saved: Run._saved,
    events.SaveFailed: Run._save_failed,
    events.Elapsed: Run._elapsed,
    events.Undone: Run._undone,
    events.UndoFailed: Run._undo_failed,
    events.RetryUndo: Run._retry_undo,
    events.Cancel: Run._cancel,
    events.GiveUp: Run._gave_up_waiting,
    events.Resume: Run._resumed,
    events.Given: Run._given,
    events.Limit: Run._limited,
    events.Admitted: Run._was_admitted,
}


def attempt_name(attempt: int) -> str:
    """An attempt as people see it: `epoch.number`."""
    return f"{attempt >> EPOCH_BITS}.{attempt & (1 << EPOCH_BITS) - 1}"
