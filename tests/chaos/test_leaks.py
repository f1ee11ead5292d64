"""An engine that lives long: neither runs nor dead workers leave anything behind in it."""

from __future__ import annotations

import json
from pathlib import Path

from onceflow.backends.local.forkserver import PORTER, WORKER
from tests.helpers.scripts import run_script

WARM_UP, MEASURED = 400, 400
"""Runs before the first measurement (until the database has filled its cache), and between the first and the second."""

PATIENCE = 10.0
"""Seconds that what is only there for the moment has to go. It needs some milliseconds."""

SCRIPT = f"""
import ctypes, gc, json, os, signal, time
from onceflow import Engine, TaskFailed, task
from onceflow.storage import blobs, rules
from tests.tools.chaos import kills

rules.Rows.MOST = blobs.MOST_SYNCED = 20  # what is remembered on purpose, up to a limit, is no leak

def take_back(number, output, key):
    pass

@task
def charge(number, *before):
    if number % 50 == 49 and not os.path.exists(f"died{{number}}"):
        open(f"died{{number}}", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return number

@task(rollback=take_back)
def book(number):
    return b"x" * (100_000 if number % 10 == 3 else 10)

@task
def refuse(number, *before):
    raise ValueError(number)

@task(can_rollback=True)
def grow(number):
    return charge.bind(number, book.bind(number))

@task
def meet(mine, other):
    open(mine, "w").close()
    while not os.path.exists(other):
        time.sleep(0.001)

@task
def part(*met):
    pass

def gather(engine, place):
    # A run may be over before a worker that died in it is replaced. These two need both, so then the engine has them.
    one, other = f"{{place}}-one", f"{{place}}-other"
    engine.run(part.bind(meet.bind(one, other), meet.bind(other, one)))

def play(engine, number):
    try:
        match number % 4:
            case 0: engine.run(charge.bind(number, book.bind(number)), name=f"run-{{number}}")
            case 1: engine.run(grow.bind(number))
            case 2: engine.run(refuse.bind(number, book.bind(number)), on_failure="undo")
            case 3: engine.run_async(charge.bind(number, book.bind(number))).result()
    except TaskFailed:
        pass

def measure():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    servers = kills.children(os.getpid())
    return {{
        "kilobytes": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "servers": len(servers),
        "others": sorted(kills.name_of(child) for server in servers for child in kills.children(server)),
        "objects": len(gc.get_objects()),
    }}

with Engine("home", workers=2, durability="process") as engine:
    for number in range({WARM_UP}):
        play(engine, number)
    gather(engine, "before")
    before = measure()
    for number in range({WARM_UP}, {WARM_UP + MEASURED}):
        play(engine, number)
    gather(engine, "after")
    deadline = time.monotonic() + {PATIENCE}
    while (after := measure())["threads"] > before["threads"] or after["descriptors"] > before["descriptors"]:
        if time.monotonic() > deadline:  # what goes by itself has gone
            break
    print(json.dumps([before, after]))
"""


def test_many_runs_leave_nothing_behind_in_their_engine(tmp_path: Path) -> None:
    before, after = json.loads(run_script(tmp_path, SCRIPT))
    assert after["descriptors"] <= before["descriptors"]
    assert after["threads"] <= before["threads"]
    assert after["servers"] == 1
    assert after["others"] == [PORTER, WORKER, WORKER]
    assert after["objects"] < before["objects"] + MEASURED / 2
    assert after["kilobytes"] < before["kilobytes"] + 1_000
