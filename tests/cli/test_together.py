"""Many commands at once, in several processes, on one home directory."""

import subprocess
import sys

import pytest

from onceflow.engine.statuses import ENDED
from tests.cli.common import ENVIRONMENT


def give_commands(onceflow, processes, count):
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.cli.together", str(onceflow.home), str(seed), str(count)],
            env={**ENVIRONMENT, "ONCEFLOW_WORKERS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for seed in range(processes)
    ]
    try:
        for process in started:
            told, _ = process.communicate(timeout=500)
            assert process.returncode == 0, told
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.communicate()


def in_order(onceflow):
    """Nothing is left half done."""
    runs = onceflow.json("ls")
    assert {run["status"] for run in runs} <= set(ENDED)
    assert len({run["name"] for run in runs}) == len(runs)
    for run in runs:
        shown = onceflow.json("show", run["id"])
        assert shown["problem"] is None
        if run["status"] == "succeeded":
            assert {task["state"] for task in shown["tasks"]} == {"done"}
            onceflow("output", run["id"])
    assert onceflow.json("doctor")["ok"]


def test_random_commands_of_three_processes_leave_everything_in_order(fresh):
    give_commands(fresh, processes=3, count=6)
    in_order(fresh)


@pytest.mark.soak
def test_200_random_commands_of_four_processes_leave_everything_in_order(fresh):
    give_commands(fresh, processes=4, count=50)
    in_order(fresh)
