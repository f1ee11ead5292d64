"""For `recovery`: the workflow of bench/workloads/_steps.py with DBOS.

The launch of DBOS picks up what was interrupted. The program then waits for the workflow, or starts it if there is
none.
"""

from __future__ import annotations

import os
import sys
import time

from dbos import DBOS, SetWorkflowID

from bench.peers import _dbos_database

STEPS = 100
SECONDS = 0.01


@DBOS.step()
def step(index: int, ledger: str, before: int | None) -> int:
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{index} {time.time()}\n".encode())
    os.close(file)
    time.sleep(SECONDS)
    return index


@DBOS.workflow()
def steps(ledger: str) -> int:
    before = None
    for index in range(STEPS):
        before = step(index, ledger, before)
    assert before is not None
    return before


def main() -> None:
    home, ledger = sys.argv[1:]
    os.makedirs(home, exist_ok=True)
    os.chdir(home)
    _dbos_database.configure()
    DBOS.launch()
    with SetWorkflowID("steps"):
        assert DBOS.start_workflow(steps, ledger).get_result() == STEPS - 1
    DBOS.destroy()
