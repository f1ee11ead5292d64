"""The process that books a trip, and kills itself at its point if it has one.

It is an ordinary program: an engine, and a run with a name. It does not know how often it was started before. It
reports what happens on its standard output, a line of JSON at a time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import msgspec

from onceflow import Engine, TaskFailed
from onceflow.errors import NoOutput, NoSuchRun
from onceflow.testing.demo import points
from onceflow.testing.demo.trips import CITIES, trip

HOME = "home"
WORKERS = 2
PAUSE = 0.005
"""Seconds between two looks whether something is saved."""


class Happened(msgspec.Struct, tag=True):
    """An event of the run."""

    kind: str
    task: str


class Came(msgspec.Struct, tag=True):
    """How the run came out."""

    status: str
    text: str


Line = Happened | Came


def main(folder: Path, user: str) -> None:
    os.environ[points.ENGINE] = str(os.getpid())
    with Engine(folder / HOME, workers=WORKERS) as engine:
        point = points.armed()
        if point is not None and point.moment == "saved":
            threading.Thread(target=_kill_when_saved, args=(engine, user, point.task), daemon=True).start()
        handle = engine.run_async(trip.bind(str(folder), user, CITIES[user]), name=user, on_failure="undo")
        for event in handle:
            _tell(Happened(event.kind, event.task))
        try:
            text = handle.result()
        except TaskFailed as failure:
            text = str(failure.__cause__)
        _tell(Came(handle.status, text))


def _tell(line: Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def _kill_when_saved(engine: Engine, run: str, task: str) -> None:
    while True:
        try:
            engine.get_output(run, task)
        except (NoOutput, NoSuchRun):
            time.sleep(PAUSE)
        else:
            points.kill_everything(os.getpid())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
