"""Objects that can be pickled and are themselves again, wherever they are loaded in the same process.

Tasks of a memory engine run in the process of the test, but what they are given is pickled, and so are local functions
with what they refer to. A world outside, or a clock, would be worth nothing as a copy.
"""

from __future__ import annotations

import itertools
from typing import Any
from weakref import WeakValueDictionary

from onceflow.errors import OnceflowError

_known: WeakValueDictionary[int, Itself] = WeakValueDictionary()
_numbers = itertools.count(1)


class Itself:
    def __init__(self) -> None:
        self._number = next(_numbers)
        _known[self._number] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _find, (type(self).__name__, self._number)


def _find(kind: str, number: int) -> Itself:
    found = _known.get(number)
    if found is None:
        raise OnceflowError(
            f"a {kind} lives in the process of the test that made it, and this is another one. Use it with a "
            "MemoryEngine, whose tasks run in that process."
        )
    return found
