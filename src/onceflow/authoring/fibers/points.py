"""Points and versions of a durable function, as plain data that can be stored.

A **point** is a place where the function can be paused. A **version** is the function as it was at one time. A store of
snapshots keeps the versions that they mention beside them: with the source text a fiber can finish in the code in which
it began, and the points show whether newer code could take it over.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

ABI = 1
"""Of lowering and of the names in `rebuilding`. It grows when a snapshot of the old one could not be entered again by
the new one; the old one's snapshots must remain readable (tests/authoring/fibers/golden)."""

_GENERATED = re.compile(r"\b_F_t\d+_(?=[^\W\d])")
"""What stands before the variables of a comprehension."""


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    number: int
    """From 1, in source order."""
    line: int
    column: int
    text: str
    """The suspended expression, as it would be printed: `await Op('price', sku)`."""
    label: str | None
    shape: tuple[str, ...]
    """Enclosing constructs that hold state, outermost first: loops, `with`, handlers, `finally`."""
    hidden: tuple[tuple[str, str], ...]
    """Their state: role and variable. A snapshot has the values in this order, whatever the variables are called."""
    temporaries: tuple[str, ...]
    """Intermediate values of expressions. The same holds for them."""
    live: frozenset[str]
    """The user's variables that may be read later."""
    assigned: frozenset[str]
    """Those that certainly have a value."""
    holds: tuple[str, ...] | None = None
    """What the hidden values, and then the temporaries, are in the user's words: `for item in cart`, `total`. Then come
    the variables of comprehensions that inner functions share, which go by their generated names. None in versions
    that were stored before this was noted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    ref: str
    """`module:qualname`."""
    version: str
    """Equal for equal code on all Pythons, wherever in the file it stands."""
    abi: int
    source: str
    first_line: int
    file: str
    parameters: tuple[str, ...]
    captured: tuple[str, ...]
    points: tuple[Point, ...]

    def as_plain(self) -> dict[str, Any]:
        """For JSON."""
        plain = dataclasses.asdict(self)
        for point in plain["points"]:
            point["live"] = sorted(point["live"])
            point["assigned"] = sorted(point["assigned"])
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Version:
        points = tuple(
            Point(
                **{
                    **point,
                    "shape": tuple(point["shape"]),
                    "hidden": tuple((role, variable) for role, variable in point["hidden"]),
                    "temporaries": tuple(point["temporaries"]),
                    "live": frozenset(point["live"]),
                    "assigned": frozenset(point["assigned"]),
                    "text": without_generated(point["text"]),
                    "holds": None if point.get("holds") is None else tuple(point["holds"]),
                }
            )
            for point in plain["points"]
        )
        lists = {name: tuple(plain[name]) for name in ("parameters", "captured")}
        return cls(**{**plain, **lists, "points": points})


def without_generated(text: str) -> str:
    """With the user's own names of variables of comprehensions, also in texts that were stored before that was so."""
    return _GENERATED.sub("", text)
