"""The training pipeline of examples/training.py, in the four modes of ExoFlow's evaluation (section 6.1): what saving
costs if nothing fails.

Modes take turns, so that what else the machine does hits all of them. Each time is put beside that of the same round
without saves.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

from bench.rows import Row
from bench.workloads._measuring import most
from onceflow import Engine

EXAMPLE = Path(__file__).parents[2] / "examples" / "training.py"
EPOCHS, IMAGES = 25, 8_000
ROUNDS = 5
MODES = ("none", "selective", "async", "sync")
MOST_SELECTIVE = 1.05
"""Times as long as without saves."""


def measure() -> list[Row]:
    example = _load()
    seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
    weights = set()
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder) / "home", workers=2) as engine:
        engine.run(example.training.bind(2, IMAGES))
        for _ in range(ROUNDS):
            for mode in MODES:
                started = time.perf_counter()
                weights.add(engine.run(example.training.bind(EPOCHS, IMAGES, mode)))
                seconds[mode].append(time.perf_counter() - started)
    assert len(weights) == 1, f"the weights depend on what was saved: {weights}"
    rows = [most(f"{mode}: {EPOCHS} epochs", seconds[mode], "s") for mode in MODES]
    for mode in MODES[1:]:
        ratios = [ours / none for ours, none in zip(seconds[mode], seconds["none"], strict=True)]
        limit = MOST_SELECTIVE if mode == "selective" else None
        rows.append(most(f"{mode}, against none", ratios, "×", limit, f"{statistics.mean(ratios):.2f} on average"))
    return rows


def _load() -> ModuleType:
    """As a module that workers find."""
    sys.path.insert(0, str(EXAMPLE.parent))
    return importlib.import_module("training")
