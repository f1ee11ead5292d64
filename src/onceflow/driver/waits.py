"""Nodes that wait for an event or a moment (design 2.11): attempts that no worker carries out.

A run's mailbox is in the journal. An event that a node waits for is *picked* here, becomes the output of the node that
waits, and is *taken* with the save of that: the entry that says so stands in the same batch. So one commit decides
which node got the event, and whether it came in time; and if the node is dropped later, the event is free again, in its
old place, with the commit that drops it. A deadline is written down once, when the wait begins, as a moment of the wall
clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from onceflow.core.rules import starting
from onceflow.driver import entries
from onceflow.driver.children import NONE
from onceflow.driver.hooks import Feature
from onceflow.driver.work import Work
from onceflow.errors import CannotJoin, EventTimedOut
from onceflow.storage.journal import NEVER, Entry, MailboxEvent, MarkEvents, Request
from onceflow.values import packed_outputs
from onceflow.values.failures import dump
from onceflow.values.waits import NOT_YET, Wait

if TYPE_CHECKING:
    from onceflow.driver.driver import Driver
    from onceflow.driver.fiber_cancellation import Cancelling
    from onceflow.driver.history import History

LONGEST = 30.0
"""Seconds after which the clock is looked at again: it may have been set."""

NOTHING = packed_outputs.dump(None)


class _Open(msgspec.Struct):
    work: Work
    wait: Wait
    deadline: float
    is_timed: bool = False
    """Whether the clock will be looked at."""


class Waits(Feature):
    """Of one driver."""

    def __init__(self, driver: Driver, past: History) -> None:
        super().__init__(driver, past)
        self._open: dict[int, _Open] = {}
        """Attempt → what it waits for."""
        self._deadlines = past.deadlines
        self._taken = past.taken
        """Node → the number of the event that is its saved output."""
        self._picked: dict[str, tuple[int, int]] = {}
        """The same of those whose save is on its way, with their attempts."""
        self._gone = dict.fromkeys(past.taken.values())
        """The numbers of all of these. The journal may not know of it yet."""
        self._returning = False
        """Whether the journal has yet to learn that events are free again."""
        self._joining: dict[int, None] = {}
        """Attempts that wait for forked fibers."""
        self._begun: dict[str, None] = {}
        """Nodes whose waits have begun in the life of this driver."""
        self._marks: list[Request] = []
        self._mail = past.mail
        """The events that were in the mailbox when the run was loaded."""

    @classmethod
    def is_needed(cls, past: History) -> bool:
        return bool(past.deadlines or past.taken or past.mail)

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, attempt: int) -> bool:
        return attempt in self._open

    @property
    def due(self) -> float:
        """The next moment at which something is over."""
        return min([opened.deadline for opened in self._open.values()], default=NEVER)

    def wait_for(self, work: Work, wait: Wait) -> Entry | None:
        """Wait for something. Returns what has to be written down."""
        entry: Entry | None = None
        deadline = self._deadlines.get(work.node)
        self._gone.pop(self._picked.pop(work.node, (0, 0))[0], None)
        if deadline is None or work.node in self._begun:  # what began before has been dropped
            deadline = self._deadline(wait)
            self._deadlines[work.node] = deadline
            entry = entries.waits(work.node, deadline, wait.shown_key)
        self._begun[work.node] = None
        self._open[work.attempt] = _Open(work, wait, deadline)
        if wait.children:
            self._joining[work.attempt] = None
        if wait.children and not wait.count and starting.is_part_of(self._driver.run, work.node, wait.children[0]):
            del self._open[work.attempt]
            self._refuse(work, wait.children[0], "it would wait for itself")
        self._look(work.attempt)
        return entry

    def _deadline(self, wait: Wait) -> float:
        if wait.until is not None:
            return wait.until
        return NEVER if wait.seconds is None else self._host.now() + wait.seconds

    def look(self) -> bool:
        return self._look_for_unused() or self._look_for_children()

    def look_for_mail(self) -> None:
        """There may be events."""
        for attempt in list(self._open):
            self._look(attempt)

    def _look_for_unused(self) -> bool:
        """An event that was picked is free again if what was to be saved no longer counts. Whether there was one."""
        rows = self._driver.run.rows
        unused = [
            node for node, (_, attempt) in self._picked.items() if node not in rows or rows[node].attempt != attempt
        ]
        for node in unused:
            number, _ = self._picked.pop(node)
            del self._gone[number]
        if unused:
            self.look_for_mail()
        return bool(unused)

    def _look(self, attempt: int) -> None:
        """Whether what it waits for is there."""
        opened = self._open.get(attempt)
        if opened is None:
            return
        if opened.wait.key is not None:
            event = self._first(opened.wait.key)
            if event is not None:
                del self._open[attempt]
                self._picked[opened.work.node] = (event.number, attempt)
                self._gone[event.number] = None
                self._driver.came(opened.work, [event.payload])
                return
        if opened.wait.children and self._join(attempt):
            return
        left = opened.deadline - self._host.now()
        if left <= 0:
            del self._open[attempt]
            self._end(opened)
        elif opened.deadline < NEVER and not opened.is_timed:
            opened.is_timed = True
            self._host.later(self._driver, min(left, LONGEST), lambda: self._look_at_clock(attempt))

    def _first(self, key: str) -> MailboxEvent | None:
        """The first event of this key that is free. What was loaded is older than what has come since."""
        for event in self._mail:
            if event.key == key and event.number not in self._gone:
                return event
        return next((event for event in self._host.mailbox(self._driver, key) if event.number not in self._gone), None)

    def _look_for_children(self) -> bool:
        """Forked fibers may have come to their ends. Whether one was waited for."""
        if not self._joining:
            return False
        self._joining = {attempt: None for attempt in self._joining if attempt in self._open}
        return any(self._join(attempt) for attempt in self._joining)

    def _join(self, attempt: int) -> bool:
        opened = self._open[attempt]
        work, wait = opened.work, opened.wait
        ended = tuple([child for child in wait.children if starting.may_join(self._driver.run, child)])
        if len(ended) < max(wait.count, 1):
            return False
        found = {child: self._driver.outcome(child) for child in ended}
        outcomes = {child: outcome for child, outcome in found.items() if outcome is not None}
        if len(outcomes) < len(found):
            return False
        del self._open[attempt]
        if wait.count in (0, len(wait.children)):
            self._driver.features.outcomes.joined(ended)
        if wait.count:
            told = [(child, outcome.declared()[1]) for child, outcome in outcomes.items() if outcome is not NONE]
            self._driver.came(work, [packed_outputs.dump(told)], joined=ended)
        elif (outcome := outcomes[ended[0]]) is NONE:
            reason = "it was forked in another run, or was ended with the fiber that had forked it"
            self._refuse(work, ended[0], reason, ended)
        else:
            self._driver.came(work, outcome.declared(), outcome.held(), ended)
        return True

    def _refuse(self, work: Work, child: str, reason: str, joined: tuple[str, ...] = ()) -> None:
        """There is nothing to wait for."""
        failure = dump(CannotJoin(child, reason), "the engine")
        self._driver.came(work, [NOTHING, packed_outputs.dump(failure)], joined=joined)

    def _look_at_clock(self, attempt: int) -> None:
        opened = self._open.get(attempt)
        if opened is not None:
            opened.is_timed = False
            self._look(attempt)

    def _end(self, opened: _Open) -> None:
        """Its time is over."""
        wait, node = opened.wait, opened.work.node
        if wait.count:
            self._driver.came(opened.work, [packed_outputs.dump([])])
        elif wait.children:
            self._driver.came(opened.work, [NOTHING, packed_outputs.dump(NOT_YET)])
        elif wait.key is None:
            self._driver.came(opened.work, [NOTHING])
        elif wait.default is not None:
            self._driver.came(opened.work, [wait.default])
        else:
            failure = dump(EventTimedOut(node, wait.key, wait.seconds or 0.0), "the engine")
            self._driver.never_came(opened.work, failure)

    def disturb(self, attempt: int, cancelling: Cancelling) -> bool:
        """The run is to be cancelled. Whether it waited."""
        opened = self._open.pop(attempt, None)
        if opened is None:
            return False
        self._driver.came(opened.work, cancelling.parts(opened.wait))
        return True

    def stop(self, attempt: int) -> bool:
        """Wait no longer. Whether it did."""
        return self._open.pop(attempt, None) is not None

    def saved(self, node: str, part: int) -> Entry | None:
        """The output of this node is saved: the event that it was is taken, in the same batch."""
        if node not in self._picked:
            return None
        number, _ = self._picked.pop(node)
        self._taken[node] = number
        self._marks.append(MarkEvents(self._driver.id, self._driver.run.epoch, taken=(number,)))
        return entries.took(node, number)

    def dropped(self, nodes: Sequence[str]) -> None:
        """What these nodes saved no longer counts: their events are free again, and their waits begin anew."""
        for node in nodes:
            self._deadlines.pop(node, None)
        numbers = [self._taken.pop(node) for node in nodes if node in self._taken]
        if numbers:
            for number in numbers:
                self._gone.pop(number, None)
            self._returning = True
            self._marks.append(MarkEvents(self._driver.id, self._driver.run.epoch, returned=tuple(numbers)))

    def became_durable(self, batches: int) -> None:
        if self._returning and not self._driver.over:
            self._returning = not self._driver.commands.is_committed
            self.look_for_mail()

    def marks(self) -> list[Request]:
        marks, self._marks = self._marks, []
        return marks
