"""Attempts and undos on their way to whoever carries them out."""

from __future__ import annotations

from typing import Any

import msgspec

from onceflow.core.model import commands, events
from onceflow.core.model.rows import Row
from onceflow.core.model.walks import id_inside
from onceflow.driver import ahead
from onceflow.driver.deadlines import deadline_of
from onceflow.driver.guards import Guards, failures_around, tries_around
from onceflow.driver.inputs import Needs
from onceflow.driver.journaling import Batching
from onceflow.driver.work import Work


class Launching(Batching):
    """Starts and stops them."""

    __slots__ = ()

    def is_under_way(self, attempt: int) -> bool:
        """Whether an attempt was started and has not been answered."""
        return attempt in self._in_flight

    def is_asked_about(self, attempt: int) -> bool:
        """Whether it has come to its end, and handlers are being asked what shall become of that."""
        return attempt in self._in_flight and self._in_flight[attempt].failure is not None

    def under_way(self) -> list[Work]:
        """What was started and has not been answered."""
        return list(self._in_flight.values())

    def is_private(self, attempt: int) -> bool:
        """Whether what it gives is for undos only."""
        return attempt in self._private

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
        if node.turn is not None and row.scope.depth:
            tries = tries_around(row)
            if tries:
                work = msgspec.structs.replace(work, tried=repr(tries))
        if node.call.settings.fiber:
            inside, deadline = id_inside(row, ""), deadline_of(row)
            work = msgspec.structs.replace(work, inside=inside, cancelled=self._is_cancelling, deadline=deadline)
        if not command.private and (guard := self._guard_of(row)) is not None:
            work = msgspec.structs.replace(work, guard=guard, failed=failures_around(row))
        self._launch(work)
        if command.attempt in self._admitted:
            self._give_back_place(command.attempt)  # it was not started
        if row.effect == "none" and row.consumers:
            self._latest = work

    def _undo(self, command: commands.Undo, needs: Needs) -> None:
        row = self.run.rows[command.node]
        node, key = row.node, self._key(row)
        parts, spans, refs, has_output = self._inputs.read(needs, caught=bool(node.call.settings.catch))
        self._launch(Work(row.id, node.task, command.attempt, node.call, parts, 1, key, spans, refs, True, has_output))

    def _launch(self, work: Work) -> None:
        if self._drained is not None or self._pausing:
            is_first = not work.undo and work.failure is None and work.attempt not in self._private
            if is_first and self.run.rows[work.node].effect == "irrevocable":  # it never started, and asks in vain
                self._events.append(events.Ended(work.node, work.attempt, started=False))
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
        if not work.undo and work.attempt not in self._private and self.is_out_of_time(work.node, settings):
            failure = self.rare.limits.failure(work.node, settings)
            if work.failure is None and work.guard is not None:
                work = msgspec.structs.replace(work, failure=failure)
            elif work.failure is None:
                self.raised_last[work.node] = failure
                self._events.append(events.Raised(work.node, work.attempt, permanent=True, started=False))
                return
        if self._deaths and (work.node, work.undo) in self._deaths:
            work = msgspec.structs.replace(work, alone=True)
        self._in_flight[work.attempt] = work
        self._admitted.pop(work.attempt, None)
        self._host.start(self._whole, work)

    def is_out_of_time(self, node: str, settings: Any) -> bool:
        """Whether a task has been given all the time that it may take. If it has some left, that is watched."""
        if settings.total_timeout is None and settings.until is None:
            return False
        return self.rare.limits.watch(node, settings)

    def _give_back_place(self, attempt: int) -> None:
        """It was admitted, perhaps, and is not started."""
        node = self._admitted.pop(attempt, None)
        if node is not None:
            self._host.unused(self._whole, node, attempt)

    def _give_back_unused(self) -> None:
        """The run has been told of all that was admitted, and what is left could not start."""
        entering, self._entering = self._entering, {}
        for node in entering:
            self._host.unused(self._whole, node, 0)

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
            self._host.foresee(self._whole, work, found)

    def _key(self, row: Row) -> str:
        return f"{self.id}/{row.id}/{self.run.undos.get(row.id, 0)}"

    def stop(self, attempt: int) -> bool:
        """Whether that is under way, and is being stopped."""
        if attempt not in self._in_flight:
            return False
        self._host.stop(self._whole, attempt)
        return True

    def _stop(self, node: str, attempt: int) -> None:
        if self.stop(attempt):
            return
        if self.rare.waits.stop(attempt):
            self._events.append(events.Ended(node, attempt))
            return
        self._hand_back(node, attempt)

    def _withdraw(self, node: str, attempt: int) -> None:
        if attempt in self._in_flight:
            self._host.withdraw(self._whole, attempt)
        else:
            self._hand_back(node, attempt)

    def _hand_back(self, node: str, attempt: int) -> None:
        """If it waits to be started, it does so no longer."""
        for held in self._held:
            if isinstance(held.command, (commands.Start, commands.Undo)) and held.command.attempt == attempt:
                self._held.remove(held)
                self._give_back_place(attempt)
                self._events.append(events.Ended(node, attempt, started=False))
                return
