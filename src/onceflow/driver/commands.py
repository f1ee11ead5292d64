"""What core decides, carried out; and what is written down for that.

Records are collected and handed to the journal in batches (`flush`), which are answered in their order. A durable
command is held until the batch with the last record before it is answered. What it needs of memory is taken when it is
issued, because memory may be released while it waits; what only the journal has is read when it is carried out, because
by then the journal has it (`inputs`).

**Nothing recurses.** Some commands are answered on the spot (a small value is saved by appending its record): such
answers are queued as events and handled after the commands before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

import msgspec

from onceflow.core.model import commands, events, records
from onceflow.core.model.rows import Row
from onceflow.core.rules import slices
from onceflow.data.objects import Object
from onceflow.driver import entries
from onceflow.driver.children import CHILD
from onceflow.driver.endings import Ending, Status
from onceflow.driver.fiber_failures import Awaited, awaited_by
from onceflow.driver.inputs import NOTHING, Needs
from onceflow.driver.launching import Launches
from onceflow.driver.outputs import Blob, Part
from onceflow.driver.saving import Save
from onceflow.storage.journal import AppendEntries, Entry, Request, SetStatus
from onceflow.values.failures import dump

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver


class Held(msgspec.Struct, gc=False):
    """A durable command that waits for a commit."""

    mark: int
    """The number of the batch."""
    command: commands.Command
    needs: Needs
    """What it reads."""

    def survives(self, objects: Set[Object], replaced: Mapping[Object, Blob]) -> bool:
        """Whether the command can be carried out although these objects are lost."""
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


class Commands:
    """The commands of one driver. `opening` are the requests that come first in its first batch, and `status` is the
    status in the journal."""

    __slots__ = (
        "_busy",
        "_driver",
        "_entries",
        "_events",
        "_host",
        "_inputs",
        "_opening",
        "_outputs",
        "_parked",
        "_saving",
        "_submitted",
        "_written",
        "committed",
        "held",
        "launches",
    )

    def __init__(self, driver: Driver, opening: Sequence[Request], status: str) -> None:
        self._driver = driver
        self._host = driver.host
        self._outputs = driver.outputs
        self._inputs = driver.inputs
        self._saving = driver.saving
        self._events: deque[events.Event] = deque()
        self.launches = Launches(driver, driver.host, self._events.append)
        self._busy = False
        self._opening = opening
        self._entries: list[Entry] = []
        self._submitted = 0
        """Batches handed to the journal."""
        self.committed = 0
        """Batches that are durable."""
        self.held: deque[Held] = deque()
        self._written: tuple[str, float | None] = (status, None)
        """The status that the journal has, and when the run is due."""
        self._parked: str | None = None
        """The node whose undo keeps failing, once that is durable."""

    # -- events in -----------------------------------------------------------------------------------------------------

    def tell(self, event: events.Event) -> None:
        """Core takes notice of an event."""
        self._events.append(event)
        if not self._busy:
            self.work_off(())

    def proceed(self) -> None:
        """An awaited answer has come: continue."""
        if not self._busy:
            self.work_off(())

    def proceed_with_news(self) -> None:
        """Launches may have left events for core."""
        if self._events and not self._busy:
            self.work_off(())

    def work_off(self, decided: Sequence[commands.Command]) -> None:
        driver, launches, waiting = self._driver, self.launches, self._events
        run = driver.run
        self._busy = True
        driver.changes += 1
        for command in decided:
            self._obey(command)
        while True:
            while waiting:
                for command in run.handle(waiting.popleft()):
                    self._obey(command)
            if driver.used_features is not None and driver.used_features.look():
                continue
            if not self.held or self.held[0].mark > self.committed:
                break
            self._carry_out(self.held.popleft())
            if driver.over:
                return
        self._busy = False
        if launches.entering:
            launches.give_back_unused()
        if launches.latest is not None:
            launches.foresee(alone=not self.held)
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        """Nothing is left to do at the moment: write the status, end, or let the host park the run."""
        driver, launches = self._driver, self.launches
        if self._parked is not None:
            if driver.run.status != "parked":
                self._parked = None  # what was to be made again for an undo has come of another attempt
            elif not (launches.in_flight or driver.features.has_delays or self.held or self._entries):
                failure = driver.raised_last.get(self._parked)
                self._end(Ending("paused", failed=(self._parked,), failure=failure))
                return
        if self._entries or self._opening:
            self._host.wake(driver)
            return
        stands = self.status, self.due
        if stands != self._written:
            self._host.wake(driver)
        elif not self.is_committed:
            return
        elif self.rests:
            self._end(Ending("paused"))
        elif launches.drained is not None and not (launches.in_flight or self._saving.under_way):
            driver.interrupt(launches.drained)
        elif stands[1] is not None:
            self._host.park(driver, stands[1])

    # -- commands out --------------------------------------------------------------------------------------------------

    def _obey(self, command: commands.Command) -> None:
        driver, launches = self._driver, self.launches
        match command:
            case commands.Append(record):
                if not isinstance(record, records.Finished):  # its entry holds more, and is made of the next `Finish`
                    self._append(record)
            case commands.Finish(status, _, kept, uncertain):
                measured = driver.measurements.take(driver.run.epoch)
                self._entries.append(entries.finished(records.Finished(status), kept, uncertain, measured))
                self._hold(command)
            case commands.Start():
                launches.prepare(command)
                row = driver.run.rows[command.node]
                needs = self._inputs.of_attempt(row, private=command.private) if row.node.call.slots else NOTHING
                if command.durable or (needs is not NOTHING and needs.in_journal):
                    self._hold(command, needs)
                else:
                    launches.start(command, needs)
            case commands.Save(node, part, attempt):
                self._save(Save(node, part, attempt))
            case commands.Release(node, private):
                if private:
                    self._outputs.release_private(node)
                else:
                    self._outputs.release(node)
                    self._saving.release(node)
                    if node in driver.annotations and node not in driver.run.graph.index:
                        del driver.annotations[node]
            case commands.Undo():
                row = driver.run.rows[command.node]
                self._hold(command, self._inputs.of_undo(row, with_output=command.finished is not None))
            case commands.Ask(node):
                launches.ask(node)
            case commands.Stop(node, attempt):
                if not launches.stop(attempt):
                    if driver.features.waits.stop(attempt):
                        self._events.append(events.Ended(node, attempt))
                    else:
                        self._hand_back(node, attempt)
            case commands.Withdraw(node, attempt):
                if not launches.withdraw(attempt):
                    self._hand_back(node, attempt)
            case commands.Give(node, attempt, cause):
                driver.features.answering.give(node, attempt, cause)
            case commands.Wait():
                driver.features.delays.wait(command)
            case commands.Refuse(node, attempt, error):
                self._outputs.drop(node, attempt)
                driver.raised_last[node] = dump(error, "the engine")
            case commands.Stuck(node, error):
                driver.raised_last[node] = dump(error, "the engine")
            case _:
                self._hold(command)

    def _carry_out(self, held: Held) -> None:
        driver = self._driver
        match held.command:
            case commands.Start() as command:
                self.launches.start(command, held.needs)
            case commands.Undo() as command:
                self.launches.undo(command, held.needs)
            case commands.Drop(node, through):
                self._outputs.drop(node, through)
                self._saving.drop(node, through)
                if driver.used_features is not None:
                    driver.used_features.drop(node, through)
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
        if not self.is_committed and self._inputs.only_in_journal(save.node, save.part):
            self._hold(commands.Save(*save))  # perhaps the journal has yet to learn of it
        else:
            self._saving.save(save)

    def _hand_back(self, node: str, attempt: int) -> None:
        """Withdraw the attempt, if it waits to be started."""
        for held in self.held:
            if isinstance(held.command, (commands.Start, commands.Undo)) and held.command.attempt == attempt:
                self._not_started(held, held.command)
                return

    def _not_started(self, held: Held, command: commands.Start | commands.Undo) -> None:
        self.held.remove(held)
        self.launches.give_back_place(command.attempt)
        self._events.append(events.Ended(command.node, command.attempt, started=False))

    def lost(self, lost: Sequence[tuple[str, int]], objects: Set[Object], replaced: Mapping[Object, Blob]) -> None:
        """These objects are lost, and with them these outputs. Attempts about to start with one are not started."""
        if lost:
            self._events.append(events.Lost(tuple(lost)))
        for held in [held for held in self.held if not held.survives(objects, replaced)]:
            assert isinstance(held.command, (commands.Start, commands.Undo))
            self.launches.private.pop(held.command.attempt, None)
            self._not_started(held, held.command)
        self.proceed_with_news()

    def _finish(self, command: commands.Finish) -> None:
        driver, run = self._driver, self._driver.run
        if command.status == "succeeded":
            (sink,) = slices.ends(run)
            self._end(Ending("succeeded", self._saving.output(sink), parts=sink.node.parts))
            return
        failure = driver.raised_last.get(command.failed[0]) if command.failed else None
        ending = Ending(command.status, (), command.failed, command.kept, command.uncertain, failure)
        if driver.is_cancelling:
            ending = msgspec.structs.replace(ending, ended_fibers=tuple(driver.features.cancelling.ended_fibers))
        elif command.failed and command.failed[0] in run.rows:
            ending = msgspec.structs.replace(ending, awaited=self._awaited_by(run.rows[command.failed[0]]))
        self._end(ending)

    def _awaited_by(self, row: Row) -> tuple[tuple[Awaited, Part], ...]:
        """What a segment of a fiber had waited for, and the outcomes of that."""
        awaited = awaited_by(row)
        found = {one.outcome: self._outputs.get(*one.outcome) for one in awaited}
        missing = {key for key, value in found.items() if not isinstance(value, bytes)}
        stored = self._driver.store.values(missing) if missing else {}
        values = {key: stored.get(key, value) for key, value in found.items()}
        return tuple([(one, value) for one in awaited if (value := values[one.outcome]) is not None])

    def _end(self, ending: Ending) -> None:
        driver = self._driver
        driver.ending = ending
        driver.let_go()
        self._host.ended(driver)

    # -- how the run stands --------------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        driver, launches = self._driver, self.launches
        used = driver.used_features
        if launches.pausing and self.rests:
            return "paused"
        if driver.waits_outside:
            return "pending"
        match driver.run.status:
            case "parked":
                return "paused"
            case "running" | "stopping":
                if used is None or launches.in_flight or self.held:
                    return "running"
                return "waiting" if used.has_delays or used.has_waits else "running"
            case status:
                return status

    @property
    def rests(self) -> bool:
        """Whether that was requested, and nothing is under way any more."""
        launches = self.launches
        return (
            launches.pausing and self._driver.run.final is None and not (launches.in_flight or self._saving.under_way)
        )

    @property
    def due(self) -> float | None:
        """When the run goes on, unless an event comes first, if it need not be in memory until then."""
        driver, launches = self._driver, self.launches
        used = driver.used_features
        if used is None or not used.has_waits or launches.drained is not None or launches.pausing:
            return None
        if launches.in_flight or self.held or self._saving.under_way or self._events or launches.asks:
            return None
        if used.has_delays or used.is_cancelling or driver.run.status != "running":
            return None
        return used.due if driver.limit is None else min(used.due, driver.limit)

    # -- the journal ---------------------------------------------------------------------------------------------------

    @property
    def is_opening(self) -> bool:
        """Whether the first batch is not yet durable."""
        return self.committed == 0

    @property
    def is_committed(self) -> bool:
        """Whether everything that was appended is durable."""
        return self.committed == self._submitted and not self._entries and not self._opening

    @property
    def only_opens(self) -> bool:
        """Whether nothing waits until the first batch is durable, and there will be more for it."""
        return bool(self._opening and self.launches.in_flight) and not self.held

    def flush(self) -> None:
        """Hand the journal what has been collected."""
        driver, epoch = self._driver, self._driver.run.epoch
        if epoch > 1 and self._submitted and not self.committed:
            return  # the first batch claims the run; if that is refused, another driver of this engine has this epoch
        requests = list(self._opening)
        stands = self.status, self.due
        if stands != self._written or (driver.measurements.due and (self._entries or requests)):
            measured = driver.measurements.take(epoch) if driver.measurements.waiting else None
            if measured is not None:
                self._entries.insert(0, entries.measured(measured))  # the entry that ends the run is its last one
        if self._entries:
            requests.append(AppendEntries(driver.id, epoch, self._entries))
            if driver.used_features is not None:
                requests += driver.used_features.marks()
        if stands != self._written:
            requests.append(SetStatus(driver.id, epoch, *stands))
            self._written = stands
        if requests:
            self._opening = ()
            self._entries = []
            self._submitted += 1
            self._host.commit(driver, requests)

    def let_go(self) -> None:
        """The driver is over, and gets no more calls. Breaks reference cycles."""
        self.held.clear()
        self.launches.driver = None  # type: ignore[assignment]
        del self._driver, self._saving

    def note(self, entry: Entry) -> None:
        """Append this entry to the next batch."""
        self._entries.append(entry)

    def _hold(self, command: commands.Command, needs: Needs = NOTHING) -> None:
        mark = self._submitted + bool(self._entries or self._opening)
        self.held.append(Held(mark, command, needs))

    def _append(self, record: records.Record) -> None:
        driver = self._driver
        match record:
            case records.Saved(node, part, attempt):
                annotations = driver.annotations.get(node) if driver.annotations and not part else None
                value, blob = self._saving.record(Save(node, part, attempt))
                if driver.used_features is not None:
                    self._entries += driver.used_features.saved(node, part)
                if CHILD in node:
                    driver.features.outcomes.note(record, value, blob)
                entry = entries.saved(record, value, blob, annotations)
            case records.Wrote():
                entry = driver.features.variables.record(record, self._submitted + 1)
            case records.Begun(node, _, carried):
                row = driver.run.rows[node]
                keeps = carried or row.effect == "undoable" or node in self._inputs.carried
                values = self._inputs.carry(node, carried) if keeps else {}
                is_timed = row.node.call is not None and row.node.call.settings.total_timeout is not None
                since = driver.features.limits.begun(node) if is_timed else None  # else it may take as long as it likes
                entry = entries.begun(record, values, since)
            case records.Failed(node, failures, final):
                delays = driver.features.delays
                due = 0.0 if final else delays.failed(node, failures)
                delay, since = delays.asked_for(node), driver.features.limits.since(node)
                entry = entries.failed(record, driver.raised_last.get(node), due, since, delay)
            case records.Again(node):
                driver.features.limits.forget_inside(node)
                entry = entries.again(record, driver.raised_last.get(node), *driver.features.delays.ended(node))
            case records.Undone(node):
                self._inputs.forget_carried(node)
                entry = entries.plain(record)
            case records.Dropped(nodes):
                driver.features.dropped(nodes)
                for node in nodes:
                    driver.annotations.pop(node, None)
                entry = entries.plain(record)
            case _:
                entry = entries.plain(record)
        self._entries.append(entry)
