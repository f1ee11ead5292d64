"""A run of a script whose tasks returned graphs, looked at and resumed by a program that is not this script."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow import Engine
from onceflow.errors import FunctionNotLoaded
from tests.helpers.scripts import run_script

SCRIPT = """
from onceflow import run, task

class Broken(Exception):
    pass

@task
def inner(fail):
    if fail:
        raise Broken

@task
def outer(fail):
    return inner.bind(fail)

run(outer.bind(False), name="whole")
run(outer.bind(True), name="broken")
"""


def test_what_cannot_be_loaded_is_an_error_of_ours(tmp_path: Path) -> None:
    # given
    run_script(tmp_path, SCRIPT, check=False)
    # when, then
    with Engine(tmp_path / "home", workers=1) as engine:
        assert engine.status("broken") == "failed"
        assert engine.get_output("whole") is None, "whoever only looks needs no code"
        with pytest.raises(FunctionNotLoaded, match="Broken"):
            engine.resume("broken")
        with pytest.raises(FunctionNotLoaded, match="Broken"):
            engine.resume_async("broken").result(timeout=60)
