"""References inside outputs (design 2.7), as the law sees them: every distinct ref in an output is one more part of it.

A node has its declared parts `0 … n-1`, the values. When an attempt finishes, it reports which refs its output holds:
they are the **ref parts** `n, n+1, …`, in the order in which they are reported. How many there are is not known before,
and may be another number when a task runs again that is not deterministic. A task that returned a graph has one
declared part, the graph (part 0); its ref parts are numbered from `n` as well.

A ref was either **made** by the attempt, or it **came in** through an input. Then it shares its object with its origin,
a part of a direct parent, which may itself have an origin, and so on up to the task that made it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class RefPart(msgspec.Struct, frozen=True, gc=False):
    """One ref in an output. A deterministic task that runs again numbers equal refs alike, so refs are reported in an
    order that does not depend on hashes: those made in the order in which they were made, say, then those that came
    in."""

    holders: int
    """Mask of the declared parts that hold it, directly or inside a value behind another ref."""
    origin: tuple[str, int] | None = None
    """Where it came in: (direct parent, part of its output), a ref part or, for `onceflow.ref(node)`, a declared one.
    None if the attempt made it."""
    actor: bool = False
    """Whether it is a version of an actor (`rules.objects`). The row that returns one has made it, and one declared
    part holds it."""


def bits(mask: int) -> Iterator[int]:
    """The numbers of the parts in a mask."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
