"""`kill -9` of everything in the middle of a long workflow."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.helpers.scripts import run_script, started
from tests.helpers.traces import traces
from tests.helpers.waiting import until
from tests.tools.chaos import kills

STEPS = 100

SCRIPT = f"""
from onceflow import run, task
from tests.helpers.traces import note

@task
def step(number, before):
    note("steps", number)
    return number

node = None
for number in range({STEPS}):
    node = step.bind(number, node)
print(run(node, name="long"))
"""


@pytest.mark.parametrize("seed", range(3))
def test_at_most_one_step_runs_again(seed: int, tmp_path: Path) -> None:
    # given
    when = Random(seed).randrange(5, STEPS - 20)
    with started(tmp_path, SCRIPT) as process:
        until(lambda: len(traces(tmp_path / "steps")) >= when)
        # when
        kills.assassinate(process.pid, "all", lambda: process.poll() is None)
        process.wait()
    before = len(traces(tmp_path / "steps"))
    assert before < STEPS, "it was killed too late to show anything"
    # then
    assert run_script(tmp_path, SCRIPT) == f"{STEPS - 1}\n"
    counts = Counter(traces(tmp_path / "steps"))
    assert set(counts) == {str(number) for number in range(STEPS)}
    assert counts.total() <= STEPS + 1
