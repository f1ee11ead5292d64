"""What is said of fibers before code is deployed, and what becomes of them then."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.helpers.scripts import run_script
from tests.helpers.waiting import LONG

SHOP = """
from dataclasses import dataclass
from onceflow import fiber, task, wait_event
from onceflow.fibers import call

@dataclass
class Order:
    item: str

@task
def reserve(order):
    return f"reserved {order.item}"

@task
def charge(order):
    return f"charged {order.item}"

@fiber
async def approved(by):
    return await call(wait_event("approval", bool), label="approval")

@fiber
async def fulfil(item):
    order = Order(item)
    reserved = await reserve.call(order)
    ok = await approved("ann")
    return [reserved, ok, await charge.call(order)]
"""
PARK = """
    import onceflow, shop
    if __name__ == "__main__":
        with onceflow.Engine() as engine:
            handle = engine.run_async(shop.fulfil.bind("book"), name="order")
            for event in handle:
                if event.kind == "status" and event.detail == "waiting":
                    break
            (outlook,) = engine.deploy_check("shop")
            assert outlook.verdict == "same", outlook
            assert engine.deploy_check("json") == []
            engine.close()
"""
GO_ON = """
    import onceflow
    if __name__ == "__main__":
        with onceflow.Engine() as engine:
            ((verdict, reasons),) = [(found.verdict, found.reasons) for found in engine.deploy_check("shop")]
            engine.send_event("order", "approval", True)
            try:
                result = engine.resume("order")
            except onceflow.OnceflowError:
                result = None
            print([verdict, reasons, result])
"""


@pytest.fixture(scope="module")
def parked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fiber that waits, and its code."""
    folder = tmp_path_factory.mktemp("parked")
    (folder / "shop.py").write_text(SHOP)
    run_script(folder, PARK)
    return folder


MOVE = ("@fiber\nasync def fulfil", '@fiber(on_change="move")\nasync def fulfil')
EXTRA = ("    reserved = await", "    bonus = 7\n    reserved = await")
CHARGE = ("def charge(", "def charge_it(")
BEFORE = ["reserved book", True, "charged book"]


@pytest.mark.parametrize(
    ("edits", "verdict", "reason", "result"),
    [
        ([("    order = Order", "    # a comment\n    order = Order")], "same", "", BEFORE),
        ([("[reserved, ok,", "['new',")], "pin", "fulfil finishes in the code in which it began", BEFORE),
        ([MOVE, ("[reserved, ok,", "['new',")], "move", "fulfil goes on at line 26", ["new", "charged book"]),
        ([MOVE, EXTRA, ("ok,", "bonus,")], "lost", "fulfil: check: missing ['bonus']", None),
        (
            [
                (MOVE[0], '@fiber(on_change="move", migrate=lambda variables: {"bonus": 3})\nasync def fulfil'),
                EXTRA,
                ("ok,", "bonus,"),
            ],
            "move",
            "if migrate supplies bonus",
            ["reserved book", 3, "charged book"],
        ),
        ([MOVE, ('approved("ann")', 'approved("bob")')], "lost", "its expression was edited", None),
        (
            [
                ("@fiber\nasync def approved", '@fiber(on_change="move")\nasync def approved'),
                ('wait_event("approval", bool)', 'wait_event("approval", bool, timeout=3600)'),
            ],
            "move",
            "approved goes on at line 20",
            BEFORE,
        ),
        ([("@fiber\nasync def fulfil", "@fiber(on_change='fail')\nasync def fulfil"), EXTRA], "lost", "'fail'", None),
        ([("def fulfil", "def fulfilled")], "lost", "fulfil", None),
        (
            [("def reserve(", "def reserve_it("), ("reserve.call", "reserve_it.call")],
            "lost",
            "no reserve in shop",
            None,
        ),
        ([("class Order:", "class Ordered:"), ("Order(item)", "Ordered(item)")], "lost", "no Order in shop", None),
        (
            [CHARGE, ("charge.call", "charge_it.call")],
            "lost",
            "fulfil: the code in which it began needs charge, not found in shop",
            None,
        ),
        ([CHARGE], "lost", "fulfil: its code needs charge, not found in shop", None),
        ([MOVE, CHARGE, ("charge.call", "charge_it.call")], "move", "fulfil goes on at line 26", BEFORE),
    ],
    ids=[
        "comment",
        "pin",
        "move",
        "missing",
        "migrate",
        "edited",
        "labelled",
        "fail",
        "renamed",
        "task gone",
        "class gone",
        "later task gone",
        "later task gone for all",
        "later task not needed any more",
    ],
)
def test_what_is_said_before_is_what_happens(
    edits: list[tuple[str, str]], verdict: str, reason: str, result: object, parked: Path, tmp_path: Path
) -> None:
    # given other code on disk
    shutil.copytree(parked, tmp_path, dirs_exist_ok=True)
    source = SHOP
    for before, after in edits:
        assert before in source
        source = source.replace(before, after)
    (tmp_path / "shop.py").write_text(textwrap.dedent(source))
    # when somebody asks, and goes on all the same
    said, reasons, became = ast.literal_eval(run_script(tmp_path, GO_ON))
    # then
    assert (said, became) == (verdict, result)
    assert reason in " ".join(reasons)


def test_the_command_says_so_and_ends_with_a_code_that_scripts_understand(parked: Path, tmp_path: Path) -> None:
    # given code without the function in which a fiber waits
    shutil.copytree(parked, tmp_path, dirs_exist_ok=True)
    (tmp_path / "shop.py").write_text(SHOP.replace("def fulfil", "def fulfilled"))
    # when
    told, data, nothing, missing = [
        call(tmp_path, *args) for args in (["shop.py"], ["shop", "--json"], ["script"], ["nowhere"])
    ]
    # then
    assert told.returncode == data.returncode == 4
    assert told.stdout.startswith(f"lost  order, fiber fulfil, {parked}/shop.py:20 in approved, label approval\n      ")
    assert "there is no fiber shop:fulfil" in told.stdout
    assert told.stderr == "onceflow: 1 of 1 parked fiber could not go on in shop.py (1 lost)\n"
    (outlook,) = json.loads(data.stdout)
    assert (outlook["name"], outlook["verdict"], outlook["fiber"]["id"]) == ("order", "lost", "fulfil")
    assert (nothing.returncode, nothing.stderr) == (0, "onceflow: 0 parked fibers\n")
    assert missing.returncode == 2


def call(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "onceflow", "deploy-check", *args, "--home", str(folder / "home")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONG)
