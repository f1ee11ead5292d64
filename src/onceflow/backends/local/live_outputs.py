"""Outputs that stay in the memory of their worker.

Whether the memory of an output has no other references can only be seen when the call that made it is over: until then
its frames refer to it. So a value is first *offered*, by the call, and *settled* afterwards: it stays, or it is
written.

What stays is known by a number. When another process needs it, it is *published*: written, in the background, and from
then on the number stands for its place, so that jobs which were given the number find it all the same. It ends when the
pool says that it is not needed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

from onceflow.backends.local.messages import Outcome, Published
from onceflow.data.background import Chores
from onceflow.data.places import Live, Place
from onceflow.values import culprits
from onceflow.values.ownership import is_alone, may_be_alone
from onceflow.values.packed_outputs import Packed

WORTH_IT = 2 * 1024 * 1024
"""Bytes. To write less takes no longer than to ask for it later."""


class LiveValues:
    """`put` writes a value and says where. Values are offered and settled by the main thread; all else may come from
    any."""

    def __init__(self, put: Callable[[Packed], Place]) -> None:
        self._put = put
        self._numbers = itertools.count(int.from_bytes(os.urandom(5), "big") >> 2 << 24)  # unique
        self._values: dict[int, Packed | Place] = {}
        self.offered: dict[int, Packed] = {}
        """What is to be settled."""
        self._publisher = Chores()

    def offer(self, packed: Packed) -> Live | None:
        """None if it cannot stay."""
        views = packed.views
        if not views or packed.size < WORTH_IT or not packed.is_fixed or not all(map(may_be_alone, views)):
            return None
        live = Live(next(self._numbers), packed.size)
        self.offered[live.number] = packed
        return live

    def settle(self, outcome: Outcome) -> None:
        """Has what was offered stay, or writes it. Raises `OSError` if there is no room."""
        offered, self.offered = self.offered, {}
        for place, part in enumerate(outcome.parts):
            if isinstance(part, Live):
                packed = offered[part.number]
                if all(map(is_alone, packed.views)):
                    self._values[part.number] = packed
                else:
                    outcome.parts[place] = self._put(packed)

    def get(self, live: Live) -> Packed | Place:
        return self._values[live.number]

    def drop(self, live: Live) -> None:
        self._values.pop(live.number, None)

    def publish(self, number: int, tell: Callable[[Published], None]) -> None:
        """Writes it in the background and reports its place."""
        self._publisher.add(lambda: tell(self._publish(number)))

    def _publish(self, number: int) -> Published:
        value = self._values[number]
        if isinstance(value, Packed):
            try:
                self._values[number] = value = self._put(value)
            except (OSError, MemoryError) as error:
                return Published(number, None, culprits.told(error))
        return Published(number, value)
