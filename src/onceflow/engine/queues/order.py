"""The waiters for a place in a queue, in order: by priority, then by turns of runs, then as they came."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

Rank = tuple[int, float]
"""Sort key; the lower one goes first. Minus the priority, and since when it waits."""


class Wish(msgspec.Struct, frozen=True, gc=False):
    """A waiter."""

    number: int
    queue: str
    run: str
    node: str
    """Empty for a run as a whole."""
    key: str
    priority: int
    since: float

    @property
    def rank(self) -> Rank:
        return (-self.priority, self.since)


class Waiting:
    """The waiters for one queue in one engine."""

    def __init__(self) -> None:
        self._levels: dict[int, dict[tuple[str, str], dict[int, Wish]]] = {}
        """Priority → run and key → wishes, by their numbers. Whose turn it is comes first. None is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Wish]:
        """In about the order in which they go."""
        for priority in sorted(self._levels, reverse=True):
            groups = [list(group.values()) for group in self._levels[priority].values()]
            for turn in range(max(map(len, groups))):
                yield from [group[turn] for group in groups if turn < len(group)]

    def add(self, wish: Wish) -> None:
        level = self._levels.setdefault(wish.priority, {})
        level.setdefault((wish.run, wish.key), {})[wish.number] = wish
        self._count += 1

    def first(self, fits: Callable[[Wish], bool]) -> Wish | None:
        """The first that fits. Of those of one run and one key, if one does not fit, no other does."""
        for priority in sorted(self._levels, reverse=True):
            for group in self._levels[priority].values():
                wish = next(iter(group.values()))
                if fits(wish):
                    return wish
        return None

    def take(self, wish: Wish) -> None:
        """It has had its turn, so others of its priority come before the next one of its run."""
        level = self._levels[wish.priority]
        group = level.pop((wish.run, wish.key))
        del group[wish.number]
        self._count -= 1
        if group:
            level[wish.run, wish.key] = group
        elif not level:
            del self._levels[wish.priority]

    def put_back(self, wish: Wish) -> None:
        """It was taken without being admitted: it comes before all others of its priority."""
        level = self._levels.get(wish.priority, {})
        group = level.pop((wish.run, wish.key), {})
        self._levels[wish.priority] = {(wish.run, wish.key): {wish.number: wish, **group}, **level}
        self._count += 1

    def remove(self, wish: Wish) -> None:
        """It does not want any more. Harmless if it is not here."""
        group = self._levels.get(wish.priority, {}).get((wish.run, wish.key), {})
        if wish.number in group:
            self.take(wish)
