"""The loop around one `core.Run`: events in, commands carried out.

What the host tells is heard here. What comes of it is the work of the verbs, one file each, stacked in the order in
which they build on each other:

    state → batching → launching → obeying → driver

A driver belongs to one thread and has no I/O of its own: everything goes through its `Host` and its `Store`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec

from onceflow.core.model import commands, events
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart
from onceflow.data.objects import HeldRef, Object
from onceflow.driver import entries
from onceflow.driver.actors import Instance, Version
from onceflow.driver.children import Outcome
from onceflow.driver.commands import Obeying
from onceflow.driver.outputs import Part, can_be_carried, is_small
from onceflow.driver.saving import Save
from onceflow.driver.work import Work
from onceflow.errors import FunctionNotLoaded, LostForGood, OnceflowError, RunInterrupted, WorkerDied
from onceflow.values import packed_outputs
from onceflow.values.failures import Blame, dump, tell
from onceflow.values.handler_answers import THE_TASK, Answer
from onceflow.values.variables import Step

NO_ERROR = packed_outputs.dump(None)
"""The second part of an outcome of which errors are caught."""

MOST_MISSES = 3
"""Attempts in a row that may miss what their refs refer to before that counts as a failure of the task."""


class Driver(Obeying):
    """Drives one run in one epoch."""

    __slots__ = ()

    def begin(self, decided: Sequence[commands.Command] | None = None) -> None:
        """To be called once, before anything else. `decided` is what the run has answered already, if it has begun."""
        self.waits_outside = False
        self._work_off(self.run.begin() if decided is None else decided)
        if self._rare is not None:
            self._rare.begin()

    def came(
        self, work: Work, parts: Sequence[Part], held: Sequence[HeldRef] = (), joined: tuple[str, ...] = ()
    ) -> None:
        """What a node waits for is there. `held` are the refs in it; `joined` are the children that it comes from."""
        self._in_flight[work.attempt] = work
        whole = [*parts, NO_ERROR] if len(parts) < work.parts else parts
        self.finished(work, whole, False, held=held, joined=joined)

    def never_came(self, work: Work, failure: bytes) -> None:
        """What a node waits for has not come in time."""
        self._in_flight[work.attempt] = work
        if self._take(work):
            self._raise_here(work, failure, permanent=True)

    def admitted(self, node: str) -> int | None:
        """A node that asked may start. Returns its attempt, or None if it does not start after all."""
        row = self.run.rows.get(node)
        was_running = row is not None and row.state == "running"
        self.admit([node])
        row = self.run.rows.get(node)
        return row.attempt if row is not None and row.state == "running" and not was_running else None

    def admit(self, nodes: Sequence[str]) -> None:
        """Nodes that asked may start. Of those that do not, the host is told (`Host.unused`)."""
        starts = not (self.over or self._pausing or self._drained is not None)
        for node in nodes:
            if starts:
                self._asking.pop(node, None)
                self._entering[node] = None
                self._events.append(events.Admitted(node))
            else:
                self._host.unused(self, node, 0)
        if self._events and not self._busy:
            self._work_off(())

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
        """What was started has returned. `held` are the refs in its output; `writes` is what it wrote to variables;
        `joined` are the children whose outcomes it was given."""
        if self._is_cancelling and self.rare.cancelling.is_outdated(work):
            self.ended(work)
            return
        if not self._take(work):
            return
        self.finished_attempts += 1
        node, attempt = work.node, work.attempt
        if self._deaths or self._misses:
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
        if attempt in self._private:
            del self._private[attempt]
            self._outputs.put_privately(node, parts, refs)
        else:
            row = self.run.rows.get(node)
            if row is not None and row.attempt == attempt:
                self._outputs.put(node, attempt, parts)
                if self._rare is not None:
                    self._rare.limits.forget(node)
                if writes:
                    self.rare.variables.write(node, attempt, writes)
                if annotations is not None:
                    self.annotations[node] = annotations
                elif self.annotations:
                    self.annotations.pop(node, None)
        small = is_small(parts[0]) if len(parts) == 1 else all(map(can_be_carried, parts))
        self.tell(events.Finished(node, attempt, graph, small, refs, joined=joined))
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
        if self._is_cancelling and self.rare.cancelling.is_outdated(work):
            self.ended(work)
        elif answer is None and work.call.settings.fiber and self._is_told(failure):
            self.rare.cancelling.let_go(work)
            self.ended(work)
        elif answer is None and work.call.settings.fiber and self._is_cancelling:
            self.rare.cancelling.end()
            self.ended(work)
        elif self._take(work):
            self._forget_losses(work)
            if answer is None:
                self._note_raised(work, failure, permanent)
            else:
                self._note_answer(work, failure, permanent, answer)

    def _is_told(self, failure: bytes) -> bool:
        """Whether it is what fibers are told when this run is cancelled. (It is not unpickled: nothing of the user's
        runs here.)"""
        return self.run.status == "running" and tell(failure) == tell(self.rare.cancelling.failure())

    def raised_here(self, work: Work, failure: bytes) -> None:
        """What was started counts as having raised, though not where it ran: it took too long, or cannot be given what
        it reads."""
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
        deaths = self._deaths[what] = self._deaths.get(what, 0) + (blame == "certain")
        if deaths < (work.call.settings.worker_deaths or self._host.worker_deaths):
            self.tell(events.Ended(work.node, work.attempt))
        else:
            del self._deaths[what]
            self._raise_here(work, dump(WorkerDied(work.node, status, deaths), "the engine"), permanent=False)

    def _forget_losses(self, work: Work) -> None:
        """It has come to an end."""
        self._deaths.pop((work.node, work.undo), None)
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
        self._saving.lose(contents, (work.node, work.attempt))
        self.tell(events.Ended(work.node, work.attempt))

    def ended(self, work: Work, started: bool = True) -> None:
        """It was stopped, and runs no more; or it never `started`, and will not."""
        if not self._take(work):
            return
        cancelling, limits = self.rare.cancelling, self.rare.limits
        instead = cancelling.instead(work)
        if instead is not None and self.run.status == "running":
            self._note_answer(work, cancelling.failure(), True, instead)
        elif work.node in limits and not work.undo:
            self._raise_here(work, limits.failure(work.node, work.call.settings), permanent=True, started=started)
        else:
            self.tell(events.Ended(work.node, work.attempt, started))

    def _take(self, work: Work) -> bool:
        return self._in_flight.pop(work.attempt, None) is not None and not self.over

    def _note_raised(self, work: Work, failure: bytes, permanent: bool, started: bool = True) -> None:
        self._private.pop(work.attempt, None)
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
            self._launch(msgspec.structs.replace(work, failure=failure))

    def _note_answer(self, work: Work, failure: bytes, permanent: bool, answer: Answer) -> None:
        self.raised_last[work.node] = failure
        self.rare.answering.note(work, permanent, answer)

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
            self._give_back_place(held.command.attempt)
            self._events.append(events.Ended(held.command.node, held.command.attempt, started=False))
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

    def look_for_mail(self) -> None:
        """There may be events in the mailbox."""
        if not self.over:
            self.rare.waits.look()

    def outcome(self, child: str) -> Outcome | None:
        """What became of a child that has come to its end (design 2.11). None if that cannot be read yet."""
        return self.rare.outcomes.find(child, in_journal=self.is_committed)

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

    def pause(self) -> None:
        """Start nothing more; rest when everything that runs has ended and all of it is durable. (What was decided
        meanwhile and not carried out is decided again when the run is loaded.)"""
        if not self.over and not self._pausing:
            self._pausing = True
            self._work_off(())

    def rest(self) -> None:
        """Nothing but waits is left, all of it is durable, and somebody will go on when it is time."""
        self.interruption = RunInterrupted(self.id, "it waits")
        self._let_go()
