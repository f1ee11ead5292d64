"""One run of one graph: the state machine that follows the rules of design section 2.

`Run.handle(event)` returns the commands that the driver carries out, in order. No I/O, no clock, no threads, no
randomness: the same events give the same commands. What an event means is decided here; what follows from it is the
work of `rules`, which are functions over the `State` of the run.

Each event is first judged (is it late? is it impossible?) and only then changes anything. Then the agenda that the
rules left is worked off until nothing is left to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from onceflow.core.checks.check import find_misfit, find_nested_problem
from onceflow.core.checks.validating import validate
from onceflow.core.model import commands, events, records
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart
from onceflow.core.model.rows import Effort, Row, Undo
from onceflow.core.rules import ending, failures, loading, objects, outputs, recovery, settling, slices, starting
from onceflow.core.rules.state import EPOCH_BITS, OnFailure, State, Status
from onceflow.errors import IllegalEvent, NotDeterministic, OnceflowError


class Run(State):
    """The life of one run.

    `on_failure="undo"` makes it a saga. `members` restricts it to a part of the graph: what the others do arrives as
    `Given`. `validate` compares every state with its definition after every event, which is slow.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.members is not None:
            slices.cut(self, set(self.members))

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
        """A run that goes on where the journal ends. `begin()` returns the first commands.

        The caller has proof that every attempt and undo of earlier epochs has ended, except those in `straggling`, for
        which it will send `Ended`. `changed`: see `loading.note_changed`. With `asleep`, nothing starts before the next
        event: a run that is loaded to be cancelled does not go on.
        """
        run = cls(graph, epoch=epoch, on_failure=on_failure, validate=validate)
        loading.replay(run, history, straggling)
        loading.note_changed(run, changed or {})
        run.dormant = asleep or run.final is not None or bool(run.were_parked)
        return run

    def begin(self) -> list[commands.Command]:
        """What to do first. Called once, before any event."""
        if self.loaded:
            loading.distrust_changed(self)
            if not self.dormant:
                loading.take_stock(self)
                loading.refuse_broken_promises(self)
        else:
            self.ready.extend(row for row in self.rows.values() if row.missing == 0)
        return _answer(self)

    def handle(self, event: events.Event) -> list[commands.Command]:
        """Take notice of an event. Late events change nothing; impossible ones raise `IllegalEvent` and change
        nothing."""
        _HANDLERS[type(event)](self, event)
        return _answer(self)

    @property
    def status(self) -> Status:
        """Where the run stands, for users."""
        if self.final is not None:
            return self.final
        if self.were_parked or any(effort.parked for effort in recovery.efforts(self)):
            return "parked"
        if self.recovering:
            return "undoing"
        return "running" if self.stopping is None else "stopping"

    def let_go(self) -> None:
        """No event will come any more: what refers to each other in it is taken apart."""
        self.has_place = None
        for row in self.rows.values():
            row.parents.clear()
            row.consumers.clear()
            row.scope.ends_with(None)
        self.rows.clear()


def _answer(run: State) -> list[commands.Command]:
    if run.dormant:
        return []
    while True:
        while (
            run.outcomes
            or run.reconsider
            or run.explore
            or run.retirable
            or run.suspects
            or run.seeds
            or run.ready
            or run.eager
            or run.admitted
        ):
            if run.outcomes:
                ending.advance_outcomes(run)
            if run.reconsider or run.explore:
                settling.work_off_marks(run)
            if run.retirable:
                settling.retire_rows(run)
            if run.suspects:
                outputs.look_for_losses(run)
            if run.seeds:
                if run.stopping is None:
                    recovery.recover(run)
                else:
                    run.seeds.clear()  # nothing runs again; a later resume finds out anew
            if run.ready:
                starting.start_ready(run)
            elif run.eager:
                starting.give_turns(run)
            elif run.admitted:
                starting.start_admitted(run)
        if run.takers and starting.start_takers(run):
            continue
        if run.undoing or run.rebuilding or run.rebuilt:
            recovery.advance_undos(run)
            if run.suspects:
                continue  # what it took is needed by others
        if not ending.conclude(run):
            break
    if run.validate:
        validate(run)
    answer, run.decided = run.decided, []
    return answer


# -- which row is meant ------------------------------------------------------------------------------------------------


def _row(run: State, node: str, attempt: int) -> Row | None:
    """The row of an event about an attempt; None if the event is late because the row is gone."""
    if attempt > run.last_attempt or attempt <= 0:
        raise IllegalEvent(f"attempt {attempt} of {node!r} was never started")
    row = run.rows.get(node)
    if row is None and node not in run.graph.index and "/" not in node:
        raise IllegalEvent(f"there is no node {node!r} in this run")
    return row


def _current(run: State, node: str, attempt: int) -> Row | None:
    """The row of an attempt that reports its end, if the attempt still counts."""
    row = _row(run, node, attempt)
    if run.final is not None:
        return None
    if row is not None and row.attempt == attempt and row.state == "running":
        return row
    starting.prove_ended(run, row, attempt)
    return None


def _current_effort(run: State, node: str, attempt: int) -> tuple[Row, Effort] | None:
    row = _row(run, node, attempt)
    if row is None:
        return None
    effort = recovery.effort_of(run, row, attempt)
    return None if effort is None or effort.waiting else (row, effort)


# -- attempts ----------------------------------------------------------------------------------------------------------


def _finished(run: State, event: events.Finished) -> None:
    if run.rebuilding:
        rebuilt = _current_effort(run, event.node, event.attempt)
        if rebuilt is not None and not isinstance(rebuilt[1], Undo):
            _rebuilt_privately(run, *rebuilt, event.graph)
            return
    row = _current(run, event.node, event.attempt)
    if row is None:
        return
    if event.refs:
        _judge_refs(row, event.refs)
    if event.joined and not _may_count(run, row, event):
        _ended(run, events.Ended(event.node, event.attempt))
        return
    if row.begun_with:
        starting.count_as_started(run, row)
    if event.handled:
        failures.was_handled(run, row, event.small)
        return
    error = _problem_with(run, row, event.graph)
    if error is None:
        run.running -= 1
        if event.joined:
            known = [run.rows[child] for child in event.joined if child in run.rows]
            starting.join(run, row, known)
            if len(known) < len(event.joined):  # what is forgotten may have been abandoned
                starting.follow_writes(row)
        outputs.become_done(run, row, event.graph, event.small, event.refs)
    else:
        run.emit(commands.Refuse(row.id, row.attempt, error))
        failures.attempt_raised(run, row, permanent=True)


def _judge_refs(row: Row, refs: tuple[RefPart, ...]) -> None:
    parents = {parent.id for parent, mask in row.parents if mask}
    for ref in refs:
        if ref.holders & ~row.node.every_part:
            raise IllegalEvent(f"a ref is in a part that {row.id!r} does not have")
        if ref.actor and (ref.origin is not None or ref.holders.bit_count() != 1):
            raise IllegalEvent(f"a version of an actor is made by who returns it, in one part: not so in {row.id!r}")
        if ref.origin is not None and (ref.origin[0] not in parents or ref.origin[1] < 0):
            raise IllegalEvent(f"{row.id!r} returned a ref from {ref.origin[0]!r}, which it does not read")


def _may_count(run: State, row: Row, event: events.Finished) -> bool:
    """Whether what it was given by those that it has joined still counts: it may have been taken back meanwhile."""
    options = row.node.options
    is_wait = options.effect == "none" and not (options.deterministic or options.writes) and options.checkpoint
    if event.handled or event.graph is not None or not is_wait:
        raise IllegalEvent(f"{row.id!r} cannot join others")
    return all(starting.may_join(run, child) for child in event.joined)


def _rebuilt_privately(run: State, row: Row, effort: Effort, graph: Graph | None) -> None:
    error = _problem_with(run, row, graph)
    if error is not None:
        run.emit(commands.Refuse(row.id, effort.attempt, error))
        recovery.effort_raised(run, row, effort)
        return
    if graph is not None and row.nested is None:
        outputs.expand_again(run, row, graph)  # the undo reads the nested sink, which is rebuilt next
        recovery.doom_nested(run, row)
    recovery.rebuild_finished(run, row)


def _problem_with(run: State, row: Row, graph: Graph | None) -> OnceflowError | None:
    """What forbids this outcome? A repeatable row that was seen before must return the same graph again, or
    none."""
    if not row.visible:
        return None if graph is None else find_nested_problem(run, row, graph)
    if row.nested is None and row.inferred:
        return _problem_after_crash(row, graph)
    before = None if row.nested is None else row.nested.graph.digest
    now = None if graph is None else graph.digest
    return None if before == now else NotDeterministic(row.id)


def _problem_after_crash(row: Row, graph: Graph | None) -> OnceflowError | None:
    """What it returned before a crash is not known; but a graph was of repeatable tasks only, else the journal
    would say so (*expanded*)."""
    if graph is None:
        return None
    if not all(node.options.repeatable for node in graph.nodes):
        return NotDeterministic(row.id)
    return find_misfit(row, graph)


def _raised(run: State, event: events.Raised) -> None:
    effort = _current_effort(run, event.node, event.attempt)
    if effort is not None:
        recovery.effort_raised(run, *effort)
        return
    row = _current(run, event.node, event.attempt)
    if row is not None:
        if not event.started:
            starting.withdraw(run, row, event.attempt)
        elif row.begun_with:
            starting.count_as_started(run, row)
        failures.attempt_raised(run, row, event.permanent, event.again)


def _scope_ends(run: State, event: events.Ends) -> None:
    row = _row(run, event.node, event.attempt)
    least = 1 if event.again else 0  # no row represents the whole run and could be tried again
    if row is not None and not (event.failed <= row.scope.depth and least <= event.ends <= row.scope.depth):
        raise IllegalEvent(f"{event.node!r} is not in a graph at depth {max(event.failed, event.ends)}")
    if 0 <= event.failed < event.ends:
        raise IllegalEvent(f"the graph at depth {event.failed} has failed, so one inside of it cannot end for it")
    row = _current(run, event.node, event.attempt)
    if row is not None:
        if row.begun_with:
            starting.count_as_started(run, row)
        ending.answered_for(run, row, event.failed, event.ends, event.small, event.again)


def _time_is_over(run: State, event: events.Expired) -> None:
    row = run.rows.get(event.node)
    if row is None or run.dormant:
        return
    if not 0 < event.ends <= row.scope.depth:
        raise IllegalEvent(f"{event.node!r} is not in a graph at depth {event.ends}")
    ending.expire(run, row.scope.at(event.ends), event.small)


def _elapsed(run: State, event: events.Elapsed) -> None:
    row = _row(run, event.node, event.attempt)
    if event.attempt in run.pausing and run.final is None:
        scope = run.pausing.pop(event.attempt)
        if run.stopping is None:  # else nothing in it starts any more, and it may have been taken back for good
            recovery.open_scope(run, scope)
        return
    if row is None or run.final is not None:
        return
    effort = recovery.effort_of(run, row, event.attempt)
    if effort is not None and effort.waiting:
        recovery.effort_elapsed(effort)
    elif row.state == "backoff" and row.attempt == event.attempt and row.undo is None:
        row.move("waiting")
        row.attempt = 0
        outputs.needs_inputs(run, row, {})


def _lost(run: State, event: events.Lost) -> None:
    rows = [(_row(run, node, attempt), attempt) for node, attempt in event.attempts]
    lost: dict[Row, int] = {}
    for node, part in event.outputs:
        if part < 0:
            raise IllegalEvent(f"{node!r} has no part {part}")
        row = run.rows.get(node)
        if row is not None:
            lost[row] = lost.get(row, 0) | 1 << part
    if run.final is not None:
        return
    for row in lost:
        run.rebuilt.pop(row, None)
    outputs.lose_parts(run, lost)
    for row, attempt in rows:
        if row is not None:
            _lose_attempt(run, row, attempt)


def _lose_attempt(run: State, row: Row, attempt: int) -> None:
    effort = recovery.effort_of(run, row, attempt)
    if effort is not None:
        recovery.effort_lost(run, row, effort)
    elif row.state == "running" and row.attempt == attempt:
        run.running -= 1
        starting.end_turn(run, row)
        run.bury(row, attempt)
        row.move("waiting")
        row.attempt = 0
        if row.effect == "undoable":
            recovery.undo_locally(run, row)
        outputs.needs_inputs(run, row, {})


def _ended(run: State, event: events.Ended) -> None:
    row = _row(run, event.node, event.attempt)
    if run.final is None:
        if row is not None:
            if not event.started:
                starting.withdraw(run, row, event.attempt)
            _lose_attempt(run, row, event.attempt)  # an attempt that ended without a word is lost as well
        starting.prove_ended(run, row, event.attempt)


# -- saves -------------------------------------------------------------------------------------------------------------


def _pending_save(run: State, node: str, part: int, attempt: int) -> Row | None:
    row = _row(run, node, attempt)
    if row is None or row.attempt != attempt:
        return None
    if part < 0 or not row.every_part >> part & 1:
        raise IllegalEvent(f"{node!r} has no part {part}")
    return row if row.saving >> part & 1 else None


def _saved(run: State, event: events.Saved) -> None:
    row = _pending_save(run, event.node, event.part, event.attempt)
    if row is not None:
        outputs.become_saved(run, row, event.part)


def _save_failed(run: State, event: events.SaveFailed) -> None:
    row = _pending_save(run, event.node, event.part, event.attempt)
    if row is None:
        return
    if event.permanent:
        objects.forget_saves(run, row, 1 << event.part)
        run.append(records.Failed(row.id, row.failures, True))
        failures.fail(run, row.id, row.scope)
    else:
        run.emit(commands.Save(row.id, event.part, event.attempt))


# -- undos -------------------------------------------------------------------------------------------------------------


def _current_undo(run: State, node: str, attempt: int) -> Row | None:
    row = _row(run, node, attempt)
    if run.final is not None:
        return None
    if row is not None and row.undo is not None and row.undo.attempt == attempt and not row.undo.waiting:
        return row
    starting.prove_ended(run, row, attempt)
    return None


def _undone(run: State, event: events.Undone) -> None:
    row = _current_undo(run, event.node, event.attempt)
    if row is None:
        return
    recovery.note_undone(run, row)
    if row in run.recovering:
        return
    if row.state == "backoff":
        if run.stopping is None:
            run.emit(commands.Wait(row.id, row.attempt, row.failures))
    elif row.state == "handled":
        failures.undone_and_handled(run, row)
    elif row.state == "waiting":
        outputs.needs_inputs(run, row, {})


def _undo_failed(run: State, event: events.UndoFailed) -> None:
    row = _current_undo(run, event.node, event.attempt)
    if row is not None and row.undo is not None:
        recovery.effort_raised(run, row, row.undo)


def _retry_undo(run: State, event: events.RetryUndo) -> None:
    if event.node in run.were_parked:
        loading.wake(run)
        loading.refuse_broken_promises(run)
        return
    row = run.rows.get(event.node)
    efforts = [] if row is None else [row.undo, run.rebuilding.get(row)]
    parked = [effort for effort in efforts if effort is not None and effort.parked]
    if not parked:
        raise IllegalEvent(f"no undo of {event.node!r} is parked")
    for effort in parked:
        effort.parked = False
        effort.failures = 0


# -- the whole run -----------------------------------------------------------------------------------------------------


def _cancel(run: State, event: events.Cancel) -> None:
    if run.final is not None:
        return
    if run.dormant:
        loading.wake(run)
    if run.stopping is not None and (run.undo_all or not event.undo):
        return
    run.append(records.Cancelled(event.undo))
    run.undo_all = event.undo
    failures.stop(run, "cancelled")
    if run.undoing_all:  # a transaction that failed is being taken back: the rest goes with it
        recovery.take_back(run, ending.saga(run))


def _gave_up_waiting(run: State, _: events.GiveUp) -> None:
    if run.final is None:
        if run.stopping is None:
            raise IllegalEvent("the run is not being stopped")
        failures.give_up(run)


def _was_admitted(run: State, event: events.Admitted) -> None:
    row = run.rows.get(event.node)
    if row is not None and run.final is None:
        starting.answer_to(run, row)


def _limited(run: State, event: events.Limit) -> None:
    if event.limit < 1:
        raise IllegalEvent(f"the limit of {event.group!r} must be at least 1, not {event.limit}")
    if run.final is None and run.limits.get(event.group) != event.limit:
        run.append(records.Limited(event.group, event.limit))
        starting.set_limit(run, event.group, event.limit)


def _resumed(run: State, event: events.Resume) -> None:
    if not run.dormant or run.final == "succeeded":
        raise IllegalEvent("only a run that was loaded after it ended unsuccessfully, or was parked, can be resumed")
    again = loading.droppable(run, event.again)
    if len(again) < len(event.again):
        raise IllegalEvent(f"something may be built on what is saved of {event.again}")
    loading.resume(run, again)


_HANDLERS: dict[type[events.Event], Callable[[State, Any], None]] = {
    events.Finished: _finished,
    events.Raised: _raised,
    events.Ends: _scope_ends,
    events.Expired: _time_is_over,
    events.Lost: _lost,
    events.Ended: _ended,
    events.Saved: _saved,
    events.SaveFailed: _save_failed,
    events.Elapsed: _elapsed,
    events.Undone: _undone,
    events.UndoFailed: _undo_failed,
    events.RetryUndo: _retry_undo,
    events.Cancel: _cancel,
    events.GiveUp: _gave_up_waiting,
    events.Resume: _resumed,
    events.Given: slices.given,
    events.Limit: _limited,
    events.Admitted: _was_admitted,
}


def attempt_name(attempt: int) -> str:
    """An attempt as users see it: `epoch.number`."""
    return f"{attempt >> EPOCH_BITS}.{attempt & (1 << EPOCH_BITS) - 1}"
