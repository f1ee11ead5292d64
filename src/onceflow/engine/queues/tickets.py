"""Places for tasks and for runs: requests of an engine's drivers to the gate, and the release of places.

A task holds its place while its attempt runs: from the answer that lets it start until the workers have reported its
outcome, however it ended. If what was admitted does not start after all, its place is free at once. A run holds its
place while it is driven; its tasks need none of their own in the same queue. So no holder of a place waits for another
one of the same kind, and every waiter makes progress.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from onceflow.engine.queues.gate import Gate
from onceflow.engine.queues.order import Waiting, Wish

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver

Attempt = tuple["Driver", int]


class Doorman:
    """Belongs to the loop's thread."""

    def __init__(self, gate: Gate, max_running: int | None, has_worker_for: Callable[[Driver, str], bool]) -> None:
        self.gate = gate
        self._has_worker_for = has_worker_for
        self._placed: dict[tuple[Driver, str], int] = {}
        """Nodes that have a place and wait for a worker."""
        self._max_running = max_running
        """Runs that are driven at a time."""
        self._driven: set[Driver] = set()
        """Those that are, if they are counted."""
        self._outside = Waiting()
        """Runs that wait because the limit of driven runs is reached."""
        self._asking: dict[tuple[Driver, str], int] = {}
        """Node of a run → its wish. The empty one is the run as a whole."""
        self.holding: dict[Attempt, int] = {}
        """Attempts that have a place."""
        self._launched: set[Attempt] = set()
        """Those of them that workers have."""
        self._runs: dict[Driver, int] = {}
        """Runs that have a place."""
        self._entering: dict[Driver, Callable[[], None]] = {}
        """Runs that have yet to begin, and how they do."""
        self._places: dict[Driver, Wish] = {}
        """Runs that wait outside, and their places in the line."""
        self._numbers = itertools.count(1)
        self.is_used = False
        """Whether a run or a node has asked for a place since the beginning."""

    def ask(self, driver: Driver, node: str) -> None:
        """A node wants to start."""
        self.is_used = True
        row = driver.run.rows[node]
        settings = row.node.call.settings
        queue, key = settings.queue, row.node.admission or ""
        if queue is None or (queue == driver.queue and driver in self._runs):
            queue = ""  # which has no limits
        priority = driver.priority + settings.priority
        known = self._asking.pop((driver, node), None)
        if known is None:
            known = self._placed.pop((driver, node), None)
        if known is not None:  # a row of the same name that is gone
            self.gate.give_back(known)
        number = self.gate.ask(queue, driver.id, node, key, priority, lambda number: self._admit(driver, node, number))
        self._asking[driver, node] = number

    def _admit(self, driver: Driver, node: str, number: int) -> None:
        self._asking.pop((driver, node), None)
        if self._has_worker_for(driver, node):
            self._start(driver, node, number)
        else:
            self._placed[driver, node] = number

    def admit(self, driver: Driver, node: str) -> bool:
        """There is a worker for a node. Whether that has waited here for it."""
        number = self._placed.pop((driver, node), None)
        if number is not None:
            self._start(driver, node, number)
        return number is not None

    def _start(self, driver: Driver, node: str, number: int) -> None:
        attempt = driver.admitted(node)
        if attempt is None:
            self.gate.give_back(number)
        else:
            self.holding[driver, attempt] = number
            if driver.launches.is_under_way(attempt):
                self._launched.add((driver, attempt))

    def forgo(self, driver: Driver, node: str) -> None:
        """A node that asked does not want to start any more."""
        for waiting in (self._asking, self._placed):
            number = waiting.pop((driver, node), None)
            if number is not None:
                self.gate.give_back(number)

    def launched(self, driver: Driver, attempt: int) -> None:
        """Workers have it: they will report its end."""
        if (driver, attempt) in self.holding:
            self._launched.add((driver, attempt))

    def over(self, driver: Driver, attempt: int) -> None:
        """It does not run any more, or never will."""
        number = self.holding.pop((driver, attempt), None)
        if number is not None:
            self._launched.discard((driver, attempt))
            self.gate.give_back(number)

    def lets_in(self, driver: Driver, begin: Callable[[], None]) -> bool:
        """Whether the run may begin, and has. Else `begin` is called when it may."""
        self.is_used = True
        if driver.queue is None:
            if self._max_running is None:
                begin()
                return True
            self._entering[driver] = begin
            self._queue_up(driver)
            return driver not in self._entering

        def enter(number: int) -> None:
            del self._asking[driver, ""]
            self._runs[driver] = number
            self._queue_up(driver)

        self._entering[driver] = begin
        self._asking[driver, ""] = self.gate.ask(driver.queue, driver.id, "", "", driver.priority, enter)
        return False

    def _queue_up(self, driver: Driver) -> None:
        """It has a place in its queue, if it needs one, and wants to be driven."""
        if self._max_running is None:
            self._entering.pop(driver)()
            return
        self._places[driver] = Wish(next(self._numbers), "", driver.id, "", "", driver.priority, self.gate.now())
        self._outside.add(self._places[driver])
        self._drive_next()

    def _drive_next(self) -> None:
        waiting = {wish.number: driver for driver, wish in self._places.items()} if self._outside else {}
        while self._max_running is not None and len(self._driven) < self._max_running:
            wish = self._outside.first(lambda _: True)
            if wish is None:
                return
            self._outside.take(wish)
            driver = waiting[wish.number]
            del self._places[driver]
            self._driven.add(driver)
            self._entering.pop(driver)()

    def let_in(self, driver: Driver) -> None:
        """If the run waits, it waits no longer: it is to be stopped. One that is new need not begin for that; what an
        earlier life has decided must be known."""
        begin = self._entering.pop(driver, None)
        if begin is not None:
            self._leave_line(driver)
            driver.waits_outside = False
            if driver.run.epoch > 1:
                begin()

    def _leave_line(self, driver: Driver) -> None:
        number = self._asking.pop((driver, ""), None)
        if number is not None:
            self.gate.give_back(number)
        wish = self._places.pop(driver, None)
        if wish is not None:
            self._outside.remove(wish)

    def forget(self, driver: Driver) -> None:
        """The run is no longer driven here. Its attempts that workers still run keep their places until they are
        reported."""
        for waiting in (self._asking, self._placed):
            if waiting:
                for asking in [asking for asking in waiting if asking[0] is driver]:
                    self.gate.give_back(waiting.pop(asking))
        if self.holding:
            own = [attempt for attempt in self.holding if attempt[0] is driver and attempt not in self._launched]
            for attempt in own:
                self.gate.give_back(self.holding.pop(attempt))
        self._entering.pop(driver, None)
        self._leave_line(driver)
        number = self._runs.pop(driver, None)
        if number is not None:
            self.gate.give_back(number)
        if driver in self._driven:
            self._driven.discard(driver)
            self._drive_next()

    def of(self, wishes: Iterable[int]) -> list[Driver]:
        """The drivers that these requests belong to."""
        wanted = set(wishes)
        return list(dict.fromkeys([driver for (driver, _), number in self._asking.items() if number in wanted]))

    def waiting_runs(self, queue: str | None = None) -> int:
        """How many have yet to begin. From any thread."""
        return len(self._entering) if queue is None else sum([it.queue == queue for it in list(self._entering)])

    def why_outside(self, driver: Driver) -> str:
        """What a run waits for that has yet to begin."""
        waits = self.why(driver, "")
        if waits:
            return f"the run {waits}"
        count = self._max_running
        return f"the run waits: {count} may be driven at a time, and so many are"

    def why(self, driver: Driver, node: str) -> str:
        """What a node, or the run itself, waits for, and what is before it, for users; empty if it does not wait."""
        number = self._asking.get((driver, node))
        found = None if number is None else self.gate.find(number)
        if found is None:
            return ""
        wish, blocked, before = found
        text = f"waits for a place in queue {wish.queue}"
        if blocked:
            text += f": {blocked}"
        if before:
            others = "another" if len(before) == 1 else f"{len(before)} others"
            text += f"; {others} before it"
        holders = self.gate.holders(wish.queue)
        if holders:
            named = [f"{slot.node} of run {slot.run}" if slot.node else f"run {slot.run}" for slot in holders[:2]]
            more = f" and {len(holders) - 2} others" if len(holders) > 2 else ""
            text += f" (held by {', '.join(named)}{more})"
        return text
