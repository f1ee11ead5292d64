"""Loops: how many no-op items a second, how much memory a million of them take, and how many run twice after `kill -9`.

The items are the numbers of a range, so a loop is submitted with a few bytes, and its result is a list of numbers. The
memory is the most that the process of the program and its engine has ever had. The loop that is killed has chunks
of ten items and four chunks in flight: what was in flight runs again, and nothing else may.
"""

from __future__ import annotations

import collections
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import processes, programs
from bench.rows import Row
from bench.workloads import _looping, _measuring, _rates
from onceflow import Engine, for_each

ITEMS = 100_000
MANY = 1_000_000
KILLS = 3

LEAST_PURE = 20_000
LEAST_SAVED = 8_000
"""Items a second."""

MOST_MEGABYTES = 300.0
MOST_AGAIN = _looping.CHUNK * _looping.LIMIT
PATIENCE = 60.0

PROGRAM = ["-c", "from bench.workloads import _looping; _looping.main()"]


def loop(kind: Any, **options: Any) -> _rates.Work:
    def work(engine: Engine) -> None:
        assert len(engine.run(for_each(kind, range(ITEMS), **options))) == ITEMS

    return work


def warm_up(engine: Engine) -> None:
    for kind in (_looping.pure, _looping.saved):
        engine.run(for_each(kind, range(1_000)))


def _megabytes(folder: Path, kind: str) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as home:
        program = _measuring.start([*PROGRAM, "many", home, kind, str(MANY)], folder, stdout=subprocess.PIPE)
        told, _ = program.communicate()
        if program.returncode:
            raise programs.Failed(f"the loop over {MANY:,} items ended with status {program.returncode}")
    return float(told)


def _items_that_ran_twice(folder: Path, choose: random.Random) -> int:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        ledger = Path(place) / "ledger"
        command = [*PROGRAM, "ledger", Path(place) / "home", ledger]
        program = _measuring.start(command, folder)
        wanted = choose.randrange(_looping.ITEMS // 4, _looping.ITEMS * 3 // 4)
        until = time.monotonic() + PATIENCE
        while len(_read(ledger)) < wanted:
            if program.poll() is not None or time.monotonic() > until:
                raise programs.Failed(f"the program did not come to item {wanted}")
            time.sleep(0.001)
        processes.kill({program.pid, *processes.descendants(program.pid)})
        program.wait()
        if _measuring.start(command, folder).wait(PATIENCE):
            raise programs.Failed("the program failed after it was killed")
        counts = collections.Counter(_read(ledger))
    if len(counts) != _looping.ITEMS:
        raise programs.Failed(f"of {_looping.ITEMS} items {len(counts)} ran")
    return counts.total() - len(counts)


def _read(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


def measure() -> list[Row]:
    groups = [
        _rates.Limited({f"{ITEMS:,} items, unsaved": loop(_looping.pure)}, ITEMS, "item", LEAST_PURE),
        _rates.Limited({f"{ITEMS:,} items, saved": loop(_looping.saved)}, ITEMS, "item", LEAST_SAVED),
    ]
    rows = _rates.measured(groups, warm_up)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for kind, told in (("pure", "unsaved"), ("saved", "saved")):
            name = f"{MANY:,} items, {told}: most memory of the engine's process"
            rows.append(_measuring.most(name, [_megabytes(folder, kind)], "MB", MOST_MEGABYTES))
        if processes.PROCESSES.is_dir():
            choose = random.Random(3)
            again = [_items_that_ran_twice(folder, choose) for _ in range(KILLS)]
            rows.append(_measuring.most("items that ran twice after kill -9", again, "items", MOST_AGAIN))
    return rows
