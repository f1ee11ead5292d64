"""What the run decides, and how it is carried out.

**Nothing recurses.** Some commands are answered on the spot (a small value is saved by appending its record): such
answers are queued as events and handled after the commands before them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onceflow.core.model import commands, events, records
from onceflow.core.model.rows import Row
from onceflow.core.rules import slices
from onceflow.driver import entries
from onceflow.driver.fiber_failures import Awaited, awaited_by
from onceflow.driver.journaling import Held
from onceflow.driver.launching import Launching
from onceflow.driver.outputs import Part
from onceflow.driver.saving import Save
from onceflow.driver.state import Ending
from onceflow.errors import OnceflowError
from onceflow.values.failures import dump


class Obeying(Launching):
    """Tells the run what happens, and does what it answers."""

    __slots__ = ()

    def tell(self, event: events.Event) -> None:
        """Take notice of an event."""
        if not self.over:
            self._events.append(event)
            if not self._busy:
                self._work_off(())

    def has_place(self, node: str) -> bool:
        """Whether the host lets a node with an effect start at once. Else it asks (`commands.Ask`)."""
        if self._pausing or self._drained is not None or not self._host.ask(self._whole, node):
            return False
        self._entering[node] = None
        return True

    def is_asking(self, node: str) -> bool:
        """Whether it waits to be admitted."""
        return node in self._asking

    def refuse(self, node: str) -> None:
        """It waits to be admitted no longer, because its time is over: it starts, and counts as having raised that."""
        del self._asking[node]
        self._host.forgo(self._whole, node)
        self.tell(events.Admitted(node))

    def proceed(self) -> None:
        """Something is known that was waited for."""
        if not self.over and not self._busy:
            self._work_off(())

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
        if self._entering:
            self._give_back_unused()
        if self._latest is not None:
            self._foresee(self._latest)
            self._latest = None
        if self._parked is not None and self.run.status != "parked":
            self._parked = None  # what was to be made again for an undo has come of another attempt
        if self._parked is not None and not (self._in_flight or self.rare.has_delays or self._held or self._entries):
            failure = self.raised_last.get(self._parked)
            self._end(Ending("paused", failed=(self._parked,), failure=failure))
        elif self._entries or self._opening or (self.status, self.due) != self._written:
            self._host.wake(self._whole)
        elif self._rests and self.is_committed:
            self._end(Ending("paused"))
        elif self._drained is not None and self.is_committed and not (self._in_flight or self._saving.under_way):
            self.interrupt(self._drained)
        elif self.due is not None and self.is_committed:
            self._host.park(self._whole, self.due)

    def _obey(self, command: commands.Command) -> None:
        match command:
            case commands.Append(record):
                if not isinstance(record, records.Finished):  # its entry tells more, and is made of the next `Finish`
                    self._append(record)
            case commands.Finish(status, _, kept, uncertain):
                measured = self.measurements.take(self.run.epoch)
                self._entries.append(entries.finished(records.Finished(status), kept, uncertain, measured))
                self._hold(command)
            case commands.Start():
                row = self.run.rows[command.node]
                if command.private:
                    self._private[command.attempt] = None
                elif self._entering and command.node in self._entering:
                    del self._entering[command.node]
                    self._admitted[command.attempt] = command.node
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
                if self._pausing or self._drained is not None:
                    return  # it asks again when the run is loaded
                if self._host.ask(self._whole, node):
                    self._entering[node] = None
                    self._events.append(events.Admitted(node))
                    return
                self._asking[node] = None
                settings = self.run.rows[node].node.call.settings
                if settings.total_timeout is not None or settings.until is not None:
                    self.rare.limits.asks(node, settings)
            case commands.Stop(node, attempt):
                self._stop(node, attempt)
            case commands.Withdraw(node, attempt):
                self._withdraw(node, attempt)
            case commands.Give(node, attempt, cause):
                self.rare.answering.give(node, attempt, cause)
            case commands.Wait():
                self.rare.delays.wait(command)
            case commands.Refuse(node, attempt, error):
                self._outputs.drop(node, attempt)
                self.raised_last[node] = dump(error, "the engine")
            case commands.Stuck(node, error):
                self.raised_last[node] = dump(error, "the engine")
            case _:
                self._hold(command)

    def _carry_out(self, held: Held) -> None:
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

    def _save(self, save: Save) -> None:
        if self._inputs.only_in_journal(save.node, save.part) and not self.is_committed:
            self._hold(commands.Save(*save))  # perhaps the journal has yet to learn of it
        else:
            self._saving.save(save)

    def _finish(self, command: commands.Finish) -> None:
        if command.status == "succeeded":
            (sink,) = slices.ends(self.run)
            self._end(Ending("succeeded", self._saving.output(sink), parts=sink.node.parts))
            return
        failure = self.raised_last.get(command.failed[0]) if command.failed else None
        ending = Ending(command.status, (), command.failed, command.kept, command.uncertain, failure)
        if self._is_cancelling:
            ending = msgspec.structs.replace(ending, ended_fibers=tuple(self.rare.cancelling.ended_fibers))
        elif command.failed and command.failed[0] in self.run.rows:
            ending = msgspec.structs.replace(ending, awaited=self._awaited_by(self.run.rows[command.failed[0]]))
        self._end(ending)

    def _awaited_by(self, row: Row) -> tuple[tuple[Awaited, Part], ...]:
        """What a segment of a fiber had waited for, and the outcomes of that."""
        awaited = awaited_by(row)
        found = {one.outcome: self._outputs.get(*one.outcome) for one in awaited}
        missing = {key for key, value in found.items() if not isinstance(value, bytes)}
        stored = self._store.values(missing) if missing else {}
        values = {key: stored.get(key, value) for key, value in found.items()}
        return tuple([(one, value) for one in awaited if (value := values[one.outcome]) is not None])

    def _end(self, ending: Ending) -> None:
        self.ending = ending
        self._let_go()
        self._host.ended(self._whole)

    def interrupt(self, error: OnceflowError) -> None:
        """Give up: the journal cannot be written, or the engine ends. The run can be loaded again."""
        if not self.over:
            self.interruption = error
            for attempt in self._in_flight:
                self._host.stop(self._whole, attempt)
            self._let_go()
            self._host.ended(self._whole)

    def _let_go(self) -> None:
        """Large values take up memory until nobody holds them, and somebody may hold the driver for a while. What
        refers to each other would have to wait for the garbage collector."""
        self._outputs.clear()
        self._held.clear()
        self.run.let_go()
        del self._saving
        self._rare = None
