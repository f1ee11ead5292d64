"""Which waiters hold a place in a queue, according to the journal, and which get the next one.

All engines that share a journal see one `State` of each queue: for each engine the places that it holds, and the first
of those that wait there. It changes from version to version (`storage.journal`): an engine reads it, decides, and
writes what follows; if another engine was quicker it is refused, and decides again. So what is decided here is a pure
function of the state, of what waits, and of the time.

A place belongs to an engine. If that is dead, together with all its workers, its places are free. Rates are buckets of
tokens: each place that is taken costs one, and they come back as time goes by, as many as the rate says.

**Whose turn it is.** A higher priority goes first, wherever it waits; among equals the one that has waited longest. An
engine that finds a waiter of another engine before its own leaves a free place to that one (`offered`), and rings. A
waiter that does not take it for a while (`PATIENCE`) may not be able to, because of limits for keys or hosts: then
others go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec

from onceflow.engine.queues.limits import Limits
from onceflow.engine.queues.order import Rank, Waiting, Wish

PATIENCE = 0.5
"""Seconds for which a free place is left to a waiter of another engine that is before others."""


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """A place that is taken."""

    run: str
    node: str
    """Empty for a run as a whole."""
    key: str
    since: float


class Share(msgspec.Struct, frozen=True, array_like=True):
    """What an engine has of a queue."""

    host: str
    slots: tuple[Slot, ...] = ()
    waiting: int = 0
    """How many wait there, roughly."""
    first: Rank | None = None
    """Of those, if others have to know."""

    def says_the_same_as(self, other: Share) -> bool:
        return (self.slots, self.first) == (other.slots, other.first) and (
            self.waiting.bit_length() == other.waiting.bit_length()
        )


class Offer(msgspec.Struct, frozen=True, array_like=True):
    engine: str
    until: float


class State(msgspec.Struct, frozen=True):
    shares: Mapping[str, Share] = {}
    """Engine → what it has."""
    tokens: float | None = None
    """None if there was no request since there is a rate."""
    at: float = 0.0
    """When there were so many tokens."""
    offered: Offer | None = None


class Decision(msgspec.Struct, frozen=True):
    state: State
    admitted: list[Wish]
    again: float | None = None
    """When to look again, in seconds from now, if nothing happens."""
    blocked: str = ""
    """Why the first waiter has to wait, for users."""
    ring: frozenset[str] = frozenset()
    """Engines for which there may be something now."""


def decide(
    limits: Limits, before: State, me: str, host: str, held: Collection[Slot], waiting: Waiting, now: float
) -> Decision:
    """The next state of a queue in which this engine holds these places, and in which those wait. Admitted waiters are
    removed from `order`."""
    others = {engine: share for engine, share in before.shares.items() if engine != me}
    room = _Room(limits, before, others, host, held, now)
    admitted: list[Wish] = []
    rival = min([(share.first, engine) for engine, share in others.items() if share.first is not None], default=None)
    offered = None if before.offered is None or before.offered.engine == me else before.offered
    while (wish := waiting.first(room.has_room_for)) is not None:
        if rival is not None and rival[0] < wish.rank and (offered is None or now < offered.until):
            offered = offered or Offer(rival[1], now + PATIENCE)
            break
        waiting.take(wish)
        room.take(wish)
        admitted.append(wish)
        offered = None
    slots = (*held, *[Slot(wish.run, wish.node, wish.key, now) for wish in admitted])
    first = waiting.first(lambda _: True)
    shares = dict(others)
    if slots or first is not None:
        shares[me] = Share(host, slots, len(waiting), first.rank if first is not None and others else None)
    state = State(shares, room.tokens, room.at, offered)
    left = before.shares.get(me)
    freed = left is not None and len(left.slots) > len(slots)
    ring = {engine for engine, share in others.items() if share.first is not None} if freed else set()
    if offered is not None and offered != before.offered:
        ring.add(offered.engine)
    again = room.again if first is not None else None
    if offered is not None and first is not None:
        again = min(max(0.0, offered.until - now) + 0.001, PATIENCE if again is None else again)
    return Decision(state, admitted, again, room.blocked if first is not None else "", frozenset(ring))


class _Room:
    """How much there is left."""

    def __init__(
        self,
        limits: Limits,
        before: State,
        others: Mapping[str, Share],
        host: str,
        held: Collection[Slot],
        now: float,
    ) -> None:
        self._limits = limits
        self._total = len(held) + sum([len(share.slots) for share in others.values()])
        self._here = len(held) + sum([len(share.slots) for share in others.values() if share.host == host])
        self._keys = Counter([slot.key for slot in held])
        self._elsewhere = bool(others)
        for share in others.values():
            self._keys.update([slot.key for slot in share.slots])
        self.tokens, self.at = None, 0.0
        if limits.rate is not None:
            full = before.tokens is None
            self.tokens = limits.rate.burst if full else limits.rate.refilled(before.tokens or 0.0, now - before.at)
            self.at = now
        self.blocked = ""
        self.again: float | None = None

    def has_room_for(self, wish: Wish) -> bool:
        limits = self._limits
        if limits.paused:
            self.blocked = "it is paused"
        elif limits.concurrency is not None and self._total >= limits.concurrency:
            self.blocked = f"{limits.concurrency} may go on at a time, and so many do"
        elif limits.per_host is not None and self._here >= limits.per_host:
            self.blocked = f"{limits.per_host} may go on at a time on one host, and so many do"
        elif limits.per_key is not None and self._keys[wish.key] >= limits.per_key:
            self.blocked = f"{limits.per_key} of key {wish.key!r} may go on at a time, and so many do"
        elif limits.rate is not None and self.tokens is not None and self.tokens < 1.0:
            self.blocked = f"its rate is {limits.rate.text}"
            self.again = limits.rate.until(self.tokens)
        else:
            return True
        return False

    def take(self, wish: Wish) -> None:
        self._total += 1
        self._here += 1
        self._keys[wish.key] += 1
        if self.tokens is not None:
            self.tokens -= 1.0
