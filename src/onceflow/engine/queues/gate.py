"""The queues as one engine sees them: which waiters it has, which hold a place, and what the journal knows of that.

A place counts when the journal has it, and only then the waiter is admitted. At most one write of a queue is under way:
what happens meanwhile is part of the next one. If another engine has written before, its state is read and everything
is decided again (`decision`). A queue without limits costs nothing: every request is admitted at once.

Belongs to the loop's thread. Answers come from `turn`, never from the calls.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from onceflow.engine.queues.decision import Decision, Slot, State, decide
from onceflow.engine.queues.limits import NO_LIMITS, Limits
from onceflow.engine.queues.management import defined
from onceflow.engine.queues.order import Waiting, Wish
from onceflow.errors import OnceflowError
from onceflow.storage.journal import Failed, Outcome, WriteQueue

if TYPE_CHECKING:
    from onceflow.engine.runtime.loop import Posting
    from onceflow.storage.journal import StandingRow
    from onceflow.storage.run_stores import Place

RECENT = 1.0
"""Seconds for which the limits of a queue that has none are taken to be the same, unless another engine rings."""

LOOK = 0.5
"""Seconds between two looks at whether engines that have places in a queue still live, while there are waiters for
it."""

Told = Callable[[int], None]
"""Is called with the number of a wish that came true. From then on it holds a place."""

logger = logging.getLogger(__name__)


class Gate:
    """`is_gone` says whether an engine is dead, together with all its workers; `failed` is called when a queue cannot
    be written, with its waiters."""

    def __init__(
        self,
        home: Place,
        host: str,
        loop: Posting,
        now: Callable[[], float],
        is_gone: Callable[[str], bool],
        failed: Callable[[list[int], OnceflowError], None],
    ) -> None:
        self.home = home
        self.host = host
        self.loop = loop
        self.now = now
        self.is_gone = is_gone
        self.failed = failed
        self._numbers = itertools.count(1)
        self._queues: dict[str, _Queue] = {}
        self._wishes: dict[int, tuple[Wish, Told]] = {}
        """Waiters, by their numbers."""
        self._places: dict[int, Wish] = {}
        """Holders of a place."""
        self.eager: dict[_Queue, None] = {}
        """Queues to look at."""
        self.answers: deque[tuple[_Queue, Outcome]] = deque()
        """Of the journal."""

    @property
    def busy(self) -> bool:
        """Whether `turn` has something to do."""
        return bool(self.eager or self.answers)

    def ask(self, queue: str, run: str, node: str, key: str, priority: int, told: Told) -> int:
        """For a place. Returns the number of the wish."""
        number = next(self._numbers)
        wish = Wish(number, queue, run, node, key, priority, self.now())
        self._wishes[number] = (wish, told)
        found = self._find(queue)
        found.waiting.add(wish)
        self.eager[found] = None
        return number

    def give_back(self, number: int) -> None:
        """A place, or the wish for one."""
        waiting = self._wishes.pop(number, None)
        wish = self._places.pop(number, None) if waiting is None else waiting[0]
        if wish is None:
            return
        queue = self._find(wish.queue)
        if waiting is None:
            del queue.held[number]
        else:
            queue.waiting.remove(wish)
        self.eager[queue] = None

    def look(self) -> None:
        """Another engine rang: limits may have changed, places may be free."""
        for queue in self._queues.values():
            if queue.waiting or queue.held:
                queue.stale = True
                self.eager[queue] = None
            else:
                queue.read_at = -RECENT

    def turn(self) -> None:
        while self.answers or self.eager:
            while self.answers:
                queue, outcome = self.answers.popleft()
                queue.answered(outcome)
            eager, self.eager = self.eager, {}
            for queue in eager:
                queue.look()

    def find(self, number: int) -> tuple[Wish, str, list[Wish]] | None:
        """A request, why it waits, and how many are before it."""
        found = self._wishes.get(number)
        if found is None:
            return None
        wish = found[0]
        queue = self._find(wish.queue)
        before = list(itertools.takewhile(lambda other: other is not wish, queue.waiting))
        return wish, queue.blocked, before

    def holders(self, queue: str) -> list[Slot]:
        """The holders of places, as far as is known here."""
        found = self._find(queue)
        others = [share for engine, share in found.state.shares.items() if engine != self.home.engine]
        return [*found.held.values(), *[slot for share in others for slot in share.slots]]

    def _find(self, queue: str) -> _Queue:
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = _Queue(queue, self)
        return found

    # -- what queues ask for -------------------------------------------------------------------------------------------

    def admit(self, queue: _Queue, wishes: list[Wish], since: float) -> None:
        for wish in wishes:
            found = self._wishes.pop(wish.number, None)
            if found is None:  # it does not want any more; the next write says so
                self.eager[queue] = None
                continue
            self._places[wish.number] = wish
            queue.held[wish.number] = Slot(wish.run, wish.node, wish.key, since)
            found[1](wish.number)

    def waits(self, wish: Wish) -> bool:
        return wish.number in self._wishes

    def later(self, seconds: float, queue: _Queue) -> None:
        def look() -> None:
            self.eager[queue] = None

        self.loop.later(seconds, look)

    def write(self, queue: _Queue, request: WriteQueue) -> None:
        def answer(outcome: Outcome) -> None:
            self.answers.append((queue, outcome))
            self.loop.post(_nothing)

        self.home.journal.submit([request], answer)

    def give_up(self, queue: _Queue, error: OnceflowError) -> None:
        self.failed([wish.number for wish in queue.waiting], error)


class _Queue:
    """One of them."""

    def __init__(self, id: str, gate: Gate) -> None:
        self.id = id
        self.waiting = Waiting()
        self.held: dict[int, Slot] = {}
        """The places of this engine that their requesters know of."""
        self.blocked = ""
        """Why the first waiter has to wait."""
        self.state = State()
        self.stale = True
        """Whether the journal may have something else."""
        self.read_at = -RECENT
        self._gate = gate
        self._limits: Limits = NO_LIMITS
        self._version = 0
        self._writing: Decision | None = None
        self._changed = False
        """Whether a look was requested while something was being written."""
        self._looks_at: float | None = None
        """When it is looked at again by itself."""

    def look(self) -> None:
        """Admit the waiters that may be admitted."""
        if self._writing is not None:
            self._changed = True
            return
        gate = self._gate
        now = gate.now()
        if self.stale or (self._limits.unlimited and not 0 <= now - self.read_at < RECENT):
            self._read(now)
        if self._limits.unlimited:
            self.blocked = ""
            gate.admit(self, _emptied(self.waiting), now)
            return
        before = self._without_the_dead()
        decision = decide(self._limits, before, gate.home.engine, gate.host, self.held.values(), self.waiting, now)
        self.blocked = decision.blocked
        if decision.admitted or self._is_worth_writing(decision.state):
            self._writing = decision
            gate.write(self, WriteQueue(self.id, self._version, msgspec.msgpack.encode(decision.state)))
        else:
            self._look_again(decision)

    def answered(self, outcome: Outcome) -> None:
        decision, self._writing = self._writing, None
        assert decision is not None
        gate = self._gate
        if outcome.ok:
            self.state = decision.state
            self._version += 1
            gate.admit(self, decision.admitted, gate.now())
            for engine in decision.ring:
                gate.home.ring(engine)
            self._look_again(decision)
        else:
            for wish in reversed(decision.admitted):
                if gate.waits(wish):
                    self.waiting.put_back(wish)
            if isinstance(outcome.refusal, Failed):
                logger.error("queue %s cannot be written: %s", self.id, outcome.refusal.error)
                gate.give_up(self, outcome.refusal.error)
                return
            self.stale = True
            self._changed = True
        if self._changed:
            self._changed = False
            self.look()

    def _read(self, now: float) -> None:
        row: StandingRow | None = self._gate.home.journal.get_standing("queue", self.id)
        self.stale = False
        self.read_at = now
        self._limits, self.state, self._version = NO_LIMITS, State(), 0
        if row is not None:
            self._limits = defined(row).limits
            self.state = msgspec.msgpack.decode(row.state, type=State)
            self._version = row.version

    def _without_the_dead(self) -> State:
        """Places of engines that are gone are free. That is checked only if a waiter has to wait."""
        me, shares = self._gate.home.engine, self.state.shares
        if not self.waiting or shares.keys() <= {me}:
            return self.state
        left = {engine: share for engine, share in shares.items() if engine == me or not self._gate.is_gone(engine)}
        return self.state if len(left) == len(shares) else msgspec.structs.replace(self.state, shares=left)

    def _is_worth_writing(self, state: State) -> bool:
        """Whether others have to know of it. How many tokens there are follows from the time."""
        known, shares = self.state.shares, state.shares
        if state.offered != self.state.offered or known.keys() != shares.keys():
            return True
        return not all(share.says_the_same_as(known[engine]) for engine, share in shares.items())

    def _look_again(self, decision: Decision) -> None:
        if not self.waiting:
            return
        elsewhere = self.state.shares.keys() - {self._gate.home.engine}
        again = decision.again
        if elsewhere:
            again = LOOK if again is None else min(LOOK, again)
            self.stale = True
        now = self._gate.now()
        if again is not None and (self._looks_at is None or not now < self._looks_at <= now + again):
            self._looks_at = now + again
            self._gate.later(again, self)


def _emptied(waiting: Waiting) -> list[Wish]:
    wishes = list(waiting)
    for wish in wishes:
        waiting.take(wish)
    return wishes


def _nothing() -> None:
    """Posted to wake the loop."""
