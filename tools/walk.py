#!/usr/bin/env python3
"""The way of one trivial task through a warm engine: how many calls, in how many files, and how often the next call is
in another file than the one before it.

Someone who reads the code to follow a task makes as many jumps. Counted are calls of functions of onceflow in the
engine's process, each thread for itself; workers are not counted. The figures are means over many runs.

    python tools/walk.py [--runs 200] [--most 250] [--files]

Exit status: 1 if there are more changes of file than `--most`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import onceflow
from onceflow import Engine, task

PACKAGE = str(Path(onceflow.__file__).parent)
WARM_UP = 50


class Walk:
    """A profiler (`sys.setprofile`) of all threads that start after it."""

    def __init__(self) -> None:
        self.calls = 0
        self.changes = 0
        self.files: Counter[str] = Counter()
        """File → how often the walk comes to it from another one."""
        self.counts = False
        self._place = threading.local()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if not self.counts or event != "call" or not file.startswith(PACKAGE):
            return
        self.calls += 1
        if getattr(self._place, "file", None) != file:
            self._place.file = file
            self.changes += 1
            self.files[file.removeprefix(PACKAGE + "/")] += 1


@task
def echo(value: int) -> int:
    return value


def follow(walk: Walk, runs: int, run: Callable[[int], object]) -> None:
    for number in range(WARM_UP):
        run(number)
    walk.counts = True
    for number in range(runs):
        run(number)
    walk.counts = False


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--most", type=int, help="changes of file that are allowed")
    parser.add_argument("--files", action="store_true", help="list the files")
    options = parser.parse_args()
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        with tempfile.TemporaryDirectory() as folder, Engine(Path(folder) / "home", workers=1) as engine:
            follow(walk, options.runs, lambda number: engine.run(echo.bind(number)))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    changes = walk.changes / options.runs
    regular = [file for file, count in walk.files.items() if count >= options.runs]
    if options.files:
        for file in sorted(regular, key=lambda file: -walk.files[file]):
            print(f"{walk.files[file] / options.runs:6.1f}  {file}")
    print(f"{walk.calls / options.runs:.0f} calls in {len(regular)} files, {changes:.0f} changes of file")
    return 1 if options.most is not None and changes > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
