"""Random programs as fibers: with crashes at random moments of a memory engine, and with real processes that are
killed."""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from random import Random

import pytest

from onceflow.testing import MemoryEngine
from tests.fibers import programs
from tests.helpers.scripts import start_script, started

FEW, MANY = 20, 1_000
CRASHES = 4
"""Lives of each program in which it crashes, at one to three moments."""

KILLED, OFTEN = 2, 1_000

PATIENCE = 300.0
"""Seconds for a program: in some, fibers whose time is over are given half a minute to clean up, more than once."""


def simulate(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"program_{seed}"
    (folder / f"{name}.py").write_text(programs.write(seed))
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    module = importlib.import_module(name)
    chance = Random(seed)
    moments = 0
    for life in range(CRASHES + 1):
        at = folder / f"{name}-{life}"
        at.mkdir()
        crashes = sorted(chance.sample(range(1, moments + 1), min(moments, chance.randint(1, 3)))) if life else []
        with MemoryEngine(seed=chance.choice([None, life]), crashes=crashes) as engine:
            try:
                handle = engine.run_async(module.main.bind(str(at), "m"), name="program")
                for number in range(3):
                    engine.send_event("program", "number", number, id=str(number))
                programs.judge(at, handle.result())
            except BaseException as error:
                error.add_note(f"seed {seed}, life {life}, crashes {crashes}\n{engine.story}")
                raise
            moments = len(engine.moments)
    del sys.modules[name]


@pytest.mark.parametrize("first", range(0, FEW, 10))
def test_random_programs_survive_crashes_at_random_moments(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, first + 10):
        simulate(seed, tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FEW, FEW + MANY, 10))
def test_so_do_many(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + 10):
        simulate(seed, tmp_path, monkeypatch)


SCRIPT = """
    import contextlib, json, os, sys
    from onceflow import run_async, send_event
    from onceflow.errors import EventRefused
    import program
    handle = run_async(program.main.bind(os.getcwd(), "m"), name="program")
    with contextlib.suppress(EventRefused):  # it has ended, with all that it needed
        for number in range(3):
            send_event("program", "number", number, id=str(number))
    print("here", flush=True)
    print(json.dumps(handle.result()))
"""


def chaos(seed: int, folder: Path) -> None:
    chance = Random(seed)
    folder.mkdir()
    (folder / "program.py").write_text(programs.write(seed))
    for _ in range(chance.randint(1, 4)):
        with started(folder, SCRIPT) as process:
            assert process.stdout is not None
            if process.stdout.readline() == "here\n":
                time.sleep(chance.random() * 0.3)
            process.kill()
    process = start_script(folder, SCRIPT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    programs.judge(folder, json.loads(output.splitlines()[-1]))


@pytest.mark.parametrize("seed", range(KILLED))
def test_random_programs_survive_the_death_of_their_engines(seed: int, tmp_path: Path) -> None:
    chaos(seed, tmp_path / "one")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(KILLED, KILLED + OFTEN))
def test_so_do_many_more(seed: int, tmp_path: Path) -> None:
    chaos(seed, tmp_path / "one")
