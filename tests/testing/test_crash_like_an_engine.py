"""A crash of the memory engine leads to the same as `kill -9` of a real one: the same calls in the same order."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from onceflow.testing import MemoryEngine
from tests.helpers.scripts import run_script, start_script
from tests.helpers.traces import traces
from tests.helpers.waiting import LONG
from tests.testing.crashing import trip

SCRIPT = """
    import os, sys
    from onceflow import run
    from tests.testing.crashing import trip
    if len(sys.argv) > 1:
        open("kill", "w").write(f"{sys.argv[1]} {os.getpid()}")
    print(run(trip.bind(os.getcwd()), name="trip"))
"""


# Not at `look`: it has no effect and does not wait for saves, so in a real engine it may run ahead of that of `book`.
@pytest.mark.parametrize("task", ["book", "pay"])
def test_after_a_crash_the_same_is_called_in_the_same_order(task: str, tmp_path: Path) -> None:
    # given a real engine that is killed
    real, memory = tmp_path / "real", tmp_path / "memory"
    real.mkdir()
    memory.mkdir()
    process = start_script(real, SCRIPT, task)
    process.communicate(timeout=LONG)
    assert process.returncode == -signal.SIGKILL
    # and a memory engine that crashes there
    with MemoryEngine() as engine:
        engine.crash_at(task, "after effect")
        # when both go on
        result = engine.run(trip.bind(str(memory)), name="trip")
    # then
    assert run_script(real, SCRIPT) == f"{result}\n"
    assert traces(real / "traces") == traces(memory / "traces")
    assert traces(memory / "traces").count(task) == 2
