"""The loop around one `core.Run`: what the host reports, as events of core.

A driver is two objects. This one hears what the host reports: attempts that came to an end, batches that are durable,
what people want. `Commands` carries out what core decides. A driver belongs to one thread and has no I/O of its own:
everything goes through its `Host` and its `Store`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import msgspec

from onceflow.core.model import commands, events
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart
from onceflow.core.run import Run
from onceflow.data.objects import HeldRef, Object
from onceflow.driver import entries
from onceflow.driver.actors import Instance, Version
from onceflow.driver.children import Outcome
from onceflow.driver.commands import Commands
from onceflow.driver.endings import Ending, Status
from onceflow.driver.features import Features
from onceflow.driver.history import History
from onceflow.driver.inputs import Inputs, Key
from onceflow.driver.launching import Launches
from onceflow.driver.measurements import Measurements
from onceflow.driver.outputs import Outputs, Part, can_be_carried, is_small
from onceflow.driver.saving import Save, Saving
from onceflow.driver.work import Host, Store, Work
from onceflow.errors import FunctionNotLoaded, LostForGood, OnceflowError, RunInterrupted, WorkerDied
from onceflow.storage.journal import Entry, MailboxEvent, Request
from onceflow.values import packed_outputs
from onceflow.values.failures import Blame, dump, tell
from onceflow.values.handler_answers import THE_TASK, Answer
from onceflow.values.variables import Step

NO_ERROR = packed_outputs.dump(None)
"""The second part of an outcome of which errors are caught."""

MOST_MISSES = 3
"""Attempts in a row that may find a ref lost before that counts as a failure of the task."""


class Driver:
    """Drives one run in one epoch.

    `opening` are the requests that go before everything else in its first batch; `past` is what the journal has of a
    run that exists, and `outputs`, `carried` and `mail` what was loaded with it. `woken`: the run was parked, by the
    same host.
    """

    __slots__ = (
        "__weakref__",
        "_misses",
        "annotations",
        "changes",
        "commands",
        "ending",
        "finished_attempts",
        "host",
        "id",
        "inputs",
        "interruption",
        "launches",
        "limit",
        "measurements",
        "metadata",
        "outputs",
        "over",
        "priority",
        "queue",
        "raised_last",
        "run",
        "saving",
        "store",
        "used_features",
        "waits_outside",
        "was_woken",
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
        queue: str | None = None,
        priority: int = 0,
    ) -> None:
        self.id = id
        self.run = run
        self.host = host
        self.store = store
        self.over = False
        """Whether it has ended, or was given up."""
        self.ending: Ending | None = None
        """How it ended, once it has."""
        self.interruption: OnceflowError | None = None
        """Why it was given up before its end."""
        self.measurements = Measurements()
        """Of attempts that came to an end. They ride on the next batch."""
        self.changes = 0
        """Grows whenever something may have changed; a caller that polls can skip its checks while it has not."""
        self.finished_attempts = 0
        self.limit: float | None = None
        """When the run has run out of time, in seconds since 1970, if it has a limit."""
        self.was_woken = woken
        """Whether the run was parked before, by the same host."""
        self.raised_last = {} if past is None else past.failures
        """Node → what it raised last."""
        self.annotations = {} if past is None else past.annotations
        """Node → what it reported about itself (`values.metadata`), if it has finished. Of tasks of returned graphs,
        which may be many, no longer than their output is in memory; the journal has it with what is saved."""
        self.metadata = metadata
        """Of the run (`values.metadata`), for the workers that run its attempts."""
        self.queue = queue
        """The queue in which the run as a whole has a place."""
        self.priority = priority
        """Which run goes first when a resource is scarce."""
        self.waits_outside = False
        """The run has not begun: it waits until it may."""
        self._misses: dict[tuple[str, bool], int] = {}
        """(node, whether it is about its undo) → how often it has missed what its refs refer to, since it last came to
        an end."""
        self.outputs = Outputs() if outputs is None else outputs
        self.inputs = Inputs(self.outputs, store, run.rows, {} if carried is None else carried)
        self.saving = Saving(self, {} if past is None else past.blobs)
        self.commands = Commands(self, opening, status)
        self.launches: Launches = self.commands.launches
        self.used_features: Features | None = None
        """None as long as the run uses none."""
        if past is not None:
            past.mail = mail
            self.used_features = Features(self, past)

    @property
    def features(self) -> Features:
        """Optional features, which most runs do not use."""
        if self.used_features is None:
            self.used_features = Features(self, History())
        return self.used_features

    # -- how it stands -------------------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        return self.commands.status

    @property
    def is_opening(self) -> bool:
        """Whether its first batch is not yet durable: the claim of the run may still be refused."""
        return self.commands.is_opening

    @property
    def is_patient(self) -> bool:
        """Whether nothing waits until its first batch is durable, and there will be more for it."""
        return self.was_woken and self.commands.only_opens

    @property
    def is_cancelling(self) -> bool:
        """Whether fibers have been notified that the run is to be cancelled."""
        return self.used_features is not None and self.used_features.is_cancelling

    @property
    def variables(self) -> Mapping[str, bytes]:
        """The task variables that are committed, packed."""
        return {} if self.used_features is None else self.used_features.variables.committed

    # -- the run begins ------------------------------------------------------------------------------------------------

    def begin(self, decided: Sequence[commands.Command] | None = None) -> None:
        """To be called once, before anything else. `decided` is what the run has answered already, if it has begun."""
        self.waits_outside = False
        self.commands.work_off(self.run.begin() if decided is None else decided)
        if self.used_features is not None:
            self.used_features.begin()

    def note(self, entry: Entry) -> None:
        """Append this entry to the next batch."""
        self.commands.note(entry)

    def flush(self) -> None:
        """Hand the journal what has been collected."""
        if not self.over:
            self.commands.flush()

    def has_place(self, node: str) -> bool:
        """Whether the host lets a node with an effect start at once. Else it asks (`commands.Ask`)."""
        return self.launches.has_place(node)

    def admitted(self, node: str) -> int | None:
        """A node that asked may start. Returns its attempt, or None if it does not start after all."""
        row = self.run.rows.get(node)
        was_running = row is not None and row.state == "running"
        self.admit([node])
        row = self.run.rows.get(node)
        return row.attempt if row is not None and row.state == "running" and not was_running else None

    def admit(self, nodes: Sequence[str]) -> None:
        """Nodes that asked may start. The host is notified of those that do not (`Host.unused`)."""
        if self.over:
            for node in nodes:
                self.host.unused(self, node, 0)
        else:
            self.launches.admit(nodes)
            self.commands.proceed_with_news()

    # -- attempts come to an end ---------------------------------------------------------------------------------------

    def tell(self, event: events.Event) -> None:
        """Core takes notice of an event."""
        if not self.over:
            self.commands.tell(event)

    def proceed(self) -> None:
        """An awaited answer has come: continue."""
        if not self.over:
            self.commands.proceed()

    def came(
        self, work: Work, parts: Sequence[Part], held: Sequence[HeldRef] = (), joined: tuple[str, ...] = ()
    ) -> None:
        """The event or result that a node waits for is there. `held` are the refs in it; `joined` are the children that
        it comes from."""
        self.launches.in_flight[work.attempt] = work
        whole = [*parts, NO_ERROR] if len(parts) < work.parts else parts
        self.finished(work, whole, False, held=held, joined=joined)

    def never_came(self, work: Work, failure: bytes) -> None:
        """The event that a node waits for has not come in time."""
        self.launches.in_flight[work.attempt] = work
        if self._take(work):
            self._raise_here(work, failure, permanent=True)

    def finished(
        self,
        work: Work,
        parts: Sequence[Part],
        is_graph: bool,
        annotations: str | None = None,
        held: Sequence[HeldRef] = (),
        writes: Sequence[Step] = (),
        joined: tuple[str, ...] = (),
    ) -> None:
        """A started attempt or undo has returned. `held` are the refs in its output; `writes` is what it wrote to
        variables; `joined` are the children whose outcomes it was given."""
        used, launches = self.used_features, self.launches
        if used is not None and used.is_cancelling and used.cancelling.is_outdated(work):
            self.ended(work)
            return
        if not self._take(work):
            return
        self.finished_attempts += 1
        node, attempt = work.node, work.attempt
        if launches.deaths or self._misses:
            self._forget_losses(work)
        if work.undo:
            self.tell(events.Undone(node, attempt))
            return
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
        if attempt in launches.private:
            del launches.private[attempt]
            self.outputs.put_privately(node, parts, refs)
        else:
            row = self.run.rows.get(node)
            if row is not None and row.attempt == attempt:
                self.outputs.put(node, attempt, parts)
                if used is not None:
                    used.finished(node)
                if writes:
                    self.features.variables.write(node, attempt, writes)
                if annotations is not None:
                    self.annotations[node] = annotations
                elif self.annotations:
                    self.annotations.pop(node, None)
        small = is_small(parts[0]) if len(parts) == 1 else all(map(can_be_carried, parts))
        self.commands.tell(events.Finished(node, attempt, graph, small, refs, joined=joined))
        if graph is not None and work.call.settings.until is not None and not self.over:
            self.features.returned_graph(node, work.call.settings.until)

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
        """A started attempt or undo has raised. `answer` is the answer of a handler."""
        if self.over:
            return
        if self.is_cancelling and self.features.cancelling.is_outdated(work):
            self.ended(work)
        elif answer is None and work.call.settings.fiber and self._is_told(failure):
            self.features.cancelling.let_go(work)
            self.ended(work)
        elif answer is None and work.call.settings.fiber and self.is_cancelling:
            self.features.cancelling.end()
            self.ended(work)
        elif self._take(work):
            self._forget_losses(work)
            if answer is None:
                self._note_raised(work, failure, permanent)
            else:
                self._note_answer(work, failure, permanent, answer)

    def _is_told(self, failure: bytes) -> bool:
        """Whether it is the error that fibers get when this run is cancelled. (It is not unpickled: nothing of the
        user's runs here.)"""
        return self.run.status == "running" and tell(failure) == tell(self.features.cancelling.failure())

    def raised_here(self, work: Work, failure: bytes) -> None:
        """A started attempt or undo counts as having raised, though not where it ran: it took too long, or cannot be
        given what it reads."""
        if self._take(work):
            self._raise_here(work, failure, permanent=False)

    def died(self, work: Work, status: int | None, blame: Blame = "certain") -> None:
        """Its worker died, with this exit status (None if that is not known). If that happens too often in a row, it is
        a failure of the task. A death counts if it is certain that the attempt is to blame; if that is possible, the
        next one is started alone (`Work.alone`)."""
        if not self._take(work):
            return
        if blame == "none":
            self._forget_losses(work)
            self.tell(events.Ended(work.node, work.attempt))
            return
        what = (work.node, work.undo)
        deaths = self.launches.deaths[what] = self.launches.deaths.get(what, 0) + (blame == "certain")
        if deaths < (work.call.settings.worker_deaths or self.host.worker_deaths):
            self.tell(events.Ended(work.node, work.attempt))
        else:
            del self.launches.deaths[what]
            self._raise_here(work, dump(WorkerDied(work.node, status, deaths), "the engine"), permanent=False)

    def _forget_losses(self, work: Work) -> None:
        """It has come to an end."""
        self.launches.deaths.pop((work.node, work.undo), None)
        self._misses.pop((work.node, work.undo), None)

    def met_lost(self, work: Work, refs: Sequence[int]) -> None:
        """It asked for what these of its refs refer to, and that is gone: the attempt does not count. If that happens
        too often, what was saved of a ref is good for nothing, and that is a failure of the task."""
        if not self._take(work):
            return
        what = (work.node, work.undo)
        misses = self._misses[what] = self._misses.get(what, 0) + 1
        if misses >= MOST_MISSES:
            del self._misses[what]
            named = [] if work.refs is None else work.refs.ids
            ids = ", ".join([named[place] if place >= 0 else "an actor that it made" for place in refs])
            self._raise_here(work, dump(LostForGood(work.node, ids), "the engine"), permanent=False)
            return
        contents = [] if work.refs is None else [work.refs.contents[place] for place in refs if place >= 0]
        self.saving.lose(contents, (work.node, work.attempt))
        self.tell(events.Ended(work.node, work.attempt))

    def ended(self, work: Work, started: bool = True) -> None:
        """The attempt was stopped, and no longer runs; or it never `started`, and will not."""
        if not self._take(work):
            return
        cancelling, limits = self.features.cancelling, self.features.limits
        instead = cancelling.instead(work)
        if instead is not None and self.run.status == "running":
            self._note_answer(work, cancelling.failure(), True, instead)
        elif work.node in limits and not work.undo:
            self._raise_here(work, limits.failure(work.node, work.call.settings), permanent=True, started=started)
        else:
            self.tell(events.Ended(work.node, work.attempt, started))

    def _take(self, work: Work) -> bool:
        return self.launches.in_flight.pop(work.attempt, None) is not None and not self.over

    def _note_raised(self, work: Work, failure: bytes, permanent: bool, started: bool = True) -> None:
        self.launches.private.pop(work.attempt, None)
        self.raised_last[work.node] = failure
        if work.undo:
            self.tell(events.UndoFailed(work.node, work.attempt))
        else:
            self.tell(events.Raised(work.node, work.attempt, permanent, started=started))

    def _raise_here(self, work: Work, failure: bytes, permanent: bool, started: bool = True) -> None:
        """It counts as having raised, perhaps before it `started`. If handlers have a say, they are asked where user
        code runs; what they answer for counts as having started."""
        tries = work.failed.get(THE_TASK, 0)
        if work.guard is None or work.failure is not None or not (permanent or tries >= work.call.retry.count):
            self._note_raised(work, failure, permanent, started)
        else:
            self.launches.launch(msgspec.structs.replace(work, failure=failure))

    def _note_answer(self, work: Work, failure: bytes, permanent: bool, answer: Answer) -> None:
        self.raised_last[work.node] = failure
        self.features.answering.note(work, permanent, answer)

    def lost(self, objects: Set[Object]) -> None:
        """These objects are lost, and with them the outputs in them. Attempts started with them are answered as usual;
        those about to start are not started."""
        if self.over:
            return
        gone, replaced = self.outputs.lose(objects, self.saving.blob)
        self.commands.lost(gone, objects, replaced)

    def lost_actor(self, actor: Instance) -> None:
        """The actor is dead. Attempts that use it are answered as usual."""
        if not self.over and (gone := self.outputs.lose_actor(actor)):
            self.tell(events.Lost(tuple(gone)))

    def forget(self, node: str, part: int | None = None) -> bool:
        """Lose what is in memory of a node's output: one part, or all of it, also for nodes that share it. Returns
        whether there was any. For tests of lost outputs."""
        lost = self.outputs.forget(node, part)
        if lost:
            self.tell(events.Lost(tuple(lost)))
        return bool(lost)

    def committed(self) -> None:
        """The next batch is durable."""
        if self.over:
            return
        self.commands.committed += 1
        if self.used_features is not None:
            self.used_features.became_durable(self.commands.committed)
        if not self.over:
            self.commands.work_off(())

    def saved(self, save: Save) -> None:
        """The bytes of this part are written."""
        if self.used_features is not None and self.used_features.holds_back(save):
            self.proceed()
        elif not self.over:
            self.commands.tell(events.Saved(*save))

    def look_for_mail(self) -> None:
        """There may be events in the mailbox."""
        if not self.over:
            self.features.waits.look_for_mail()

    def outcome(self, child: str) -> Outcome | None:
        """The outcome of a child that has ended (design 2.11). None if that cannot be read yet."""
        return self.features.outcomes.find(child, in_journal=self.commands.is_committed)

    def drain(self, reason: OnceflowError) -> None:
        """Start nothing more; give up, for this reason, when attempts with effects have ended and all of it is
        durable."""
        if self.over or self.launches.drained is not None:
            return
        self.launches.drained = reason
        self.launches.stop_effectless()
        self.commands.work_off(())

    def cancel(self, undo: bool, grace: float) -> None:
        """Cancel the run; its fibers are cancelled first. Begun irrevocable attempts have so many seconds to finish."""
        if not self.over:
            self.features.cancelling.ask(undo, grace)

    def pause(self) -> None:
        """Start nothing more; rest when everything that runs has ended and all of it is durable. (What was decided
        meanwhile and not carried out is decided again when the run is loaded.)"""
        if not self.over and not self.launches.pausing:
            self.launches.pausing = True
            self.commands.work_off(())

    def rest(self) -> None:
        """Nothing but waits is left, all of it is durable, and an engine will continue it when it is due."""
        self.interruption = RunInterrupted(self.id, "it waits")
        self.let_go()

    def interrupt(self, error: OnceflowError) -> None:
        """Give up: the journal cannot be written, or the engine ends. The run can be loaded again."""
        if not self.over:
            self.interruption = error
            self.over = True
            self.launches.stop_all()
            self.let_go()
            self.host.ended(self)

    def let_go(self) -> None:
        """It is over. Large values take up memory while they are referenced, and a caller may hold the driver for a
        while. Reference cycles would have to wait for the garbage collector."""
        self.over = True
        self.outputs.clear()
        self.commands.let_go()
        self.run.let_go()
        del self.saving
        self.used_features = None
