"""Modules that end the interpreter when they are imported: they cannot be imported, and that is said."""

from __future__ import annotations

import sys

import pytest

EXITS = "import sys\nsys.exit(0)\n"
SHOP = {
    "tasks": """
from onceflow import task

@task
def order():
    raise ConnectionError("the bank is closed")
""",
    "a fiber": """
from onceflow import fiber

@fiber
async def order():
    raise ConnectionError("the bank is closed")
""",
    "a returned graph": """
from onceflow import task
from onceflow_exiting_bank import charge

@task
def order():
    return charge.bind()
""",
}
BANK = """
from onceflow import task

@task
def charge():
    raise ConnectionError("the bank is closed")
"""


@pytest.mark.parametrize("kind", SHOP)
@pytest.mark.parametrize("verb", ["resume", "retry"])
def test_a_run_whose_module_exits_cannot_go_on_and_nobody_waits_for_it(kind, verb, fresh, tmp_path, monkeypatch):
    shop, bank = tmp_path / "onceflow_exiting_shop.py", tmp_path / "onceflow_exiting_bank.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    shop.write_text(SHOP[kind])
    bank.write_text(BANK)
    fresh("run", "onceflow_exiting_shop:order", "--name", "order", code=1)
    for module in (shop, bank):
        sys.modules.pop(module.stem, None)
    (bank if kind == "a returned graph" else shop).write_text(EXITS)

    in_worker = kind == "a fiber"  # this process knows its function already
    said = fresh.error(verb, "order", code=1 if in_worker else 4)

    assert "called sys.exit(0) while it was imported" in said
    for module in (shop, bank):
        sys.modules.pop(module.stem, None)
