"""What ran and what was undone, in order; and assertions about it whose messages give the whole history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, overload

import msgspec

AnyTask = object
"""A task, its name, or its id in a graph."""

Outcome = Literal["running", "finished", "raised", "timed out", "stopped", "lost", "crashed"]
"""The outcome of an attempt. `stopped`: it was cancelled. `lost`: its worker died. `crashed`: the engine died, and with
it whatever the attempt had to report."""


class Attempt(msgspec.Struct, frozen=True):
    """A call of a task's function, or of the function that takes it back."""

    run: str
    """The run's id."""
    task: str
    """Its id in the graph: its name, or `name_1`, `name_2`, …"""
    name: str
    """The name of the task."""
    attempt: str
    """`epoch.number`, as `current().attempt` has it."""
    key: str
    """The idempotency key."""
    undo: bool
    started: float
    ended: float
    """Seconds since 1970, by the engine's clock."""
    outcome: Outcome = "running"
    error: str = ""
    """The exception that it raised."""

    def __str__(self) -> str:
        what = "undo of " if self.undo else ""
        return f"{what}{self.task}, attempt {self.attempt}: {self.outcome}{f' ({self.error})' if self.error else ''}"


def name_of(task: AnyTask) -> str:
    """What to look for: a task's name, or what was given if that is a text."""
    name = task if isinstance(task, str) else getattr(task, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"a task, its name or its id is needed here, not {task!r}")
    return name


class Attempts(Sequence[Attempt]):
    """Attempts in the order in which they began.

    engine.ran.tasks                    # ['quote', 'charge', 'charge']
    engine.ran.times("charge")          # 2
    engine.ran.of(charge)[0].outcome    # 'raised'
    """

    def __init__(self, attempts: Iterable[Attempt]) -> None:
        self._attempts = list(attempts)

    @property
    def tasks(self) -> list[str]:
        """The ids of the tasks."""
        return [attempt.task for attempt in self._attempts]

    def of(self, *tasks: AnyTask) -> Attempts:
        """Those of these tasks only."""
        names = {name_of(task) for task in tasks}
        return Attempts(attempt for attempt in self._attempts if attempt.task in names or attempt.name in names)

    def times(self, task: AnyTask) -> int:
        """How many attempts of this task there were."""
        return len(self.of(task))

    @overload
    def __getitem__(self, index: int) -> Attempt: ...
    @overload
    def __getitem__(self, index: slice) -> Attempts: ...
    def __getitem__(self, index: int | slice) -> Attempt | Attempts:
        return Attempts(self._attempts[index]) if isinstance(index, slice) else self._attempts[index]

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._attempts)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Attempts, list)) else NotImplemented

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{len(self)} attempts: {', '.join(self.tasks)}>"


class Record:
    """Everything that an engine has done."""

    def __init__(self) -> None:
        self._lines: list[Attempt | str] = []
        """Attempts, and what happened between them."""

    def begin(self, attempt: Attempt) -> int:
        self._lines.append(attempt)
        return len(self._lines) - 1

    def end(self, number: int, outcome: Outcome, ended: float, error: str = "") -> None:
        attempt = self._lines[number]
        assert isinstance(attempt, Attempt)
        self._lines[number] = msgspec.structs.replace(attempt, outcome=outcome, ended=ended, error=error)

    def note(self, line: str) -> None:
        self._lines.append(line)

    def attempts(self, *, undo: bool) -> Attempts:
        return Attempts(line for line in self._lines if isinstance(line, Attempt) and line.undo == undo)

    def story(self) -> str:
        """The whole record, as text."""
        if not self._lines:
            return "nothing ran"
        return "\n".join(f"{number:3}. {line}" for number, line in enumerate(self._lines, 1))

    # -- assertions ----------------------------------------------------------------------------------------------------

    def assert_happened(self, kind: str, found: Attempts, tasks: Sequence[AnyTask], in_order: bool, times: int) -> None:
        """`times` is 0 for any number above that."""
        __tracebackhide__ = True
        for task in tasks:
            count = found.times(task)
            if not count:
                self._fail(f"{name_of(task)} was never {kind}")
            if times and count != times:
                self._fail(f"{name_of(task)} was {kind} {_times(count)}, not {_times(times)}")
        if in_order:
            self._assert_order(kind, found, [name_of(task) for task in tasks])

    def assert_never(self, kind: str, found: Attempts, tasks: Sequence[AnyTask]) -> None:
        """With no tasks given: none at all."""
        __tracebackhide__ = True
        for task in tasks:
            if count := found.times(task):
                self._fail(f"{name_of(task)} was {kind} {_times(count)}")
        if not tasks and found:
            self._fail(f"{', '.join(dict.fromkeys(found.tasks))} {'was' if len(found) == 1 else 'were'} {kind}")

    def _assert_order(self, kind: str, found: Attempts, names: list[str]) -> None:
        __tracebackhide__ = True
        rest = iter(found)
        for number, name in enumerate(names):
            if not any(name in (attempt.task, attempt.name) for attempt in rest):
                self._fail(f"{name} was not {kind} after {names[number - 1]}")

    def _fail(self, problem: str) -> None:
        __tracebackhide__ = True
        raise AssertionError(f"{problem}. What happened:\n{self.story()}")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
