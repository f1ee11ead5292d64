"""The loop around one `core.Run`: events in, commands carried out.

**Durable commands.** Records are collected and handed to the journal in batches (`flush`), which are answered in their
order. A durable command is held until the batch with the last record before it is answered. What it needs of memory
is taken when it is issued, because memory may be released while it waits; what only the journal has is read when it is
carried out, because by then the journal has it (`inputs`).

**Nothing recurses.** Some commands are answered on the spot (a small value is saved by appending its record): such
answers are queued as events and handled after the commands before them.

A driver belongs to one thread and has no I/O of its own: everything goes through its `Host` and its `Store`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal

import msgspec

from onceflow.core import commands, events, records
from onceflow.core.expanding import id_inside
from onceflow.core.graph import Graph
from onceflow.core.refs import RefPart
from onceflow.core.rows import Row
from onceflow.core.run import Run
from onceflow.data.objects import HeldRef, Object
from onceflow.driver import ahead, entries
from onceflow.driver.actors import Instance, Version
from onceflow.driver.expiring import deadline_of
from onceflow.driver.guards import Guards, failures_around
from onceflow.driver.history import History
from onceflow.driver.inputs import NOTHING, Inputs, Key, Needs
from onceflow.driver.measuring import Measurements
from onceflow.driver.outcomes import CHILD, Outcome
from onceflow.driver.outputs import Blob, Outputs, Part, is_small
from onceflow.driver.rare import Rare
from onceflow.driver.saving import Save, Saving
from onceflow.driver.work import Host, Store, Work
from onceflow.errors import FunctionNotLoaded, LostForGood, OnceflowError, RunInterrupted
from onceflow.storage.journal import AppendEntries, Entry, MailboxEvent, Request, SetStatus
from onceflow.values import packing
from onceflow.values.answers import THE_TASK, Answer
from onceflow.values.failures import dump
from onceflow.values.variables import Step

Status = Literal["pending", "running", "waiting", "paused", "undoing", "undone", "succeeded", "failed", "cancelled"]
"""How a run that is driven stands, for people. `waiting`: nothing runs, something is due later."""

NO_ERROR = packing.dump(None)
"""The second part of an outcome of which errors are caught."""

MOST_DEATHS = 3
"""Workers that may die while they run one task before that counts as a failure of the task."""


class Ending(msgspec.Struct, frozen=True, gc=False):
    """How a driver came to its end."""

    status: Status
    result: tuple[Part, ...] = ()
    """The parts of the run's output, if it succeeded; then what the refs in it refer to."""
    failed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    uncertain: tuple[str, ...] = ()
    failure: bytes | None = None
    """What the first of `failed` raised (`values.failures`), or the undo for which the run is paused."""
    timeout: float | None = None
    """How many seconds it had, if it was cancelled because it ran out of time."""
    parts: int = 1
    """How many of `result` are parts of the output."""


class _Held(msgspec.Struct, gc=False):
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


class Driver:
    """Drives one run in one epoch. `opening` are the requests that go before everything else in its first batch; `past`
    is what the journal has of a run that exists, and `outputs`, `carried` and `mail` what was loaded with it. `woken`:
    the run was parked, by the same host."""

    __slots__ = (
        "_admitted",
        "_asking",
        "_busy",
        "_committed",
        "_deaths",
        "_drained",
        "_entries",
        "_events",
        "_guards",
        "_held",
        "_host",
        "_in_flight",
        "_inputs",
        "_latest",
        "_opening",
        "_outputs",
        "_parked",
        "_pausing",
        "_private",
        "_rare",
        "_saving",
        "_store",
        "_submitted",
        "_woken",
        "_written",
        "annotations",
        "changes",
        "ending",
        "finished_attempts",
        "id",
        "interruption",
        "limit",
        "measurements",
        "metadata",
        "priority",
        "queue",
        "raised_last",
        "run",
        "waits_outside",
    )

    def __init__(
        self,
        id: str,
        run: Run,
        host: Host,
        store: Store,
        *,
        opening: Sequence[Request] = (),
        past: History | None = None,
        outputs: Outputs | None = None,
        carried: dict[str, dict[Key, bytes]] | None = None,
        mail: Sequence[MailboxEvent] = (),
        woken: bool = False,
        metadata: str | None = None,
        status: str = "running",
    ) -> None:
        self.id = id
        self.run = run
        self.ending: Ending | None = None
        """How it ended, once it has."""
        self.interruption: OnceflowError | None = None
        """Why it was given up before its end."""
        self.measurements = Measurements()
        """Of attempts that came to an end. They ride on the next batch."""
        self.changes = 0
        """Grows whenever something may have changed. Who looks again and again need not look closely if it has not."""
        self.finished_attempts = 0
        self.limit: float | None = None
        """When the run has run out of time, in seconds since 1970, if it has a limit."""
        self._host = host
        self._store = store
        self._opening: Sequence[Request] = opening
        self._woken = woken
        self._outputs = outputs or Outputs()
        self._inputs = Inputs(self._outputs, store, run.rows, carried)
        self._saving = Saving(self, host, store, self._outputs, self._inputs, {} if past is None else past.blobs)
        self._rare = None if past is None else Rare(self, host, store, self._outputs, self._saving, past, mail)
        """None as long as the run has no use for it."""
        self.raised_last = {} if past is None else past.failures
        """Node → what it raised last."""
        self.annotations = {} if past is None else past.annotations
        """Node → what it told about itself (`values.metadata`), if it has finished. Of tasks of returned graphs, which
        may be many, no longer than their output is in memory; the journal has it with what is saved."""
        self.metadata = metadata
        """Of the run (`values.metadata`), for those who carry out its attempts."""
        self._deaths: dict[tuple[str, bool], int] = {}
        """(node, whether it is about its undo) → workers that died while they ran that, since it last came to an
        end."""
        self._written: tuple[str, float | None] = (status, None)
        """The status that the journal has, and when the run is due."""

        self._events: deque[events.Event] = deque()
        self._busy = False
        self._entries: list[Entry] = []
        self._submitted = 0
        """Batches handed to the journal."""
        self._committed = 0
        """Batches that are durable."""
        self._held: deque[_Held] = deque()
        self._in_flight: dict[int, Work] = {}
        """Attempt → what was started and has not been answered."""
        self._latest: Work | None = None
        """What was started last, if it has no effect and nothing was foreseen behind it."""
        self._private: dict[int, None] = {}
        """Attempts whose outputs are for undos only."""
        self._parked: str | None = None
        """The node whose undo keeps failing, once that is durable."""
        self._guards: Guards | None = None
        self._drained: OnceflowError | None = None
        """Nothing more starts, and this is why."""
        self._pausing = False
        """Nothing more starts, because somebody wants the run to rest."""
        self.queue: str | None = None
        """The queue in which the run as a whole has a place."""
        self.priority = 0
        """Who goes first when there is too little of something."""
        self.waits_outside = False
        """The run has not begun: it waits until it may."""
        self._asking: dict[str, None] = {}
        """Nodes that want to be admitted."""
        self._admitted: dict[int, None] = {}
        """Attempts that were admitted and have yet to be started."""

    @property
    def rare(self) -> Rare:
        if self._rare is None:
            self._rare = Rare(self, self._host, self._store, self._outputs, self._saving, History())
        return self._rare

    # -- what the host tells -------------------------------------------------------------------------------------------

    def begin(self, decided: Sequence[commands.Command] | None = None) -> None:
        """To be called once, before anything else. `decided` is what the run has answered already, if it has begun."""
        self.waits_outside = False
        self._work_off(self.run.begin() if decided is None else decided)
        if self._rare is not None:
            self._rare.begin()

    def tell(self, event: events.Event) -> None:
        """Take notice of an event."""
        if not self.over:
            self._events.append(event)
            if not self._busy:
                self._work_off(())

    def came(self, work: Work, parts: Sequence[Part], held: Sequence[HeldRef] = ()) -> None:
        """What a node waits for is there. `held` are the refs in it."""
        self._in_flight[work.attempt] = work
        self.finished(work, [*parts, NO_ERROR] if len(parts) < work.parts else parts, False, held=held)

    def never_came(self, work: Work, failure: bytes) -> None:
        """What a node waits for has not come in time."""
        self._in_flight[work.attempt] = work
        if self._take(work):
            self._raise_here(work, failure, permanent=True)

    def admitted(self, node: str) -> int | None:
        """A node that asked may start. Returns its attempt, or None if it does not start after all."""
        self._asking.pop(node, None)
        if self.over:
            return None
        self.tell(events.Admitted(node))
        row = self.run.rows.get(node)
        if row is None or row.state != "running":
            return None
        if row.attempt not in self._in_flight:
            self._admitted[row.attempt] = None
        return row.attempt

    def is_under_way(self, attempt: int) -> bool:
        """Whether an attempt was started and has not been answered."""
        return attempt in self._in_flight

    def finished(
        self,
        work: Work,
        parts: Sequence[Part],
        is_graph: bool,
        annotations: str | None = None,
        held: Sequence[HeldRef] = (),
        writes: Sequence[Step] = (),
    ) -> None:
        """What was started has returned. `held` are the refs in its output; `writes` is what it wrote to variables."""
        if not self._take(work):
            return
        self.finished_attempts += 1
        node, attempt = work.node, work.attempt
        self._deaths.pop((node, work.undo), None)
        if work.undo:
            self.tell(events.Undone(node, attempt))
            return
        if self._rare is not None:
            self._rare.finished(node)
        graph: Graph | None = None
        if is_graph:
            assert isinstance(parts[0], bytes)
            try:
                graph = entries.load_graph(node, parts[0])
            except FunctionNotLoaded as error:
                self.raised_last[node] = dump(error, "the engine")
                self.tell(events.Raised(node, attempt, permanent=True))
                return
        refs: tuple[RefPart, ...] = ()
        if held:
            parts, refs = self._with_refs(work, parts, held)
        if attempt in self._private:
            del self._private[attempt]
            self._outputs.put_privately(node, parts, refs)
        else:
            row = self.run.rows.get(node)
            if row is not None and row.attempt == attempt:
                self._outputs.put(node, attempt, parts)
                if writes:
                    self.rare.variables.write(node, attempt, writes)
                if annotations is not None:
                    self.annotations[node] = annotations
                elif self.annotations:
                    self.annotations.pop(node, None)
        small = is_small(parts[0]) if len(parts) == 1 else all(map(is_small, parts))
        self.tell(events.Finished(node, attempt, graph, small, refs))
        if graph is not None and work.call.settings.until is not None and not self.over:
            self.rare.returned_graph(node, work.call.settings.until)

    def _with_refs(
        self, work: Work, parts: Sequence[Part], held: Sequence[HeldRef]
    ) -> tuple[Sequence[Part], tuple[RefPart, ...]]:
        """The parts of an output with what the refs in it refer to, and what core has to know about these."""
        contents: list[Part] = []
        refs: list[RefPart] = []
        for ref in held:
            came = work.refs if ref.origin >= 0 else None
            holders = sum([1 << part for part in ref.holders])
            if ref.actor is not None:
                contents.append(Version(ref.actor, ref.content))
                refs.append(RefPart(holders, actor=True))
                continue
            content = ref.content if came is None else came.contents[ref.origin]
            assert content is not None
            contents.append(content)
            refs.append(RefPart(holders, None if came is None else came.sources[ref.origin]))
        unused: list[Part] = [b""] * (work.parts - len(parts))  # a graph is one part, whatever was declared
        return [*parts, *unused, *contents], tuple(refs)

    def raised(self, work: Work, failure: bytes, permanent: bool, answer: Answer | None = None) -> None:
        """What was started has raised. `answer` is what a handler says shall become of it."""
        if self.over:
            return
        if answer is None and work.call.settings.fiber and self._is_cancelling:
            self.rare.cancelling.end()
            self.ended(work)
        elif self._take(work):
            self._deaths.pop((work.node, work.undo), None)
            if answer is None:
                self._note_raised(work, failure, permanent)
            else:
                self._note_answer(work, failure, permanent, answer)

    def raised_here(self, work: Work, failure: bytes) -> None:
        """What was started counts as having raised, though not where it ran: it took too long, or cannot be given what
        it reads."""
        if self._take(work):
            self._raise_here(work, failure, permanent=False)

    def died(self, work: Work, failure: bytes) -> None:
        """Its worker died. `failure` is what counts as raised if that happens too often."""
        if not self._take(work):
            return
        what = (work.node, work.undo)
        deaths = self._deaths[what] = self._deaths.get(what, 0) + 1
        if deaths < MOST_DEATHS:
            self.tell(events.Ended(work.node, work.attempt))
        else:
            del self._deaths[what]
            self._raise_here(work, failure, permanent=False)

    def met_lost(self, work: Work, refs: Sequence[int]) -> None:
        """It asked for what these of its refs refer to, and that is gone: the attempt does not count. If that happens
        too often, what was saved of a ref is good for nothing, and that is a failure of the task."""
        if not self._take(work):
            return
        what = (work.node, work.undo)
        met = self._deaths[what] = self._deaths.get(what, 0) + 1
        if met >= MOST_DEATHS:
            del self._deaths[what]
            named = [] if work.refs is None else work.refs.ids
            ids = ", ".join([named[place] if place >= 0 else "an actor that it made" for place in refs])
            self._raise_here(work, dump(LostForGood(work.node, ids), "the engine"), permanent=False)
            return
        contents = [] if work.refs is None else [work.refs.contents[place] for place in refs if place >= 0]
        self._saving.lose(contents, (work.node, work.attempt))
        self.tell(events.Ended(work.node, work.attempt))

    def ended(self, work: Work) -> None:
        """It was stopped, and runs no more."""
        if not self._take(work):
            return
        cancelling, limits = self.rare.cancelling, self.rare.limits
        instead = cancelling.instead(work)
        if instead is not None and self.run.status == "running":
            self._note_answer(work, cancelling.failure(), True, instead)
        elif work.node in limits and not work.undo:
            self._raise_here(work, limits.failure(work.node, work.call.settings), permanent=True)
        else:
            self.tell(events.Ended(work.node, work.attempt))

    def lost(self, objects: Set[Object]) -> None:
        """These are no more, and with them the outputs that were in them. What was started with them is answered as
        ever; what is about to start is not started."""
        if self.over:
            return
        gone, replaced = self._outputs.lose(objects, self._saving.blob)
        if gone:
            self._events.append(events.Lost(tuple(gone)))
        for held in [held for held in self._held if not held.survives(objects, replaced)]:
            assert isinstance(held.command, (commands.Start, commands.Undo))
            self._held.remove(held)
            self._private.pop(held.command.attempt, None)
            self._events.append(events.Ended(held.command.node, held.command.attempt))
        if self._events and not self._busy:
            self._work_off(())

    def lost_actor(self, actor: Instance) -> None:
        """It lives no more. Attempts that use it are answered as ever."""
        if not self.over and (gone := self._outputs.lose_actor(actor)):
            self.tell(events.Lost(tuple(gone)))

    def forget(self, node: str, part: int | None = None) -> bool:
        """What is in memory of a node's output is no more: one part, or all of it. Whoever shares it has lost it, too.
        Whether there was any. For those who want to see what happens then."""
        lost = self._outputs.forget(node, part)
        if lost:
            self.tell(events.Lost(tuple(lost)))
        return bool(lost)

    def committed(self) -> None:
        """The next batch is durable."""
        if self.over:
            return
        self._committed += 1
        if self._rare is not None:
            self._rare.became_durable(self._committed)
        if not self.over:
            self._work_off(())

    def saved(self, save: Save) -> None:
        """The bytes of this part are where they must be."""
        if self._rare is None or not self._rare.holds_back(save):
            self.tell(events.Saved(*save))
        elif not self._busy:
            self._work_off(())

    def proceed(self) -> None:
        """Something is known that was waited for."""
        if not self.over and not self._busy:
            self._work_off(())

    @property
    def variables(self) -> Mapping[str, bytes]:
        """The task variables that are committed, packed."""
        return {} if self._rare is None else self._rare.variables.committed

    def interrupt(self, error: OnceflowError) -> None:
        """Give up: the journal cannot be written, or the engine ends. The run can be loaded again."""
        if not self.over:
            self.interruption = error
            for attempt in self._in_flight:
                self._host.stop(self, attempt)
            self._let_go()
            self._host.ended(self)

    def drain(self, reason: OnceflowError) -> None:
        """Start nothing more; give up, for this reason, when what has an effect has ended and all of it is durable."""
        if self.over or self._drained is not None:
            return
        self._drained = reason
        for attempt, work in self._in_flight.items():
            row = self.run.rows.get(work.node)
            if not work.undo and (row is None or row.effect == "none"):
                self._host.stop(self, attempt)
        self._work_off(())

    def cancel(self, undo: bool, grace: float) -> None:
        """Cancel the run; its fibers are told first. Begun irrevocable attempts have so many seconds to finish."""
        if not self.over:
            self.rare.cancelling.ask(undo, grace)

    def disturb(self, attempt: int) -> bool:
        """Something without effect that a fiber waits for need not come to its end. Whether that is known already."""
        if attempt in self._in_flight:
            self._host.stop(self, attempt)
            return False
        return self.rare.waits.disturb(attempt, self.rare.cancelling)

    def note(self, entry: Entry) -> None:
        """Write this down with what is written next."""
        self._entries.append(entry)

    def pause(self) -> None:
        """Start nothing more; rest when everything that runs has ended and all of it is durable. (What was decided
        meanwhile and not carried out is decided again when the run is loaded.)"""
        if not self.over and not self._pausing:
            self._pausing = True
            self._work_off(())

    @property
    def is_patient(self) -> bool:
        """Whether nothing waits until its first batch is durable, and there will be more for it."""
        return self._woken and bool(self._opening and self._in_flight) and not self._held

    @property
    def is_opening(self) -> bool:
        """Whether its first batch is not yet durable: perhaps the run is not its to drive."""
        return self._committed == 0

    @property
    def is_committed(self) -> bool:
        """Whether everything that was appended is durable."""
        return self._committed == self._submitted and not self._entries and not self._opening

    @property
    def _is_cancelling(self) -> bool:
        return self._rare is not None and self._rare.is_cancelling

    @property
    def over(self) -> bool:
        return self.ending is not None or self.interruption is not None

    @property
    def _rests(self) -> bool:
        """Whether somebody wanted that, and nothing is under way any more."""
        return self._pausing and self.run.final is None and not (self._in_flight or self._saving.under_way)

    @property
    def status(self) -> Status:
        if self._rests:
            return "paused"
        if self.waits_outside:
            return "pending"
        match self.run.status:
            case "parked":
                return "paused"
            case "running" | "stopping":
                if self._rare is None or self._in_flight or self._held:
                    return "running"
                return "waiting" if self._rare.has_delays or self._rare.has_waits else "running"
            case status:
                return status

    @property
    def due(self) -> float | None:
        """When the run goes on, unless an event comes first, if it need not be in memory until then."""
        if self._rare is None or not self._rare.has_waits or self._drained is not None or self._pausing:
            return None
        if self._in_flight or self._held or self._saving.under_way or self._events or self._asking:
            return None
        if self._rare.has_delays or self.run.status != "running":
            return None
        due = self._rare.due
        return due if self.limit is None else min(due, self.limit)

    def rest(self) -> None:
        """Nothing but waits is left, all of it is durable, and somebody will go on when it is time."""
        self.interruption = RunInterrupted(self.id, "it waits")
        self._let_go()

    def is_settled(self, child: str) -> bool:
        """Whether it has come to its end for good."""
        row = self.run.rows.get(child)
        return row is None or row.settled

    def settled_outcome(self, child: str) -> Outcome | None:
        """What became of a child, if that is what it will always be (design 2.2) and can be read now."""
        if not self.is_settled(child):
            return None
        return self.rare.outcomes.find(child, in_journal=self.is_committed)

    def look_for_mail(self) -> None:
        """There may be events in the mailbox."""
        if not self.over:
            self.rare.waits.look()

    def flush(self) -> None:
        """Hand the journal what has been collected."""
        if self.over:
            return
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
            self._host.commit(self, requests)

    def _take(self, work: Work) -> bool:
        return self._in_flight.pop(work.attempt, None) is not None and not self.over

    def _note_raised(self, work: Work, failure: bytes, permanent: bool) -> None:
        self._private.pop(work.attempt, None)
        self.raised_last[work.node] = failure
        if work.undo:
            self.tell(events.UndoFailed(work.node, work.attempt))
        else:
            self.tell(events.Raised(work.node, work.attempt, permanent))

    def _raise_here(self, work: Work, failure: bytes, permanent: bool) -> None:
        """It counts as having raised. If handlers have a say, they are asked where user code runs."""
        tries = work.failed.get(THE_TASK, 0)
        if work.guard is None or work.failure is not None or not (permanent or tries >= work.call.retry.count):
            self._note_raised(work, failure, permanent)
        else:
            self._launch(msgspec.structs.replace(work, failure=failure))

    def _note_answer(self, work: Work, failure: bytes, permanent: bool, answer: Answer) -> None:
        self.raised_last[work.node] = failure
        self.rare.answering.note(work, permanent, answer)

    # -- what the run decides ------------------------------------------------------------------------------------------

    def _work_off(self, decided: Sequence[commands.Command]) -> None:
        self._busy = True
        self.changes += 1
        for command in decided:
            self._obey(command)
        while True:
            while self._events:
                for command in self.run.handle(self._events.popleft()):
                    self._obey(command)
            if self._rare is not None and self._rare.look():
                continue
            if not self._held or self._held[0].mark > self._committed:
                break
            self._carry_out(self._held.popleft())
            if self.over:
                return
        self._busy = False
        if self._admitted:
            self._return_unused()
        if self._latest is not None:
            self._foresee(self._latest)
            self._latest = None
        if self._parked is not None and not (self._in_flight or self.rare.has_delays or self._held or self._entries):
            failure = self.raised_last.get(self._parked)
            self._end(Ending("paused", failed=(self._parked,), failure=failure))
        elif self._entries or self._opening or (self.status, self.due) != self._written:
            self._host.wake(self)
        elif self._rests and self.is_committed:
            self._end(Ending("paused"))
        elif self._drained is not None and self.is_committed and not (self._in_flight or self._saving.under_way):
            self.interrupt(self._drained)
        elif self.due is not None and self.is_committed:
            self._host.park(self, self.due)

    def _obey(self, command: commands.Command) -> None:
        match command:
            case commands.Append(records.Finished()):
                pass  # its entry tells more than the record, and is made of the `Finish` that comes next
            case commands.Append(record):
                self._append(record)
            case commands.Finish(status, _, kept, uncertain):
                measured = self.measurements.take(self.run.epoch)
                self._entries.append(entries.finished(records.Finished(status), kept, uncertain, measured))
                self._hold(command)
            case commands.Start():
                row = self.run.rows[command.node]
                if command.private:
                    self._private[command.attempt] = None
                needs = self._inputs.of_attempt(row, private=command.private)
                if command.durable or needs.in_journal:
                    self._hold(command, needs)
                else:
                    self._start(command, needs)
            case commands.Save(node, part, attempt):
                self._save(Save(node, part, attempt))
            case commands.Release(node, private):
                if private:
                    self._outputs.release_private(node)
                else:
                    self._outputs.release(node)
                    self._saving.release(node)
                    if node in self.annotations and node not in self.run.graph.index:
                        del self.annotations[node]
            case commands.Undo():
                row = self.run.rows[command.node]
                needs = self._inputs.of_undo(row, with_output=command.finished is not None)
                self._hold(command, needs)
            case commands.Ask(node):
                self._asking[node] = None
                self._host.ask(self, node)
            case commands.Stop(node, attempt):
                self._stop(node, attempt)
            case commands.Give(node, attempt, cause):
                self.rare.answering.give(node, attempt, cause)
            case commands.Wait():
                self.rare.delays.wait(command)
            case commands.Refuse(node, attempt, error):
                self._outputs.drop(node, attempt)
                self.raised_last[node] = dump(error, "the engine")
            case _:
                self._hold(command)

    def _append(self, record: records.Record) -> None:
        match record:
            case records.Saved(node, part, attempt):
                annotations = self.annotations.get(node) if self.annotations and not part else None
                value, blob = self._saving.record(Save(node, part, attempt))
                if self._rare is not None:
                    took = self._rare.saved(node)
                    if took is not None:
                        self._entries.append(took)
                if CHILD in node:
                    self.rare.outcomes.note(record, value, blob)
                entry = entries.saved(record, value, blob, annotations)
            case records.Wrote():
                mark = self._submitted + 1
                wrote = self.rare.variables.record(record, mark)
                if wrote is not None:
                    self._entries.append(wrote)
                return
            case records.Begun(node, _, carried):
                entry = entries.begun(record, self._inputs.carry(node, carried), self._since_when(node))
            case records.Failed(node, failures, final):
                due = 0.0 if final else self.rare.delays.failed(node, failures)
                delay, since = self.rare.delays.asked_for(node), self.rare.limits.since(node)
                entry = entries.failed(record, self.raised_last.get(node), due, since, delay)
            case records.Again(node):
                entry = entries.again(record, self.raised_last.get(node), *self.rare.delays.ended(node))
            case records.Undone(node):
                self._inputs.forget_carried(node)
                entry = entries.plain(record)
            case records.Dropped(nodes):
                self.rare.waits.dropped(nodes)
                self.rare.outcomes.dropped(nodes)
                for node in nodes:
                    self.annotations.pop(node, None)
                    self.rare.limits.forget(node)
                entry = entries.plain(record)
            case _:
                entry = entries.plain(record)
        self._entries.append(entry)

    def _since_when(self, node: str) -> float | None:
        """Its time runs, if it may not take as long as it likes."""
        call = self.run.rows[node].node.call
        return None if call is None or call.settings.total_timeout is None else self.rare.limits.begun(node)

    def _hold(self, command: commands.Command, needs: Needs = NOTHING) -> None:
        mark = self._submitted + bool(self._entries or self._opening)
        self._held.append(_Held(mark, command, needs))

    def _carry_out(self, held: _Held) -> None:
        match held.command:
            case commands.Start() as command:
                self._start(command, held.needs)
            case commands.Undo() as command:
                self._undo(command, held.needs)
            case commands.Drop(node, through):
                self._outputs.drop(node, through)
                self._saving.drop(node, through)
                self.rare.variables.drop(node, through)
            case commands.Park(node):
                self._parked = node
            case commands.Save(node, part, attempt):
                if self._saving.is_wanted(save := Save(node, part, attempt)):
                    self._save(save)
            case commands.Finish() as command:
                self._finish(command)
            case command:
                raise AssertionError(f"{command} is not durable")

    def _start(self, command: commands.Start, needs: Needs) -> None:
        row = self.run.rows[command.node]
        node, key = row.node, self._key(row)
        read = self._inputs.read(needs)
        work = Work(
            row.id,
            node.task,
            command.attempt,
            node.call,
            read.parts,
            node.parts,
            key,
            read.spans,
            read.refs,
            failures=row.failures,
            again=row.visible,
            keep=row.checkpoint or command.private,
        )
        if node.call.settings.fiber:
            inside, deadline = id_inside(row, ""), deadline_of(row)
            work = msgspec.structs.replace(work, inside=inside, cancelled=self._is_cancelling, deadline=deadline)
        if not command.private and (guard := self._guard_of(row)) is not None:
            work = msgspec.structs.replace(work, guard=guard, failed=failures_around(row))
        self._launch(work)
        if row.effect == "none" and row.consumers:
            self._latest = work

    def _undo(self, command: commands.Undo, needs: Needs) -> None:
        row = self.run.rows[command.node]
        parts, spans, refs, has_output = self._inputs.read(needs)
        node, key = row.node, self._key(row)
        self._launch(Work(row.id, node.task, command.attempt, node.call, parts, 1, key, spans, refs, True, has_output))

    def _launch(self, work: Work) -> None:
        if self._drained is not None or self._pausing:
            return
        if self._rare is not None and work.attempt not in self._private and self._rare.supply(work):
            return
        wait = work.call.settings.wait
        if wait is not None and not work.undo and work.failure is None:
            entry = self.rare.waits.begin(work, wait)
            if entry is not None:
                self._entries.append(entry)
            return
        settings = work.call.settings
        limited = settings.total_timeout is not None or settings.until is not None
        if limited and not work.undo and work.attempt not in self._private:
            failure = self.rare.limits.watch(work.node, settings)
            if failure is not None:
                if work.failure is None and work.guard is not None:
                    work = msgspec.structs.replace(work, failure=failure)
                elif work.failure is None:
                    self.raised_last[work.node] = failure
                    self._events.append(events.Raised(work.node, work.attempt, permanent=True))
                    return
        self._in_flight[work.attempt] = work
        self._admitted.pop(work.attempt, None)
        self._host.start(self, work)

    def _return_unused(self) -> None:
        """Of what was admitted, all that waits to be started is held."""
        held = {held.command.attempt for held in self._held if isinstance(held.command, commands.Start)}
        for attempt in self._admitted.keys() - held:
            del self._admitted[attempt]
            self._host.unused(self, attempt)

    def _guard_of(self, row: Row) -> Any:
        """None if no handler has a say about the row."""
        if row.scope.outer is None and not row.node.call.guarded:
            return None
        if self._guards is None:
            self._guards = Guards()
        return self._guards.of(row)

    def _foresee(self, work: Work) -> None:
        """Not after a worker died: who is to blame shows best if they run one by one."""
        alone = len(self._in_flight) == 1 and work.attempt in self._in_flight and not self._held
        if not alone or self._deaths or work.attempt in self._private or not ahead.is_plain(work.call):
            return
        if found := ahead.foresee(self.run.rows[work.node], work.attempt, self._inputs, self._key, self._guard_of):
            self._host.foresee(self, work, found)

    def _key(self, row: Row) -> str:
        return f"{self.id}/{row.id}/{self.run.undos.get(row.id, 0)}"

    def stop(self, attempt: int) -> bool:
        """Whether that is under way, and is being stopped."""
        if attempt not in self._in_flight:
            return False
        self._host.stop(self, attempt)
        return True

    def _stop(self, node: str, attempt: int) -> None:
        if self.stop(attempt):
            return
        if self.rare.waits.stop(attempt):
            self._events.append(events.Ended(node, attempt))
            return
        for held in self._held:
            if isinstance(held.command, (commands.Start, commands.Undo)) and held.command.attempt == attempt:
                self._held.remove(held)
                self._events.append(events.Ended(node, attempt))
                return

    def _save(self, save: Save) -> None:
        if self._inputs.only_in_journal(save.node, save.part) and not self.is_committed:
            self._hold(commands.Save(*save))  # perhaps the journal has yet to learn of it
        else:
            self._saving.save(save)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _finish(self, command: commands.Finish) -> None:
        if command.status == "succeeded":
            (sink,) = self.run.ends()
            self._end(Ending("succeeded", self._saving.output(sink), parts=sink.node.parts))
            return
        failure = self.raised_last.get(command.failed[0]) if command.failed else None
        self._end(Ending(command.status, (), command.failed, command.kept, command.uncertain, failure))

    def _end(self, ending: Ending) -> None:
        self.ending = ending
        self._let_go()
        self._host.ended(self)

    def _let_go(self) -> None:
        """Large values take up memory until nobody holds them, and somebody may hold the driver for a while. What
        refers to each other would have to wait for the garbage collector."""
        self._outputs.clear()
        self._held.clear()
        self.run.let_go()
        del self._saving
        self._rare = None
