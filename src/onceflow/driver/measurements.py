"""Measurements: what each attempt took, on the way into the journal and back.

They ride. Those that wait are one entry of a batch that is written anyway, as soon as one of them took so long, or they
are so many, that an entry costs nothing in comparison; the last ones are part of the entry that ends the run. Nothing
waits for them, a crash may take some of them, and nothing that a run decides depends on them: they are the history that
estimates and statistics are made of.

In the journal an attempt is a short row of whole numbers (see `_Row`), with times in microseconds since the first start
in the entry: a dozen bytes and the name of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import msgspec

from onceflow.core.rules.state import EPOCH_BITS
from onceflow.driver.work import Work
from onceflow.storage.journal import Entry

MEASURED = "measured"
"""The kind of entries that consist of measurements."""

KINDS = (MEASURED, "finished")
"""The kinds of entries that may have some."""

LONG = 0.01
"""Seconds. An attempt that took longer rides on the very next batch."""

ENOUGH_WAITING = 32
"""Attempts that ride on the next batch however short they were."""

MOST_WAITING = 10_000
"""Attempts that are remembered until the next batch. What comes beyond that is lost."""

Outcome = Literal["finished", "raised", "lost", "stopped"]
"""The outcome of an attempt. `lost`: its worker died."""

FINISHED, RAISED, LOST, STOPPED = range(4)
"""Places in `OUTCOMES`."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_UNDO = 4
"""Added to the outcome of an undo."""

_MICROSECONDS = 1_000_000

_Row = tuple[str, int, int, int, int, int, int, int]
"""Node, place of its task, number of the attempt in its epoch, start (-1 if unknown), duration, worker, bytes,
outcome."""

_Body = tuple[int, int, list[str], list[_Row]]
"""Epoch, microseconds of the first start since 1970, names of tasks, rows."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode


class Measurement(msgspec.Struct, frozen=True, gc=False):
    """An attempt that came to its end."""

    node: str
    task: str
    attempt: int
    started: float
    """Seconds since 1970; 0 if unknown, because it was lost or stopped."""
    seconds: float
    worker: int
    """A process id, or 0."""
    bytes: int
    """Of its output."""
    outcome: Outcome
    undo: bool = False

    @property
    def ended(self) -> float:
        return self.started + self.seconds


class Measurements(msgspec.Struct):
    """Those of one driver that no batch has taken yet."""

    due: bool = False
    """Whether the next batch takes them."""
    waiting: list[tuple[str, str, int, float, float, int, int, int]] = []

    def add(self, work: Work, outcome: int, started: float, ended: float, worker: int, size: int) -> None:
        count = len(self.waiting)
        if count < MOST_WAITING:
            if ended - started > LONG or count >= ENOUGH_WAITING:
                self.due = True
            outcome += _UNDO if work.undo else 0
            self.waiting.append((work.node, work.task, work.attempt, started, ended, worker, size, outcome))

    def take(self, epoch: int) -> bytes | None:
        """All of them, as the journal keeps them."""
        if not self.waiting:
            return None
        waiting, self.waiting, self.due = self.waiting, [], False
        first = min([row[3] for row in waiting if row[3]], default=0.0)
        mask = (1 << EPOCH_BITS) - 1
        tasks: dict[str, int] = {}
        rows: list[_Row] = [
            (
                node,
                tasks.setdefault(task, len(tasks)),
                attempt & mask,
                int((started - first) * _MICROSECONDS) if started else -1,
                max(0, int((ended - started) * _MICROSECONDS)),
                worker,
                size,
                outcome,
            )
            for node, task, attempt, started, ended, worker, size, outcome in waiting
        ]
        return _encode((epoch, int(first * _MICROSECONDS), list(tasks), rows))


def read(entries: Iterable[Entry]) -> Iterator[Measurement]:
    """The attempts in entries of `KINDS`."""
    for entry in entries:
        stored = entry.body if entry.kind == MEASURED else entry.value
        if stored is None:
            continue
        epoch, first, tasks, rows = _decode(stored)
        for node, task, number, start, duration, worker, size, outcome in rows:
            yield Measurement(
                node=node,
                task=tasks[task],
                attempt=epoch << EPOCH_BITS | number,
                started=(first + start) / _MICROSECONDS if start >= 0 else 0.0,
                seconds=duration / _MICROSECONDS,
                worker=worker,
                bytes=size,
                outcome=OUTCOMES[outcome % _UNDO],
                undo=outcome >= _UNDO,
            )
