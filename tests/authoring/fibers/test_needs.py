"""What a parked fiber needs of its module, which may have lost it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from onceflow.authoring.fibers import register_version, version_of
from onceflow.authoring.fibers.changes import Outlook, outlook
from tests.authoring.fibers.writing import write

SHOP = """
    import mails
    from mails import *

    def early(): ...
    def late(item): ...
    def often(): ...
    def connect():
        global CONNECTION
        CONNECTION = 1
    globals()["made"] = lambda: None

    class Box:
        pass

    @fiber(on_change="POLICY")
    async def order(item, early_box=Box):
        early()
        mails.greet(item)
        for each in range(3):
            often()
            await Op("price", item)
            made(), greet(item), connect(), CONNECTION
        mails.say(item)
        boxes = [late(one) for one in (1, 2)]
        if boxes:
            return max(boxes, key=lambda box: (box, Box))
    """
MAILS = "def greet(item): ...\ndef say(item): ...\n"
EDIT = ("mails.say(item)", "mails.say(item), 'more'")


class Shop:
    def __init__(self, folder: Path, policy: str) -> None:
        self.name = f"needing_{uuid.uuid4().hex}"
        self._file = folder / f"{self.name}.py"
        self._policy = policy
        self._mails = folder / "mails.py"

    def write(self, *edits: tuple[str, str], mails: str = MAILS) -> str:
        """Version of what was written."""
        source = SHOP.replace("POLICY", self._policy)
        for before, after in edits:
            assert before in source
            source = source.replace(before, after)
        write(self._mails, mails)
        version = version_of(write(self._file, source).order)
        register_version(version)
        return version.version

    def outlook(self, version: str) -> Outlook:
        return outlook(f"{self.name}:order", version, 1, ("item",))


@pytest.mark.parametrize("policy", ["pin", "move"])
@pytest.mark.parametrize("edits", [[], [EDIT]], ids=["same", "other"])
def test_nothing_is_missing_of_what_is_there_or_is_made_or_was_needed_before(
    policy: str, edits: list[tuple[str, str]], tmp_path: Path
) -> None:
    shop = Shop(tmp_path, policy)
    before = shop.write()
    shop.write(*edits, ("def early", "def earlier"))
    assert shop.outlook(before).needed == ()


@pytest.mark.parametrize(
    ("gone", "needed"),
    [
        (("def often", "def seldom"), "often"),
        (("def late", "def later"), "late"),
        (("    class Box:\n", "    class Crate:\n"), "Box"),
        (("import mails\n", "import mails as letters\n"), "mails"),
    ],
)
@pytest.mark.parametrize("policy", ["pin", "move"])
def test_what_is_gone_is_named(policy: str, gone: tuple[str, str], needed: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, policy)
    before = shop.write()
    shop.write(EDIT, gone, ("early_box=Box", "early_box=None"))
    assert shop.outlook(before).needed == (needed,)


@pytest.mark.parametrize("policy", ["pin", "move"])
def test_what_a_module_has_lost_is_named(policy: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, policy)
    before = shop.write()
    shop.write(EDIT, mails=MAILS.replace("say", "tell"))
    assert shop.outlook(before).needed == ("mails.say",)


def test_what_the_code_that_a_fiber_leaves_has_needed_is_not_missed(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "move")
    before = shop.write()
    shop.write(("late(one)", "[one]"), ("def late", "def later"))
    assert shop.outlook(before).needed == ()
