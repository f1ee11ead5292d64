"""Which fibers are looked at before code is deployed, and that all of each of them is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onceflow import Engine
from onceflow.errors import InvalidOption
from tests.helpers.scripts import run_script
from tests.helpers.waiting import LONG

SHOP = """
from onceflow import fiber, task, wait_event
from onceflow.fibers import call
import bank

@task
def reserve(item):
    return f"reserved {item}"

@fiber
async def fulfil(item):
    reserved = await reserve.call(item)
    return [reserved, await bank.charge(item), await reserve.call(item)]
"""
BANK = """
from onceflow import fiber, wait_event

@fiber
async def charge(item):
    return await wait_event("paid", str)
"""
PARK = """
if __name__ == "__main__":
    import onceflow
    with onceflow.Engine() as engine:
        for event in engine.run_async({target}.bind("book"), name="order"):
            if event.kind == "status" and event.detail == "waiting":
                break
        engine.close()
"""


def park(folder: Path, **modules: str) -> None:
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    run_script(folder, f"import shop\n{PARK.format(target='shop.fulfil')}")


def onceflow(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "onceflow", *args, "--home", str(folder / "home")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONG)


def check(folder: Path, module: str) -> tuple[str, list[str]]:
    """Verdict and reasons for the one fiber that it finds."""
    (found,) = json.loads(onceflow(folder, "deploy-check", module, "--json").stdout)
    return found["verdict"], found["reasons"]


def resume(folder: Path) -> str:
    onceflow(folder, "send", "order", "paid", '"yes"')
    return onceflow(folder, "resume", "order").stderr


def test_a_fiber_is_judged_in_all_functions_that_it_is_in(tmp_path: Path) -> None:
    # given a fiber that waits in the bank, which its shop knows
    park(tmp_path, shop=SHOP, bank=BANK)
    assert check(tmp_path, "shop") == ("same", [])
    # when only the bank has changed
    (tmp_path / "bank.py").write_text(BANK.replace("def charge", "def charged") + "charge = charged")
    # then whoever asks about the shop is told
    verdict, reasons = check(tmp_path, "shop")
    assert verdict == "lost"
    assert "charge: what has its name now is not a fiber" in reasons
    assert "what has its name now is not a fiber" in resume(tmp_path)


def test_the_victims_of_a_deployment_are_seen_afterwards(tmp_path: Path) -> None:
    # given a fiber that could not go on, so that its run has failed
    park(tmp_path, shop=SHOP, bank=BANK)
    (tmp_path / "bank.py").write_text(BANK.replace("@fiber", "@fiber(on_change='fail')").replace("return", "return 1,"))
    assert "on_change='fail' keeps it where it is" in resume(tmp_path)
    # then it is told of
    told = onceflow(tmp_path, "deploy-check", "bank")
    assert told.returncode == 4
    assert told.stdout.startswith("lost  order (failed), fiber fulfil, ")
    # and with the old code it goes on
    (tmp_path / "bank.py").write_text(BANK)
    assert onceflow(tmp_path, "deploy-check", "bank").returncode == 0
    assert resume(tmp_path) == ""


@pytest.mark.parametrize("new", ["", "reserve = None\n"], ids=["no task", "nothing that can be called"])
def test_a_name_that_is_there_but_stands_for_no_task_any_more_loses_the_fiber(new: str, tmp_path: Path) -> None:
    park(tmp_path, shop=SHOP, bank=BANK)
    plain = SHOP.replace("@task\n", "").replace("\n@fiber", f"\n{new}\n@fiber")
    (tmp_path / "shop.py").write_text(plain)
    assert check(tmp_path, "shop") == ("lost", ["reserve in shop is not a task any more"])
    assert "AttributeError" not in resume(tmp_path)


def test_a_lost_fiber_has_no_reasons_that_contradict_that(tmp_path: Path) -> None:
    park(tmp_path, shop=SHOP, bank=BANK)
    (tmp_path / "shop.py").write_text(SHOP.replace("def reserve", "def book").replace("reserve.call", "book.call"))
    verdict, reasons = check(tmp_path, "shop")
    assert verdict == "lost"
    assert "there is no reserve in shop any more" in reasons
    assert not [reason for reason in reasons if "finishes" in reason or "goes on" in reason]


def test_who_renames_a_fiber_is_told_how_it_keeps_its_name(tmp_path: Path) -> None:
    park(tmp_path, shop=SHOP, bank=BANK)
    (tmp_path / "shop.py").write_text(SHOP.replace("def fulfil", "def deliver"))
    _, reasons = check(tmp_path, "shop")
    assert "fulfil: it was removed or renamed (@fiber(name=...) keeps an old name)" in reasons
    said = resume(tmp_path)
    assert "there is no fiber shop:fulfil. If it was renamed, @fiber(name='fulfil') keeps its old name." in said


def parked_as(folder: Path, file: str, source: str) -> None:
    """By a script that is started as a file, from the folder above."""
    (folder / file).parent.mkdir(exist_ok=True)
    run_script(folder, source + PARK.format(target="fulfil"), file=file)


ALONE = SHOP.replace("import bank\n", "").replace("bank.charge(item)", 'wait_event("paid", str)')


@pytest.mark.parametrize("where", ["above", "beside it", "another checkout"])
def test_a_script_is_found_by_its_file_under_whatever_name(where: str, tmp_path: Path) -> None:
    # given a fiber of a script in a folder, which is `orders` for who started it
    parked_as(tmp_path, "jobs/orders.py", ALONE)
    folder, file = tmp_path, "jobs/orders.py"
    if where == "another checkout":
        folder = tmp_path / "elsewhere"
        (folder / "jobs").mkdir(parents=True)
        (tmp_path / "home").rename(folder / "home")
    # when it is renamed there
    (folder / file).write_text(ALONE.replace("def fulfil", "def deliver"))
    if where == "beside it":
        file = "orders.py"
        done = subprocess.run(
            [sys.executable, "-m", "onceflow", "deploy-check", file, "--home", str(tmp_path / "home")],
            cwd=tmp_path / "jobs",
            capture_output=True,
            text=True,
            timeout=LONG,
        )
    else:
        done = onceflow(folder, "deploy-check", file)
    # then
    assert done.returncode == 4, done
    assert "lost  order, fiber fulfil" in done.stdout


def test_a_package_is_found_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    park(tmp_path, **{"shop/__init__": ALONE})
    (tmp_path / "shop" / "__init__.py").write_text(ALONE.replace("def fulfil", "def deliver"))
    assert check(tmp_path, "shop/__init__.py")[0] == "lost"


def test_another_module_with_the_same_last_name_is_not_meant(tmp_path: Path) -> None:
    park(tmp_path, shop=ALONE)
    (tmp_path / "shop.py").unlink()
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "shop.py").write_text(ALONE)
    done = onceflow(tmp_path, "deploy-check", "jobs.shop")
    assert (done.returncode, done.stderr) == (0, "onceflow: 0 parked fibers\n")


def test_a_module_that_nobody_knows_is_a_mistake(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        with pytest.raises(InvalidOption, match="module 'shpo': there is no such module here, and no fiber"):
            engine.deploy_check("shpo")
        assert engine.deploy_check("json") == []


ORDERING = """
from onceflow import fiber, wait_event

class Order:
    def __init__(self, item):
        self.item = item

@fiber
async def fulfil(item):
    order = Order(item)
    await wait_event("paid", str)
    return order.item
"""


def test_a_name_that_its_module_gives_when_it_is_asked_is_there(tmp_path: Path) -> None:
    park(tmp_path, shop=ORDERING)
    start, end = ORDERING.index("class Order"), ORDERING.index("@fiber")
    (tmp_path / "orders.py").write_text(ORDERING[start:end])
    lazily = "def __getattr__(name):\n    import orders\n    return getattr(orders, name)\n\n"
    (tmp_path / "shop.py").write_text(ORDERING[:start] + lazily + ORDERING[end:])
    assert check(tmp_path, "shop") == ("same", [])
    assert resume(tmp_path) == ""
