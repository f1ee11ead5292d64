"""Attempts and undos on their way to the workers: places are asked for, inputs read, and what is under way
is remembered until it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from onceflow.core.model import commands, events
from onceflow.core.model.rows import Row
from onceflow.core.model.walks import id_inside
from onceflow.driver import ahead
from onceflow.driver.deadlines import deadline_of
from onceflow.driver.guards import Guards, failures_around, tries_around
from onceflow.driver.inputs import NOTHING, READ_NOTHING, Needs
from onceflow.driver.work import Host, Work
from onceflow.errors import OnceflowError

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver


class Launches(msgspec.Struct):
    """Of one driver."""

    driver: Driver
    """Until that is over."""
    _host: Host
    _tell_later: Callable[[events.Event], None]
    """Core is notified once it has handled the previous events."""
    in_flight: dict[int, Work] = {}
    """Attempt → what was started and has not been answered."""
    latest: Work | None = None
    """What was started last, if it has no effect and nothing was foreseen behind it."""
    private: dict[int, None] = {}
    """Attempts whose outputs are for undos only."""
    deaths: dict[tuple[str, bool], int] = {}
    """(node, whether it is about its undo) → workers that died while they ran that, since it last came to an end, and
    for which it is the only suspect."""
    drained: OnceflowError | None = None
    """Why nothing more starts."""
    pausing: bool = False
    """Nothing more starts, because the run was asked to rest."""
    entering: dict[str, None] = {}
    """Nodes that were admitted, until the run has answered to that."""
    _asking: dict[str, None] = {}
    """Nodes that want to be admitted."""
    _admitted: dict[int, str] = {}
    """Attempts that were admitted and have yet to be started → the node."""
    _guards: Guards | None = None

    # -- what is under way ---------------------------------------------------------------------------------------------

    def is_under_way(self, attempt: int) -> bool:
        """Whether an attempt was started and has not been answered."""
        return attempt in self.in_flight

    def is_asked_about(self, attempt: int) -> bool:
        """Whether it has ended, and handlers are being asked for their answer."""
        return attempt in self.in_flight and self.in_flight[attempt].failure is not None

    def under_way(self) -> list[Work]:
        """What was started and has not been answered."""
        return list(self.in_flight.values())

    def is_private(self, attempt: int) -> bool:
        """Whether what it gives is for undos only."""
        return attempt in self.private

    # -- places --------------------------------------------------------------------------------------------------------

    def has_place(self, node: str) -> bool:
        """Whether the host lets a node with an effect start at once. Else it asks (`commands.Ask`)."""
        if self.pausing or self.drained is not None or not self._host.ask(self.driver, node):
            return False
        self.entering[node] = None
        return True

    def ask(self, node: str) -> None:
        """It wants to be admitted."""
        if self.pausing or self.drained is not None:
            return  # it asks again when the run is loaded
        if self._host.ask(self.driver, node):
            self.entering[node] = None
            self._tell_later(events.Admitted(node))
            return
        self._asking[node] = None
        settings = self.driver.run.rows[node].node.call.settings
        if settings.total_timeout is not None or settings.until is not None:
            self.driver.features.limits.asks(node, settings)

    @property
    def asks(self) -> bool:
        """Whether something wants to be admitted."""
        return bool(self._asking)

    def is_asking(self, node: str) -> bool:
        """Whether it waits to be admitted."""
        return node in self._asking

    def admit(self, nodes: Sequence[str]) -> None:
        """Nodes that asked may start. The host is notified of those that do not (`Host.unused`)."""
        starts = not self.pausing and self.drained is None
        for node in nodes:
            if starts:
                self._asking.pop(node, None)
                self.entering[node] = None
                self._tell_later(events.Admitted(node))
            else:
                self._host.unused(self.driver, node, 0)

    def refuse(self, node: str) -> None:
        """It waits to be admitted no longer, because its time is over: it starts, and counts as having raised that."""
        del self._asking[node]
        self._host.forgo(self.driver, node)
        self.driver.tell(events.Admitted(node))

    def give_back_place(self, attempt: int) -> None:
        """It was admitted, perhaps, and is not started."""
        node = self._admitted.pop(attempt, None)
        if node is not None:
            self._host.unused(self.driver, node, attempt)

    def give_back_unused(self) -> None:
        """The run was notified of all admitted nodes; those left could not start."""
        entering, self.entering = self.entering, {}
        for node in entering:
            self._host.unused(self.driver, node, 0)

    # -- starting ------------------------------------------------------------------------------------------------------

    def prepare(self, command: commands.Start) -> None:
        """Core has decided to start it; that decision may have to be durable first."""
        if command.private:
            self.private[command.attempt] = None
        elif self.entering and command.node in self.entering:
            del self.entering[command.node]
            self._admitted[command.attempt] = command.node

    def start(self, command: commands.Start, needs: Needs) -> None:
        driver = self.driver
        row = driver.run.rows[command.node]
        node, call = row.node, row.node.call
        settings, read = call.settings, READ_NOTHING if needs is NOTHING else driver.inputs.read(needs)
        work = Work(
            row.id,
            node.task,
            command.attempt,
            call,
            read.parts,
            node.parts,
            self._key(row),
            read.spans,
            read.refs,
            failures=row.failures,
            again=row.visible,
            keep=row.checkpoint or command.private,
        )
        if node.turn is not None and row.scope.depth:
            tries = tries_around(row)
            if tries:
                work = msgspec.structs.replace(work, tried=repr(tries))
        if settings.fiber:
            inside, deadline = id_inside(row, ""), deadline_of(row)
            work = msgspec.structs.replace(work, inside=inside, cancelled=driver.is_cancelling, deadline=deadline)
        if not command.private and (guard := self._guard_of(row)) is not None:
            work = msgspec.structs.replace(work, guard=guard, failed=failures_around(row))
        self.launch(work)
        if command.attempt in self._admitted:
            self.give_back_place(command.attempt)  # it was not started
        if row.effect == "none" and row.consumers:
            self.latest = work

    def undo(self, command: commands.Undo, needs: Needs) -> None:
        row = self.driver.run.rows[command.node]
        node, key = row.node, self._key(row)
        parts, spans, refs, has_output = self.driver.inputs.read(needs, caught=bool(node.call.settings.catch))
        self.launch(Work(row.id, node.task, command.attempt, node.call, parts, 1, key, spans, refs, True, has_output))

    def launch(self, work: Work) -> None:
        driver, settings = self.driver, work.call.settings
        if self.drained is not None or self.pausing:
            is_first = not work.undo and work.failure is None and work.attempt not in self.private
            if is_first and driver.run.rows[work.node].effect == "irrevocable":  # it never started, and asks in vain
                self._tell_later(events.Ended(work.node, work.attempt, started=False))
            return
        used = driver.used_features
        if used is not None and work.attempt not in self.private and used.supply(work):
            return
        if settings.wait is not None and not work.undo and work.failure is None:
            entry = driver.features.waits.wait_for(work, settings.wait)
            if entry is not None:
                driver.note(entry)
            return
        is_timed = settings.total_timeout is not None or settings.until is not None
        if is_timed and not work.undo and work.attempt not in self.private and self.is_out_of_time(work.node, settings):
            failure = driver.features.limits.failure(work.node, settings)
            if work.failure is None and work.guard is not None:
                work = msgspec.structs.replace(work, failure=failure)
            elif work.failure is None:
                driver.raised_last[work.node] = failure
                self._tell_later(events.Raised(work.node, work.attempt, permanent=True, started=False))
                return
        if self.deaths and (work.node, work.undo) in self.deaths:
            work = msgspec.structs.replace(work, alone=True)
        self.in_flight[work.attempt] = work
        self._admitted.pop(work.attempt, None)
        self._host.start(driver, work)

    def is_out_of_time(self, node: str, settings: Any) -> bool:
        """Whether a task has been given all the time that it may take. If it has some left, that is watched."""
        if settings.total_timeout is None and settings.until is None:
            return False
        return self.driver.features.limits.watch(node, settings)

    def foresee(self, *, alone: bool) -> None:
        """What follows the latest that was started, if it is `alone` under way. Not after a worker died: the culprit
        shows best if they run one by one."""
        work, self.latest = self.latest, None
        if work is None or not alone or len(self.in_flight) != 1 or work.attempt not in self.in_flight:
            return
        if self.deaths or work.attempt in self.private or not ahead.is_plain(work.call):
            return
        row, inputs = self.driver.run.rows[work.node], self.driver.inputs
        if found := ahead.foresee(row, work.attempt, inputs, self._key, self._guard_of):
            self._host.foresee(self.driver, work, found)

    def _guard_of(self, row: Row) -> Any:
        """None if no handler has a say about the row."""
        if row.scope.outer is None and not row.node.call.guarded:
            return None
        if self._guards is None:
            self._guards = Guards()
        return self._guards.of(row)

    def _key(self, row: Row) -> str:
        return f"{self.driver.id}/{row.id}/{self.driver.run.undos.get(row.id, 0)}"

    # -- stopping ------------------------------------------------------------------------------------------------------

    def stop(self, attempt: int) -> bool:
        """Whether that is under way, and is being stopped."""
        if attempt not in self.in_flight:
            return False
        self._host.stop(self.driver, attempt)
        return True

    def stop_all(self) -> None:
        for attempt in self.in_flight:
            self._host.stop(self.driver, attempt)

    def stop_effectless(self) -> None:
        """Stop attempts without effect."""
        for attempt, work in self.in_flight.items():
            row = self.driver.run.rows.get(work.node)
            if not work.undo and (row is None or row.effect == "none"):
                self._host.stop(self.driver, attempt)

    def withdraw(self, attempt: int) -> bool:
        """Whether that is under way, and comes back if it has not started."""
        if attempt not in self.in_flight:
            return False
        self._host.withdraw(self.driver, attempt)
        return True
