"""Chaos over Ray, PostgreSQL and S3: see `killing` for what is killed and what is looked at afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FEW = 2
MANY = 100


def play(folder: Path, kills: int, seed: int) -> None:
    command = [sys.executable, "-m", "tests.backends.ray.killing", str(folder), str(kills), str(seed)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout.splitlines()[-1])
    assert (found["status"], found["problems"]) == (0, []), process.stderr + (folder / "engine.log").read_text()


def test_every_effect_happens_once_though_processes_and_nodes_are_killed(tmp_path: Path) -> None:
    play(tmp_path, FEW, 1)


@pytest.mark.soak
def test_that_holds_for_many_kills(tmp_path: Path) -> None:
    play(tmp_path, MANY, 2)
