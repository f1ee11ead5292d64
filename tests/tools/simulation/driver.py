"""Everything around a `Run`: journal, memory, attempts, saves in flight, timers, the world. Obeys to the letter.

The simulated driver decides nothing by itself: `schedule.py` says what happens next, this file carries it out and keeps
its own account of what it saw. That account, and never the inside of the `Run`, is what `checker.py` judges.

A crash takes everything that is not committed and all memory; attempts may survive it. What the run can know afterwards
is read from the committed journal alone (`facts.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal
from zlib import crc32

from onceflow.core.checks.check import find_nested_problem
from onceflow.core.checks.definitions import Facts, each
from onceflow.core.model import commands, events, records
from onceflow.core.model.graph import Graph, Node
from onceflow.core.model.refs import RefPart
from onceflow.core.rules import ending
from onceflow.core.run import Run
from onceflow.errors import IllegalEvent
from tests.tools.simulation.attempts import Attempt, Inputs, Kind, Value, Values, nothing
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.facts import (
    deduce_versions,
    facts_of,
    handled_of,
    is_saved,
    joins_of,
    members_of_recovery,
    what_a_crash_leaves,
)
from tests.tools.simulation.reading import Entry, Reading
from tests.tools.simulation.rows import Row, Saving, Waiting
from tests.tools.simulation.story import Story
from tests.tools.simulation.structure import Structure, structure_of
from tests.tools.simulation.world import Violation, World

OnFailure = Literal["keep", "undo"]


@dataclass(slots=True)
class Driver:
    """Drives one run of a graph through any number of epochs."""

    graph: Graph
    run_class: type[Run]
    on_failure: OnFailure
    validate: bool
    checker: Checker
    story: Story
    world: World = field(default_factory=World)
    values: Values = field(default_factory=Values)
    epoch: int = 1
    journal: list[Entry] = field(default_factory=list)
    committed: int = 0
    answers: list[int] = field(default_factory=list)
    """How many entries there were after each answer of the run that is not committed yet."""
    appended: Reading = field(default_factory=Reading)
    durable: Reading = field(default_factory=Reading)
    attempts: dict[tuple[str, int], Attempt] = field(default_factory=dict)
    of_node: dict[str, list[Attempt]] = field(default_factory=dict)
    active: list[Attempt] = field(default_factory=list)
    """Attempts that were carried out and have not ended."""
    waiting: list[Waiting] = field(default_factory=list)
    saves: list[Saving] = field(default_factory=list)
    stored: set[tuple[str, int, int]] = field(default_factory=set)
    """(node, part, attempt) of the bytes that are where they must be."""
    timers: list[commands.Wait] = field(default_factory=list)
    asking: dict[str, None] = field(default_factory=dict)
    placed: dict[str, int] = field(default_factory=dict)
    """Nodes with an effect that had a place at once, when they were last looked at → the step in which that was."""
    looked: dict[str, int] = field(default_factory=dict)
    """Node → how often it wanted a place for its effect."""
    step: int = 0
    """How often the run was called."""
    """Nodes that want to be admitted."""
    admitting: str | None = None
    """The node that is just being admitted."""
    forgotten: set[str] = field(default_factory=set)
    """Expanders whose graph is a fact that this engine has yet to find out: a crash took it before it was saved."""
    told: bool = False
    """The run was told something since the checker last looked, so the facts may have changed."""
    refusing: Attempt | None = None
    """The attempt whose nested graph the law refuses."""
    raising: Attempt | None = None
    """The attempt that is just being reported to have raised, `permanent`ly or not."""
    permanent: bool = False
    again: bool = False
    """A handler wants that attempt to be repeated."""
    resuming: tuple[str, ...] = ()
    """What the run that is just being resumed is to do again."""
    over: commands.Finish | None = None
    closing: dict[str, bool] = field(default_factory=dict)
    """Expanders of graphs that are about to end, or to be tried again (True); empty for the run."""
    expiring: dict[str, set[str]] = field(default_factory=dict)
    """Those of them whose time is over, with the transactions that are to be taken back for that alone. If such a graph
    gets its result meanwhile, it opens again, and nothing in it is taken back."""
    delays: dict[str, float] = field(default_factory=dict)
    """Expanders whose graphs are tried again when their delay is over → how many entries have to be committed for that
    to survive a crash: no number is enough if the graph was not saved before."""
    raised: set[str] = field(default_factory=set)
    """Nodes that are tried again when their delay is over, as far as this engine has seen it."""
    answered: dict[str, Attempt] = field(default_factory=dict)
    """Node → its last attempt that raised, and for which a handler answered for a graph around it."""
    groups: set[str] = field(default_factory=set)
    """Expanders of transactions in which something failed that a handler answered for."""
    _answering: bool = False
    parked: list[str] = field(default_factory=list)
    """Nodes whose undo waits for a person."""
    structure: Structure = field(init=False)
    rows: dict[str, Row] = field(init=False)
    run: Run = field(init=False)

    def __post_init__(self) -> None:
        self.structure = structure_of(self.graph, {})
        self.rows = {id: Row() for id in self.structure.nodes}
        self.run = self.run_class(self.graph, epoch=1, on_failure=self.on_failure, validate=self.validate)
        self.run.has_place = self._has_place if self.effects_ask else None

    @property
    def effects_ask(self) -> bool:
        """Whether whatever has an effect asks before it starts: in graphs whose sink asks."""
        return self.graph.nodes[self.graph.sink].admission is not None

    def asks(self, task: Node) -> bool:
        """Whether it asks before it starts."""
        return task.admission is not None or (self.effects_ask and task.options.effect != "none")

    def may_enter(self, node: str) -> bool:
        """Whether a node that asks was admitted, or had a place at once."""
        return self.admitting == node or self.placed.get(node) == self.step

    def _has_place(self, node: str) -> bool:
        """Half of the time, if the sink of the graph has a number: then that says when."""
        number = self.graph.nodes[self.graph.sink].admission
        self.looked[node] = self.looked.get(node, 0) + 1
        if not number or not crc32(f"{number} {node} {self.looked[node]}".encode()) & 1:
            return False
        self.placed[node] = self.step
        return True

    # What the schedule asks for

    def begin(self) -> None:
        """The first call of an epoch."""
        self.story.tell("begin", None)
        self._call(self.run.begin)

    def deliver(self, event: events.Event) -> int:
        """Tells the run of an event. Returns how many commands it answered with."""
        self.story.tell("event", event)
        if isinstance(event, events.Elapsed):
            if ending.is_pausing(self.run, event.attempt):
                self.delays.pop(event.node, None)
            else:
                self.raised.discard(event.node)
        return self._call(lambda: self.run.handle(event))

    def deliver_nonsense(self, event: events.Event) -> None:
        """Tells the run of something that cannot have happened."""
        self.story.tell("nonsense", event)
        try:
            self.run.handle(event)
        except IllegalEvent:
            return
        raise Violation(f"{event} was accepted")

    def admit(self, node: str) -> None:
        """A node that asked may start."""
        del self.asking[node]
        self.admitting = node
        self.deliver(events.Admitted(node))
        self.admitting = None

    def uncommitted(self) -> int:
        """How many answers of the run the journal has yet to commit. The records of one stand or fall together."""
        return len(self.answers)

    def commit(self, count: int) -> None:
        """The journal commits what the run said in its next answers."""
        through = self.answers[count - 1]
        del self.answers[:count]
        self.story.tell("commit", through - self.committed)
        for entry in self.journal[self.committed : through]:
            self.durable.read(entry)
        self.committed = through

    def carry_out(self, waiting: Waiting) -> None:
        """A durable command whose commit is there."""
        self.waiting.remove(waiting)
        command = waiting.command
        self.story.tell("carry out", command)
        match command:
            case commands.Start() | commands.Undo():
                assert waiting.attempt is not None
                self._launch(waiting.attempt)
            case commands.Park():
                self.parked.append(command.node)
            case commands.Finish():
                self.over = command
                self.checker.judge_finish(self, command)

    def land(self, attempt: Attempt) -> None:
        """The effect of an attempt or undo becomes visible outside."""
        self.story.tell("lands", attempt)
        attempt.landed = True
        if attempt.kind == "undo":
            self.world.take_back(attempt)
        else:
            self.checker.judge_effect(self, attempt)
            self.world.apply(attempt)

    def finish(
        self,
        attempt: Attempt,
        graph: Graph | None,
        small: bool,
        refs: tuple[RefPart, ...] = (),
        joined: tuple[str, ...] = (),
    ) -> None:
        """The attempt returns. It was given the outcomes of these, which stand aside."""
        attempt.graph = graph
        self.checker.judge_joins(self, attempt, joined)
        attempt.joined = tuple([child for child in joined if child in self.run.rows])
        attempt.versions = {**attempt.versions, **{child: self.version(child) for child in joined}}
        attempt.refs = dict(enumerate(refs, attempt.task.parts))
        attempt.output = self.values.compute(attempt)
        counts = self.counts(attempt)
        self._report(attempt)
        row = self.rows.get(attempt.node)
        if counts and row is not None:
            if attempt.kind == "private":
                row.private = attempt
                if graph is not None:
                    self._expand(attempt.node, graph)
            elif graph is None or self._expand(attempt.node, graph):
                row.void()
                row.version, row.refs = attempt, attempt.refs
                made = sum(1 << part for part, ref in attempt.refs.items() if ref.origin is None)
                row.memory = (attempt.task.every_part if graph is None else 1) | made
                self._was_quicker(attempt.node)
                self._share()
                self._count_handled()
            else:
                self.refusing = attempt
        self.deliver(events.Finished(attempt.node, attempt.number, graph, small, refs, joined=joined))
        if self.refusing is not None:
            raise Violation(f"the graph that {attempt!r} returned was not refused")

    def fail(self, attempt: Attempt, permanent: bool, again: bool = False, started: bool = True) -> None:
        """The attempt raises, or counts as having done so before it `started`."""
        self.raising, self.permanent = (attempt if self.counts(attempt) else None), permanent
        self.again = again
        self._report(attempt)
        if not started:
            attempt.launched = False
        self.deliver(events.Raised(attempt.node, attempt.number, permanent, again, started))
        self.raising = None

    def answer(self, attempt: Attempt, small: bool) -> None:
        """The attempt raises, and a handler gives an output. If the task gave one before that counts, it is too late
        for handlers (2.8)."""
        counts = self.counts(attempt)
        self._report(attempt)
        row = self.rows.get(attempt.node)
        if row is not None and row.version is not None:
            self.raising, self.permanent, self.again = (attempt if counts else None), True, False
        elif counts and row is not None:
            attempt.handled = True
            attempt.output = self.values.compute(attempt)
            if attempt.task.options.effect == "undoable":
                row.handled = attempt
            else:
                self._take_over(row, attempt)
                self._was_quicker(attempt.node)
        self.deliver(events.Finished(attempt.node, attempt.number, None, small, handled=True))
        self.raising = None

    def _take_over(self, row: Row, attempt: Attempt) -> None:
        """What a handler gave is the output now."""
        row.void()
        row.version, row.memory = attempt, attempt.task.every_part
        self._count_handled()

    def _count_handled(self) -> None:
        versions = {id: row.version for id, row in self.rows.items()}
        handled = handled_of(versions)
        ended = {sink: expander for sink, expander in self.appended.ended.items() if versions.get(sink) is not None}
        joins = joins_of(versions)
        if (handled, ended, joins) != (self.structure.handled, self.structure.ended, self.structure.joins):
            self.structure = self.structure.with_handled(handled, ended, joins)

    def answer_for(self, attempt: Attempt, failed: int, ends: int, again: bool, small: bool) -> None:
        """The attempt raises, and a handler answers for a graph around it."""
        counts = self.counts(attempt)
        self._report(attempt)
        row = self.rows.get(attempt.node)
        if counts and row is not None and (row.version is not None or self.appended.stopping):
            self.raising, self.permanent, self.again = attempt, True, False
        elif counts and row is not None:
            self.answered[attempt.node] = attempt
            chain = [""]
            scope = self.run.rows[attempt.node].scope
            while scope.outer is not None:
                chain.insert(1, scope.expander)
                scope = scope.outer
            self.closing[chain[ends]] = again and self.closing.get(chain[ends], True)
            if failed >= 0:
                group = self.transaction_around(attempt.node, chain[failed])
                if group is not None:
                    self.groups.add(group)
        self.deliver(events.Ends(attempt.node, attempt.number, failed, ends, again, small))
        self.raising = None

    def expire(self, node: str, ends: int, small: bool) -> None:
        """The time of a graph around this node is over."""
        scope = self.run.rows[node].scope
        while scope.depth > ends and scope.outer is not None:
            scope = scope.outer
        expander, sink = scope.expander, scope.sink
        awake = not (self.appended.stopping or self.run.dormant)
        row = None if sink is None else self.rows.get(sink.id)  # what is undone for good is not here any more
        if sink is not None and row is not None and row.version is None and awake and not self._ends_anyway(expander):
            self.closing[expander] = False
            inside = {other for other in self.structure.graphs if self._is_open_transaction(other, expander)}
            self.expiring[expander] = inside
        self.deliver(events.Expired(node, ends, small))

    def _ends_anyway(self, expander: str) -> bool:
        """Whether this graph, or one around it, is about to end, whatever becomes of its result."""
        return any(
            not again and other not in self.expiring and (expander == other or expander in self.structure.inside(other))
            for other, again in self.closing.items()
        )

    def to_be_taken_back(self) -> set[str]:
        """Expanders of transactions in which something failed, or that are in graphs whose time is over."""
        return self.groups.union(*self.expiring.values())

    def transaction_around(self, node: str, expander: str | None = None) -> str | None:
        """The outermost transaction without a result around a node, up to and including the graph of this expander if
        one is given."""
        around = self.structure.expanders_around(node)
        if expander in around:
            around = around[: around.index(expander) + 1]
        found = [other for other in around if self.is_open_transaction(other)]
        return found[-1] if found else None

    def is_open_transaction(self, expander: str) -> bool:
        """Whether this task has returned a transaction that has no result yet."""
        if expander not in self.structure.graphs or not self.structure.nodes[expander].options.transaction:
            return False
        result = self.structure.result_of(expander)
        return self.rows[result].version is None or result in self.appended.recovering

    def _is_open_transaction(self, expander: str, around: str) -> bool:
        inside = expander == around or expander in self.structure.inside(around)
        return inside and self.is_open_transaction(expander)

    def _give(self, command: commands.Give) -> None:
        """What the handler gave is there; it counts when all of it is saved."""
        self._contract({command.node})
        self.rows[command.node].void()
        task = self.structure.nodes[command.node]
        given = Attempt(command.node, command.attempt, "run", task, {}, {}, state="ended", handled=True)
        given.known_ended = True
        given.came_of = self.answered.get(command.cause)
        given.output = self.values.compute(given)
        self._add(given)
        self.rows[command.node].handled = given

    def _end_graph(self, sink: str) -> None:
        """All of the outcome is saved."""
        row = self.rows[sink]
        given = row.handled
        if given is None or sink not in self.appended.ended:
            return
        expander = self.appended.ended[sink]
        facts = self.facts()
        for node in self.structure.inside(expander) - {sink}:
            other = self.rows[node]
            task = self.structure.nodes[node]
            counts_as_a_whole = task.options.writes or (other.version is not None and other.version.joined)
            if other.version is None or (counts_as_a_whole and not facts.is_saved(self.structure.shape.position[node])):
                other.version = nothing(node, self.structure.nodes[node], sink)
                other.current = other.handled = None
        row.handled = None
        inside = self.structure.inside(expander)
        self.closing = {
            other: again for other, again in self.closing.items() if other != expander and other not in inside
        }
        self.expiring = {other: groups for other, groups in self.expiring.items() if other in self.closing}
        self.delays = {other: needed for other, needed in self.delays.items() if other not in inside}
        self._take_over(row, given)

    def is_closed(self, node: str) -> bool:
        """Nothing may start there: a handler has answered for a graph around it."""
        return node in self.closed()

    def _was_quicker(self, node: str) -> None:
        """If this is the result of a graph whose time is over, it came before the graph had come to its end."""
        for expander in [expander for expander in self.expiring if self.structure.result_of(expander) == node]:
            del self.expiring[expander], self.closing[expander]

    def end_undo(self, undo: Attempt, succeeded: bool) -> None:
        """The undo returns or raises."""
        self._report(undo)
        event = events.Undone if succeeded else events.UndoFailed
        self.deliver(event(undo.node, undo.number))

    def prove_end(self, attempt: Attempt, started: bool = True) -> None:
        """It becomes known that a stopped or lost attempt runs no more, or that it never `started`."""
        self._report(attempt)
        if not started:
            attempt.launched = False
        self.deliver(events.Ended(attempt.node, attempt.number, started))

    def hand_back(self, attempt: Attempt) -> None:
        """An attempt that was withdrawn before it had started."""
        if attempt.state == "pending":
            self.waiting = [waiting for waiting in self.waiting if waiting.attempt is not attempt]
            self.active.append(attempt)
        self.prove_end(attempt, started=False)

    def lose(self, parts: Sequence[events.Part], attempts: Sequence[Attempt]) -> None:
        """One failure takes parts from memory and silences attempts."""
        for node, part in parts:
            row = self.rows[node]
            row.memory &= ~(1 << part)
            row.shared.pop(part, None)
            row.private = None
        self._share()
        for attempt in attempts:
            attempt.state = "silent"
        self.deliver(events.Lost(tuple(parts), tuple((a.node, a.number) for a in attempts)))

    def resume(self, again: tuple[str, ...]) -> None:
        """Somebody goes on with a run that was loaded; these are to be done again."""
        self.resuming = again
        self.deliver(events.Resume(again))
        self.resuming = ()

    def save(self, saving: Saving, outcome: Literal["saved", "failed", "impossible"]) -> None:
        """A save in flight comes to its end."""
        self.saves.remove(saving)
        node, number = saving.attempt.node, saving.attempt.number
        if outcome == "saved":
            self.stored.add((node, saving.part, number))
            self.deliver(events.Saved(node, saving.part, number))
        else:
            self.deliver(events.SaveFailed(node, saving.part, number, outcome == "impossible"))

    def crash(self, survives: Callable[[Attempt], bool], asleep: bool = False) -> None:
        """The engine dies and another one loads what is committed. Attempts that survive are stragglers."""
        self.story.tell("crash", self.epoch)
        del self.journal[self.committed :]
        self.answers.clear()
        # The next engine cannot name the nodes of a graph that the journal does not know.
        self.durable = self.durable.after_crash()
        known = structure_of(self.graph, self.durable.graphs).nodes
        self.durable.recovering = self.durable.recovering & known.keys()
        self.appended = self.durable.copy()
        for waiting in self.waiting:
            if waiting.attempt is not None:
                waiting.attempt.end()
                waiting.attempt.known_ended = True
        for attempt in self.active:
            if attempt.state != "ended":
                attempt.state = "silent" if attempt.launched and survives(attempt) else "ended"
                attempt.known_ended = attempt.state == "ended"
        self.active = [attempt for attempt in self.active if attempt.alive]
        self.closing, self.expiring, self.groups, self.raised = {}, {}, set(), set()
        self.delays = {
            node: needed
            for node, needed in self.delays.items()
            if needed <= self.committed and node in self.durable.graphs
        }
        self.waiting, self.saves, self.timers, self.over, self.parked = [], [], [], None, []
        self.asking = {}
        self._begin_with(self.durable)
        self.epoch += 1
        stragglers = tuple((attempt.node, attempt.number) for attempt in self.active)
        self.story.tell("load", stragglers)
        self.run = self.run_class.load(
            self.graph,
            [record for record, _ in self.journal],
            epoch=self.epoch,
            on_failure=self.on_failure,
            straggling=stragglers,
            asleep=asleep,
            validate=self.validate,
        )
        self.run.has_place = self._has_place if self.effects_ask else None
        self.begin()

    # What the run asks for

    def _call(self, what: Callable[[], list[commands.Command]]) -> int:
        self.told = True
        outermost, self._answering = not self._answering, True
        self.step += outermost
        answer = what()
        for command in answer:
            self.story.tell("command", command)
            self._obey(command)
        if outermost:
            self._answering = False
            if len(self.journal) > (self.answers[-1] if self.answers else self.committed):
                self.answers.append(len(self.journal))
        return len(answer)

    def _obey(self, command: commands.Command) -> None:
        match command:
            case commands.Append():
                self._append(command.record)
            case commands.Start():
                self._start(command)
            case commands.Undo():
                undo = self._prepare_undo(command)
                self.waiting.append(Waiting(command, len(self.journal), undo))
            case commands.Ask():
                self.asking[command.node] = None
            case commands.Stop():
                self._stop(command)
            case commands.Withdraw():
                self._withdraw(command)
            case commands.Save():
                self._save(command)
            case commands.Give():
                self._give(command)
            case commands.Wait():
                self.timers.append(command)
            case commands.Release():
                self._release(command)
            case commands.Drop():
                self._drop({command.node})
            case commands.Refuse():
                if self.refusing is None or (self.refusing.node, self.refusing.number) != (
                    command.node,
                    command.attempt,
                ):
                    raise Violation(f"{command}, but the law allows that graph")
                self.refusing = None
            case commands.Stuck():
                self.checker.judge_stuck(self, command)
            case commands.Need():
                raise Violation(f"{command} in a run over a whole graph")
            case _:
                self.waiting.append(Waiting(command, len(self.journal)))

    def _append(self, record: records.Record) -> None:
        attempt: Attempt | None = None
        match record:
            case records.Begun():
                attempt = self._make(record.node, record.attempt, "run", frozenset(record.carried))
                if self.asks(attempt.task) and not self.may_enter(record.node):
                    raise Violation(f"{record}, but it was not admitted")
            case records.Saved() | records.Wrote():
                attempt = self.attempts.get((record.node, record.attempt))
                if attempt is None:
                    raise Violation(f"{record} is about an attempt that never was")
            case records.Done():
                attempt = self.rows[record.node].version
        self.checker.judge_record(self, record, attempt)
        entry = (record, attempt)
        self.journal.append(entry)
        self.appended.read(entry)
        match record:
            case records.Recovering():
                for x in each(members_of_recovery(self.structure, self.appended)):
                    row = self.rows[self.structure.shape.members[x].id]
                    row.current = row.handled = None
                    self.raised.discard(self.structure.shape.members[x].id)
                    if row.version is not None and row.version.abandoned:
                        row.version = None  # its graph has not ended: it starts afresh
                self._count_handled()
            case records.Saved() if attempt is not None and attempt.handled:
                attempt.joined = record.joined
                self._end_graph(record.node)
            case records.Again():  # what is about to end in it does so all the same
                self.closing.pop(record.node, None)
                inside = self.structure.inside(record.node)
                self.closing = {
                    other: again for other, again in self.closing.items() if not (again and other in inside)
                }
                self.delays = {other: needed for other, needed in self.delays.items() if other not in inside}
                self.delays[record.node] = len(self.journal) if record.node in self.appended.graphs else inf
                self.raised -= inside
            case records.Failed():
                self.raised.add(record.node)
            case records.Resumed():
                self.delays.clear()
            case records.Undone():
                row = self.rows[record.node]
                if row.handled is not None and not self.appended.stopping and not self.is_closed(record.node):
                    self._take_over(row, row.handled)
                row.handled = None
            case records.Dropped() if record.nodes == self.resuming:
                self._begin_with(self.appended)
            case records.Dropped():
                self._drop(set(record.nodes))

    def _start(self, command: commands.Start) -> None:
        attempt = self.attempts.get((command.node, command.attempt))
        if attempt is None:
            attempt = self._make(command.node, command.attempt, "private" if command.private else "run")
        if self.asks(attempt.task) and not command.private and not self.may_enter(command.node):
            raise Violation(f"{attempt!r} was not admitted")
        self.checker.judge_start(self, command, attempt)
        self._take(attempt)
        row = self.rows[command.node]
        if not command.private:
            row.current = attempt
            if row.version is not None and not attempt.task.options.repeatable:
                row.void()
                self._contract({command.node})
                self._count_handled()
        if command.durable:
            self.waiting.append(Waiting(command, len(self.journal), attempt))
        else:
            self._launch(attempt)

    def _take(self, attempt: Attempt) -> None:
        """2.7: what it takes for itself is gone, unless it is to be saved: then a snapshot is in memory."""
        member = self.structure.member(attempt.node)
        taken = set()
        for parent, declared in member.takes.items():
            source = attempt.versions[parent]
            for part, ref in source.refs.items():
                if not ref.actor or not ref.holders & declared:
                    continue
                taken.add((parent, part))
                if source is not self.rows[parent].private:
                    self.checker.judge_taking(self, attempt, parent, part)
                    if not self.structure.member(parent).checkpoint:
                        self.rows[parent].memory &= ~(1 << part)
        attempt.taken = frozenset(taken)

    def _launch(self, attempt: Attempt) -> None:
        """The attempt reads its inputs and runs; if one was lost meanwhile, it is reported lost."""
        readable = self.undo_inputs(attempt.undoes) if attempt.undoes else self._read(attempt)
        attempt.state = "running"
        self.active.append(attempt)
        if readable is None:
            attempt.landed = True
            self.lose((), (attempt,))
        elif readable != attempt.inputs:
            raise Violation(f"{attempt!r} was to read {attempt.inputs} and finds {readable}")
        else:
            attempt.launched = True
            self.checker.judge_launch(self, attempt)

    def _stop(self, command: commands.Stop) -> None:
        attempt = self.attempts.get((command.node, command.attempt))
        if attempt is None:
            raise Violation(f"{command} is about an attempt that never was")
        if attempt.state == "pending":
            self.waiting = [waiting for waiting in self.waiting if waiting.attempt is not attempt]
            attempt.state, attempt.landed = "stopping", True
            self.active.append(attempt)
        elif attempt.state == "running":
            attempt.state = "stopping"

    def _withdraw(self, command: commands.Withdraw) -> None:
        attempt = self.attempts.get((command.node, command.attempt))
        if attempt is None or attempt.task.options.effect != "irrevocable":
            raise Violation(f"{command} is about an attempt that never was, or that need not be withdrawn")
        attempt.withdrawn = attempt.state in ("pending", "running")

    def _save(self, command: commands.Save) -> None:
        attempt = self.attempts.get((command.node, command.attempt))
        row = self.rows[command.node]
        if attempt is None or attempt.output is None:
            raise Violation(f"{command} is about an attempt without output")
        if row.handled is attempt:
            self.saves.append(Saving(command.part, attempt))
            return
        if not row.memory >> command.part & 1 or row.version is None or row.version.output != attempt.output:
            raise Violation(f"{command}, but that is not in memory")
        self.saves.append(Saving(command.part, attempt))

    def _release(self, command: commands.Release) -> None:
        row = self.rows.get(command.node)
        if row is None:
            return
        if command.private:
            row.private = None
            return
        row.memory = 0
        row.shared.clear()
        saved = self.appended.saved.get(command.node, {})
        for waiting in self.waiting:
            attempt = waiting.attempt
            if (
                attempt is None or attempt.kind != "run"
            ):  # what is rebuilt for an undo that is over is about to be stopped
                continue
            if any(node == command.node and part not in saved for node, part in attempt.inputs):
                raise Violation(f"{command}, but {attempt!r} has yet to read it")

    def _prepare_undo(self, command: commands.Undo) -> Attempt:
        begun = self.appended.begun.get(command.node)
        if begun is None:
            raise Violation(f"{command}, but it has not begun")
        inputs = self.undo_inputs(begun)
        if inputs is None:
            raise Violation(f"{command} cannot see the inputs of {begun!r}")
        undo = Attempt(command.node, command.attempt, "undo", begun.task, inputs, begun.versions, undoes=begun)
        self._add(undo)
        self.checker.judge_undo(self, command, undo)
        if command.node not in self.appended.recovering:
            row = self.rows[command.node]
            row.void()
            row.current = None
            self._contract({command.node})
        return undo

    # Outputs

    def _make(self, node: str, number: int, kind: Kind, carried: frozenset[tuple[str, int]] = frozenset()) -> Attempt:
        if node not in self.rows:
            raise Violation(f"there is no node {node}")
        attempt = Attempt(node, number, kind, self.structure.nodes[node], {}, {}, carried)
        attempt.versions = {
            parent: version
            for parent in self.structure.member(node).parents
            if (version := self._source(parent, kind)) is not None
        }
        inputs = self._read(attempt)
        if inputs is None:
            raise Violation(f"{attempt!r} is to start, but not all its inputs are available")
        attempt.inputs = inputs
        self._add(attempt)
        return attempt

    def _add(self, attempt: Attempt) -> None:
        key = (attempt.node, attempt.number)
        if key in self.attempts:
            raise Violation(f"the number of {attempt!r} was used before")
        self.attempts[key] = attempt
        self.of_node.setdefault(attempt.node, []).append(attempt)

    def _source(self, node: str, kind: Kind) -> Attempt | None:
        """The attempt whose output a consumer reads."""
        row = self.rows[node]
        if kind == "private" and row.private is not None:
            return row.private
        return row.version

    def _read(self, attempt: Attempt) -> Inputs | None:
        """The inputs as they can be read now; None if something is missing."""
        inputs = {}
        member = self.structure.member(attempt.node) if attempt.node in self.rows else None
        if member is None:
            return None
        for parent, declared in member.parents.items():
            source = self._source(parent, attempt.kind)
            for part in each(declared if source is None else source.with_refs(declared)):
                if (parent, part) in attempt.taken:
                    inputs[parent, part] = attempt.inputs[parent, part]
                    continue
                if source is None or source.output is None or not self._available(parent, part, source):
                    return None
                inputs[parent, part] = source.output[part]
        return inputs

    def _available(self, node: str, part: int, source: Attempt) -> bool:
        row = self.rows[node]
        if source is row.private:
            return True
        if row.memory >> part & 1:
            assert source.output is not None
            if row.shared.get(part, source.output[part]) != source.output[part]:
                raise Violation(f"behind ref {part} of {source!r} is what another task returned")
            return True
        return part in self.appended.saved.get(node, {})

    def _share(self) -> None:
        """2.7: a ref that came in has the object of its origin, if it has none of its own."""
        for member in self.structure.shape.members:
            row = self.rows[member.id]
            for part, ref in row.refs.items():
                if ref.origin is None or row.memory >> part & 1 or part in self.appended.saved.get(member.id, {}):
                    continue
                value = self._behind(*ref.origin)
                if value is not None:
                    row.memory |= 1 << part
                    row.shared[part] = value

    def made_as(self, node: str, part: int) -> events.Part:
        """The part as which the object behind this one was made, as far as it can be followed."""
        row = self.rows.get(node)
        ref = row.refs.get(part) if row is not None else None
        while ref is not None and ref.origin is not None and ref.origin[0] in self.rows:
            node, part = ref.origin
            ref = self.rows[node].refs.get(part)
        return node, part

    def _behind(self, node: str, part: int) -> Value | None:
        """The value of a part as far as it is there."""
        row = self.rows.get(node)
        if row is None or row.version is None:
            return None
        if part in row.shared:
            return row.shared[part]
        saved = self.appended.saved.get(node, {}).get(part)
        source = row.version if row.memory >> part & 1 else saved
        return source.output[part] if source is not None and source.output is not None else None

    def undo_inputs(self, begun: Attempt) -> Inputs | None:
        """The inputs of an attempt as its undo can find them: in the record, in memory, saved or rebuilt."""
        found = {}
        for (parent, part), value in begun.inputs.items():
            if (parent, part) in begun.carried:
                found[parent, part] = value
                continue
            source = self._source(parent, "private") if parent in self.rows else None
            if source is None or source.output is None or not self._available(parent, part, source):
                return None
            found[parent, part] = source.output[part]
        return found

    def counts(self, attempt: Attempt) -> bool:
        """Does it matter that this attempt returns? One that was told to end matters if it cannot be taken back."""
        row = self.rows.get(attempt.node)
        if row is None:
            return False
        if attempt.state == "stopping":
            return row.current is attempt and attempt.task.options.effect == "irrevocable"
        return attempt.state == "running" and (attempt.kind == "private" or row.current is attempt)

    def _report(self, attempt: Attempt) -> None:
        attempt.end()
        attempt.known_ended = attempt.reported = True
        self.active.remove(attempt)

    def _expand(self, node: str, graph: Graph) -> bool:
        """The nested graph takes its place. False if the law refuses it. If it was there before a crash and the journal
        did not know it, its nodes were done if something that reads them is saved or has begun."""
        if self.structure.graphs.get(node) is graph:
            if node in self.forgotten:
                self._find_out_anew(node)
            self.forgotten.discard(node)
            return True
        self.forgotten.discard(node)
        if not self._accepts(node, graph):
            return False
        graphs = {**self.structure.graphs, node: graph}
        before = self.structure
        self.structure = structure_of(self.graph, graphs, before.handled, before.ended, before.joins)
        known = {id: row.version for id, row in self.rows.items()}
        versions = deduce_versions(self.structure, self.appended, known)
        self.rows = {id: self.rows.get(id) or Row(versions[id]) for id in self.structure.nodes}
        return True

    def _accepts(self, node: str, graph: Graph) -> bool:
        """2.8, 2.9: may this task return this graph? If it is safe only thanks to what handlers gave, or the run was
        not safe without that before, the law leaves it open: such a run may get stuck, and then fails."""
        structure, done = self.structure, self.done()
        if structure.accepts(node, graph, done, ()):
            return True
        given = [*structure.handled, *[id for id, row in self.rows.items() if row.handled is not None]]
        if not structure.accepts(node, graph, done, given) and structure.is_safe(done):
            return False
        row = self.run.rows.get(node)
        return row is None or find_nested_problem(self.run, row, graph) is None

    def _find_out_anew(self, expander: str) -> None:
        """A graph that a crash took is there again. If nothing is left that has begun after its result, nobody can tell
        what was done in it."""
        shape = self.structure.shape
        result = shape.position[self.structure.result_of(expander)]
        readers = [shape.members[reader].id for reader in each(shape.consumers[result])]
        if not any(self._has_left_a_trace(reader) for reader in readers):
            self._contract(self.structure.inside(expander) & self.structure.graphs.keys())
            for node in self.structure.inside(expander):
                self.rows[node].void()

    def _has_left_a_trace(self, node: str) -> bool:
        """Whether something has happened to it since it was new or last dropped."""
        row = self.rows[node]
        if row.version is not None or node in self.appended.begun or node in self.raised:
            return True
        return row.current is not None and row.current.is_under_way

    def _contract(self, expanders: set[str]) -> None:
        """What these returned is void, and with it the nested nodes."""
        if expanders.isdisjoint(self.structure.graphs):
            return
        before = self.rows
        self.structure = self.structure.without(expanders)
        self.rows = {id: before[id] for id in self.structure.nodes}
        self.closing = {
            expander: again
            for expander, again in self.closing.items()
            if not expander or expander in self.structure.graphs
        }
        self.expiring = {other: groups for other, groups in self.expiring.items() if other in self.closing}
        self.delays = {node: needed for node, needed in self.delays.items() if node in self.structure.graphs}
        self.raised &= self.rows.keys()
        self.checker.judge_vanished(self, before.keys() - self.rows.keys())
        self._count_handled()

    def _begin_with(self, reading: Reading) -> None:
        """Nothing is there but what the journal has."""
        self.structure, versions = what_a_crash_leaves(self.graph, reading)
        self.forgotten = self.structure.graphs.keys() - reading.graphs.keys()
        self.rows = {id: Row(versions[id], refs=reading.refs.get(id, {})) for id in self.structure.nodes}
        self._share()

    def _drop(self, nodes: set[str]) -> None:
        """The outputs are void. So is a graph whose expander may return another one when it runs again. What is in a
        graph that has ended never runs again."""
        ended = {sink: expander for sink, expander in self.structure.ended.items() if sink not in nodes}
        over = self.structure.ended_by(ended)
        self.raised -= nodes
        for node in nodes & self.rows.keys():
            self.rows[node] = Row(nothing(node, self.structure.nodes[node], over[node]) if node in over else None)
        if self.structure.graphs:
            shape = self.structure.shape  # what a handler gave does not come again
            undone = shape.set_of(node for node, row in self.rows.items() if row.version is None) & ~shape.repeatable
            undone &= ~members_of_recovery(self.structure, self.appended)  # those are dropped when R is undone
            lost = {node for node in nodes & (self.forgotten | self.closed()) if node in self.structure.graphs}
            undone |= shape.set_of(node for node in lost if self._may_change(node))
            self._contract(
                lost
                | {
                    node
                    for node in self.structure.graphs
                    if (shape.ancestors[shape.position[node]] | 1 << shape.position[node]) & undone
                }
            )
        self._count_handled()

    def _may_change(self, expander: str) -> bool:
        """Whether the graph that it returned has another result when it runs again."""
        shape = self.structure.shape
        return bool(shape.set_of(self.structure.inside(expander)) & ~shape.repeatable)

    def closed(self) -> set[str]:
        """What is in graphs that are about to end, or to be tried again."""
        return {node for expander in self.closing for node in self.structure.inside(expander)}

    # Facts for the checker

    def version(self, node: str) -> Attempt:
        """The attempt whose output is the present one of a node that is done."""
        version = self.rows[node].version
        assert version is not None
        return version

    def done(self) -> set[str]:
        """The nodes that have an output."""
        return {id for id, row in self.rows.items() if row.version is not None}

    def facts(self) -> Facts:
        """What is true now, everything appended counted as committed."""
        rows = self.rows_in_order()
        running = 0
        for x, row in enumerate(rows):
            if row.current is not None and row.current.is_under_way:
                running |= 1 << x
        versions = [row.version for row in rows]
        memory = [row.memory for row in rows]
        return facts_of(self.structure, self.appended, versions, memory, [row.refs for row in rows], running)

    def is_saved(self, node: str) -> bool:
        """The same fact of this one node: whether its output is saved as a whole."""
        row = self.rows[node]
        return is_saved(self.structure, self.appended, node, row.version, row.refs)

    def facts_after_crash(self) -> Facts:
        """What would be true if the engine crashed now and all attempts with it."""
        left = self.durable.after_crash()
        structure, found = what_a_crash_leaves(self.graph, left)
        ids = [member.id for member in structure.shape.members]
        versions = [found[id] for id in ids]
        return facts_of(structure, left, versions, [0] * len(ids), [left.refs.get(id, {}) for id in ids])

    def rows_in_order(self) -> list[Row]:
        """The rows in the order of the structure's shape."""
        return [self.rows[member.id] for member in self.structure.shape.members]

    def versions_in_order(self) -> list[Attempt | None]:
        """The present outputs in the order of the structure's shape."""
        return [self.rows[member.id].version for member in self.structure.shape.members]
