"""Two engines that want the same run, and an engine that takes over what a dead one left in the middle."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from onceflow import Engine, task
from onceflow.engine.submission import new_id, prepare
from onceflow.storage.home import Home
from onceflow.storage.journal import CreateRun, commit
from tests.helpers.doors import Door, knock
from tests.helpers.scripts import started
from tests.helpers.traces import note, traces
from tests.tools.chaos import kills
from tests.tools.chaos.ledger import Ledger, create

ROUNDS = 25
ENGINES = 2

RACER = """
import sys
from onceflow import Engine
from tests.chaos.test_racing import chain

with Engine("home", durability="process", workers=1) as engine:
    print("ready", flush=True)
    for line in sys.stdin:
        how, name, count = line.split()
        print(engine.resume(name) if how == "resume" else engine.run(chain(int(count)), name=name), flush=True)
"""


@task
def first(count: int) -> str:
    note("effects", f"first {count} by {os.getppid()}")
    return os.urandom(4).hex()


@task
def then(before: str, count: int) -> str:
    note("effects", f"then {count} {before} by {os.getppid()}")
    return before


def chain(count: int) -> Any:
    return then.bind(then.bind(first.bind(count), count), count)


@contextlib.contextmanager
def racers(folder: Path) -> Iterator[list[Any]]:
    """Engines that wait for the start."""
    with contextlib.ExitStack() as stack:
        processes = []
        for number in range(ENGINES):
            script = folder / f"racer{number}.py"
            script.write_text(RACER)
            pipe = subprocess.PIPE
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, script], cwd=folder, env=environment, stdin=pipe, stdout=pipe, text=True
                )
            )
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        yield processes
        for process in processes:
            process.stdin.close()
            assert process.wait(timeout=60) == 0


def race(processes: list[Any], hows: list[str], name: str, count: int) -> list[str]:
    """Gives the start to all of them. Returns what each of them brings back."""
    for process, how in zip(processes, hows, strict=True):
        process.stdin.write(f"{how} {name} {count}\n")
    for process in processes:
        process.stdin.flush()
    return [process.stdout.readline().strip() for process in processes]


def check_race(folder: Path, results: list[str], name: str, count: int, epoch: int) -> str:
    """The engine (its fork server) that won."""
    assert len(set(results)) == 1
    assert results[0]
    told = [line for line in traces(folder / "effects") if line.split()[1] == str(count)]
    assert Counter(line.split()[0] for line in told) == {"first": 1, "then": 2}
    winners = {line.rpartition(" ")[2] for line in told}
    assert len(winners) == 1
    with Home(folder / "home") as home:
        row = home.journal.find_name(name)
    assert row is not None
    assert (row.status, row.epoch) == ("succeeded", epoch)
    return winners.pop()


def test_of_two_engines_that_start_a_run_under_one_name_one_drives(tmp_path: Path) -> None:
    random = Random(1)
    with racers(tmp_path) as processes:
        for count in range(ROUNDS):
            random.shuffle(processes)
            results = race(processes, ["run", "run"], f"race-{count}", count)
            check_race(tmp_path, results, f"race-{count}", count, epoch=1)


def test_of_two_engines_that_go_on_with_an_interrupted_run_one_drives(tmp_path: Path) -> None:
    random = Random(2)
    with racers(tmp_path) as processes, Home(tmp_path / "home") as home:
        for count in range(ROUNDS):
            # given: a run whose engine is dead
            name = f"race-{count}"
            settings: dict[str, Any] = {"on_failure": "keep", "timeout": None, "metadata": None}
            (created,) = prepare(chain(count), name=name, **settings, home=home, id=new_id).opening
            assert isinstance(created, CreateRun)
            assert commit(home.journal, [msgspec.structs.replace(created, owner="dead")]).ok
            # when
            random.shuffle(processes)
            results = race(processes, random.choices(["run", "resume"], k=ENGINES), name, count)
            # then
            check_race(tmp_path, results, name, count, epoch=2)


# -- taking over -------------------------------------------------------------------------------------------------------

TAKE_OVER = """
import os, sys
from onceflow import run
from tests.chaos import test_racing

print(run(getattr(test_racing, sys.argv[1]).bind(os.getcwd(), os.path.abspath("door")), name="taken"))
"""


def take_back(folder: str, door: str, key: str) -> None:
    ledger = Ledger(folder)
    with ledger.alone("task", "undo"):
        ledger.write("undo", "task")


@task(rollback=take_back)
def dwell(folder: str, door: str) -> str:
    """Is inside until the door opens."""
    ledger = Ledger(folder)
    with ledger.alone("task", "attempt"):
        ledger.write("begin", "task")
        knock(door)
        ledger.write("end", "task")
    return "done"


@task(rollback=take_back)
def leave_child(folder: str, door: str) -> str:
    """Leaves a process behind that goes on for it, and that no signal to the worker's group reaches."""
    ledger = Ledger(folder)
    with ledger.alone("task", "attempt"):
        ledger.write("begin", "task")
        if not os.path.exists(f"{folder}/left"):
            ready, said = os.pipe()
            if os.fork() == 0:
                os.setsid()
                os.closerange(1, 3)  # the test reads what its parents print, to the end
                os.write(said, b".")
                signal.pause()
            os.read(ready, 1)
            note(f"{folder}/left", "a child")
            knock(door)
        ledger.write("end", "task")
    return "done"


def test_a_worker_that_is_inside_a_task_is_dead_before_the_task_runs_again(tmp_path: Path) -> None:
    # given
    create(tmp_path)
    door = Door(tmp_path / "door")
    with started(tmp_path, TAKE_OVER, "dwell") as process:
        worker = door.wait()
        os.kill(worker, signal.SIGSTOP)  # it cannot even notice that its engine dies
        # when
        kills.assassinate(process.pid, "engine", lambda: process.poll() is None)
        process.wait()
    with started(tmp_path, TAKE_OVER, "dwell") as process:
        assert door.wait() != worker
        door.open()
        output, errors = process.communicate(timeout=60)
    # then
    assert output == "done\n", errors
    assert whats(tmp_path) == ["begin", "undo", "begin", "end"]
    door.close()


def test_so_is_a_process_that_it_left_behind(tmp_path: Path) -> None:
    # given
    create(tmp_path)
    door = Door(tmp_path / "door")
    with started(tmp_path, TAKE_OVER, "leave_child") as process:
        door.wait()
        # when
        kills.assassinate(process.pid, "all", lambda: process.poll() is None)
        process.wait()
    with started(tmp_path, TAKE_OVER, "leave_child") as process:
        output, errors = process.communicate(timeout=60)
    # then
    assert output == "done\n", errors
    assert whats(tmp_path) == ["begin", "undo", "begin", "end"]
    door.close()


def whats(folder: Path) -> list[str]:
    """What happened, in order. An overlap would be among it."""
    world = Ledger(str(folder))
    try:
        return [line.what for line in world.lines()]
    finally:
        world.close()


@pytest.mark.parametrize("target", ["engine", "all"])
def test_an_engine_that_waits_for_another_one_takes_over_when_that_dies(target: kills.Target, tmp_path: Path) -> None:
    # given
    create(tmp_path)
    door = Door(tmp_path / "door")
    with started(tmp_path, TAKE_OVER, "dwell") as process:
        door.wait()
        with Engine(tmp_path / "home", workers=1) as engine:
            handle = engine.resume_async("taken")
            # when
            kills.assassinate(process.pid, target, lambda: process.poll() is None)
            process.wait()
            # then
            door.wait()
            door.open()
            assert handle.result(timeout=60) == "done"
    assert whats(tmp_path) == ["begin", "undo", "begin", "end"]
    door.close()
