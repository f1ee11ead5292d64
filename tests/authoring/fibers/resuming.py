"""The other process: loads parked fibers from a file, runs each to its end, and tells what came of it."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any, NamedTuple

from onceflow.authoring.fibers import Fiber
from tests.authoring.fibers import comparing, world


class Parked(NamedTuple):
    module: str
    case: str
    number: int
    """Of the await, counted from 0 in the order in which they happen."""
    logged: int
    """Entries of the log before it was saved."""
    data: bytes


class Resumed(NamedTuple):
    case: str
    number: int
    outcome: tuple[str, Any, list[str]]


def finish(parked: Parked) -> Resumed:
    world.entries.clear()
    fiber = Fiber.loads(parked.data)
    while not fiber.done:
        world.answer(fiber)
    function = getattr(comparing.durable_module(parked.module), parked.case)
    outcome = comparing.outcome_of(lambda: comparing.ended(fiber), comparing.file_of(function))
    return Resumed(parked.case, parked.number, tuple(outcome))


def main(source: str, target: str) -> None:
    resumed = [finish(Parked(*each)) for each in pickle.loads(Path(source).read_bytes())]
    Path(target).write_bytes(pickle.dumps([tuple(each) for each in resumed]))


if __name__ == "__main__":
    main(*sys.argv[1:])
