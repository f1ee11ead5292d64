"""Planned faults: what fails, and when.

An attempt passes moments: *before* its function is called (what says that it has begun is durable by then); *after
effect*, when the function has returned or raised, and its outcome is unknown yet; *before save* and *after save*, on
both sides of the commit that makes its output durable. An undo has a *before* and an *after* of its own.

A fault names a task and a moment. The first attempts that meet it are hit, or those from the `nth` on. A fault that was
planned and never happened is most likely a typing error, and makes a test worthless: `unused` lists those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from onceflow.errors import InvalidOption

When = Literal["before", "after effect", "before save", "after save", "before undo", "after undo"]

Kind = Literal["crash", "cancel", "lose", "fail", "delay", "forget", "unsaved"]

AROUND_CALLS: tuple[When, ...] = ("before", "after effect", "before undo", "after undo")
"""The moments at which an attempt is somewhere, and not the journal."""


class Fault(msgspec.Struct):
    kind: Kind
    task: str
    """Name or id."""
    when: When
    told: str
    """How the test asked for it."""
    nth: int = 1
    """The first time that is hit."""
    times: int | None = 1
    """How many are hit; None for all."""
    data: Any = None
    met: int = 0
    hit: int = 0

    def hits(self) -> bool:
        self.met += 1
        if self.met < self.nth or (self.times is not None and self.hit >= self.times):
            return False
        self.hit += 1
        return True


class Replaced(msgspec.Struct):
    function: Callable[..., Any] | None
    rollback: Callable[..., Any] | None
    told: str
    called: bool = False


class Faults:
    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._replaced: dict[str, Replaced] = {}

    def add(self, fault: Fault, allowed: tuple[When, ...] = get_args(When)) -> None:
        if fault.when not in allowed:
            raise InvalidOption(
                "when", f"it is one of {', '.join(map(repr, allowed))}, not {fault.when!r}", kind="setting"
            )
        self._faults.append(fault)

    def replace(self, task: str, replaced: Replaced) -> None:
        self._replaced[task] = replaced

    def take(self, kind: Kind, when: When, task: str, name: str) -> Fault | None:
        """The fault that hits now, if one does."""
        for fault in self._faults:
            if fault.kind == kind and fault.when == when and fault.task in (task, name) and fault.hits():
                return fault
        return None

    def stand_in(self, task: str, name: str) -> Replaced | None:
        """What takes the place of a task's functions."""
        return self._replaced.get(task) or self._replaced.get(name) if self._replaced else None

    @property
    def any(self) -> bool:
        return bool(self._faults)

    def unused(self) -> list[str]:
        """Those that never happened, as the test asked for them."""
        return [fault.told for fault in self._faults if not fault.hit] + [
            replaced.told for replaced in self._replaced.values() if not replaced.called
        ]
