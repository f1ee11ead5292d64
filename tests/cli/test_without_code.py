"""Looking at runs whose code is not there, or does something when it is imported."""

from __future__ import annotations

import sys

import pytest

SHOP = """
from onceflow import Variable, task, workflow

class Parcel:
    pass

parcel = Variable("parcel", None)
paid = Variable("paid", 0)

@task(metadata={"shop": "north"})
def price(item):
    return len(item)

@task(writes=[parcel, paid])
def charge(cents):
    parcel.set(Parcel())
    paid.set(cents)
    return cents

@task
def closed(cents):
    raise ConnectionError("the bank is closed")

@task
def items():
    return closed.bind(charge.bind(price.bind("book")))

@workflow
def order():
    return items.bind()
"""


@pytest.fixture
def code_gone(fresh, tmp_path, monkeypatch):
    """Writes the module of a failed run anew, and sees to it that nobody imports it."""
    module = tmp_path / "shop_without_code.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    module.write_text(SHOP)
    fresh("run", "shop_without_code:order", "--name", "order", code=1)
    sys.modules.pop("shop_without_code")
    module.write_text("import sys\nprint('imported')\nsys.exit(0)\n")
    yield fresh
    assert "shop_without_code" not in sys.modules


def test_a_run_is_shown_without_importing_its_modules(code_gone):
    shown = code_gone("show", "order")

    assert "items/closed raised ConnectionError: the bank is closed" in shown.stdout
    assert "imported" not in shown.stdout + shown.stderr
    tasks = {task["id"]: task for task in code_gone.json("show", "order")["tasks"]}
    assert list(tasks) == ["items", "items/price", "items/charge", "items/closed"]
    assert tasks["items/price"]["metadata"] == {"shop": "north"}
    assert tasks["items/price"]["version"].startswith("cp")
    assert tasks["items/price"]["changed"] is None


def test_variables_of_classes_of_the_users_are_told_by_their_class(code_gone):
    assert code_gone.json("show", "order")["variables"] == {
        "parcel": "<shop_without_code.Parcel, 46 B, not loaded>",
        "paid": 4,
    }


def test_why_says_what_a_run_waits_for_without_importing_its_modules(code_gone):
    why = code_gone("why", "order")

    assert "items/closed raised ConnectionError: the bank is closed" in why.stdout
    assert "imported" not in why.stdout + why.stderr


def test_code_whose_module_cannot_be_imported_is_said_to_be_gone(code_gone):
    shown = code_gone("show", "order", "--code")

    assert "items/closed: its code is gone" in shown.stdout
    assert "items/closed raised ConnectionError: the bank is closed" in shown.stdout
