"""Versions of code: recorded with a run and its tasks, shown, and heeded when a run goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from onceflow import Engine
from onceflow.engine.submission import Settings
from onceflow.values.versions import code_version
from onceflow.version import VERSION
from tests.engine.common import add, double, keep, pass_door
from tests.helpers.doors import Door
from tests.helpers.scripts import run_script

MODULE = """
import os
from onceflow import task

@task.pure
def draw():
    return {drawn!r}

@task(can_rollback=True)
def keep(value):
    return value

@task(can_rollback=True)
def last(drawn, kept):
    if os.path.exists("broken"):
        raise ValueError("broken")
    return drawn, kept

@task
def expand():
    drawn = draw.bind()
    return last.bind(drawn, keep.bind(drawn))
"""
SCRIPT = "import onceflow, shop\nprint(onceflow.run(shop.expand.bind(), name='shop'))\n"


def test_a_task_tells_the_version_of_its_code(engine: Engine) -> None:
    engine.run(add.bind(double.bind(1), 2), name="versions")

    tasks = {info.id: info.version for info in engine.list_tasks("versions")}

    assert tasks == {"double": code_version(double.function), "add": code_version(add.function)}
    assert engine.version_of("versions") == VERSION
    assert engine.changed_code("versions") == {}


def test_a_run_that_is_driven_here_tells_versions_as_well(engine: Engine, door: Door) -> None:
    handle = engine.run_async(keep.bind(pass_door.bind(door.path)))
    door.wait()
    tasks = {info.id: info.version for info in engine.list_tasks(handle.id)}
    door.open()
    handle.result()

    assert tasks == {"pass_door": code_version(pass_door.function), "keep": code_version(keep.function)}


@pytest.mark.parametrize("fixed", ["same", "other"])
def test_changed_code_in_a_returned_graph_counts_as_nondeterministic(tmp_path: Path, fixed: str) -> None:
    """The unsaved `draw` runs again. If it may now return something else, what was made of it is made anew."""
    (tmp_path / "shop.py").write_text(MODULE.format(drawn="same"))
    (tmp_path / "broken").touch()
    assert "ValueError: broken" in run_script(tmp_path, SCRIPT, check=False)

    (tmp_path / "broken").unlink()
    (tmp_path / "shop.py").write_text(MODULE.format(drawn=fixed))

    assert run_script(tmp_path, SCRIPT) == f"('{fixed}', '{fixed}')\n"


def test_code_that_changed_is_told(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(MODULE.format(drawn=1))
    (tmp_path / "broken").touch()
    run_script(tmp_path, SCRIPT, check=False)
    look = """
    import onceflow
    engine = onceflow.Engine("home")
    before = {info.id: info.version for info in engine.list_tasks("shop")}
    for id, version in engine.changed_code("shop").items():
        print(id, version is None, version == before[id])
    """
    assert run_script(tmp_path, look) == ""

    (tmp_path / "shop.py").write_text(MODULE.format(drawn=2))
    assert run_script(tmp_path, look) == "expand/draw False False\n"
    (tmp_path / "shop.py").write_text(MODULE.format(drawn=1).replace("def expand():", "def expand():\n    print()"))
    assert run_script(tmp_path, look) == "expand False False\n"


def test_a_run_of_an_older_onceflow_does_not_tell_who_created_it() -> None:
    older = msgspec.msgpack.encode({"on_failure": "keep"})

    assert msgspec.msgpack.decode(older, type=Settings).onceflow == ""
