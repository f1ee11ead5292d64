"""Code that is edited while fibers are parked in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceflow.authoring.fibers import Fiber, Version, register_version, report, version_of
from onceflow.errors import CodeChanged
from tests.authoring.fibers.writing import write

BEFORE = """
    @fiber(on_change="POLICY")
    async def shop(cart):
        total = 0
        for it in cart:
            r = await Op("price", it)
            total += r
        return total
    """

EDITS: dict[str, tuple[str, str]] = {
    "a comment and a log line": (
        """
        LOG = []

        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                # what does it cost?
                LOG.append(it)
                r = await Op("price", it)
                total += r
            return total
        """,
        "moved",
    ),
    "code after it": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                r = await Op("price", it)
                total += r * 100
            return total
        """,
        "moved",
    ),
    "an await before and one after": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                await Op("check", it)
                r = await Op("price", it)
                total += r
                await Op("log", it)
            return total
        """,
        "moved",
    ),
    "a new variable, set earlier": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total, rate = 0, 2
            for it in cart:
                r = await Op("price", it)
                total += r * rate
            return total
        """,
        "check: missing ['rate']",
    ),
    "an if around it": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                r = 0
                if it:
                    r = await Op("price", it)
                total += r
            return total
        """,
        "moved",
    ),
    "a try with a handler around it": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                try:
                    r = await Op("price", it)
                except KeyError:
                    r = 0
                total += r
            return total
        """,
        "moved",
    ),
    "a try with a finally around it": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                try:
                    r = await Op("price", it)
                finally:
                    total += r
            return total
        """,
        "check: missing ['r']",
    ),
    "a while around it": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                while True:
                    r = await Op("price", it)
                    break
                total += r
            return total
        """,
        "lost: it was inside for and is now inside while in for",
    ),
    "a try around it whose finally awaits": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                try:
                    r = await Op("price", it)
                finally:
                    await Op("done", it)
                total += r
            return total
        """,
        "lost: it was inside for and is now inside try-finally in for",
    ),
    "other arguments": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                r = await Op("price", it, 2)
                total += r
            return total
        """,
        'lost: it is gone or its expression was edited (a label would have kept it: `call(…, label="…")`)',
    ),
    "no loop": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            it = cart[0]
            r = await Op("price", it)
            return r
        """,
        "lost: it was inside for and is now inside nothing",
    ),
    "part of a larger expression": (
        """
        @fiber(on_change="POLICY")
        async def shop(cart):
            total = 0
            for it in cart:
                total += it * await Op("price", it)
            return total
        """,
        "lost: it is now part of another expression, which holds other intermediate values",
    ),
}

RAN_ON = {
    "a comment and a log line": 6,
    "code after it": 600,
    "an await before and one after": 6,
    "an if around it": 6,
    "a try with a handler around it": 6,
}
"""What a fiber returns that was parked at its first await and moved."""


class Shop:
    """A shop whose code is written anew."""

    def __init__(self, folder: Path, policy: str) -> None:
        self._path = folder / f"shop_{policy}.py"
        self._policy = policy
        self.module: Any = None

    def write(self, source: str) -> Version:
        self.module = write(self._path, source.replace("POLICY", self._policy))
        return version_of(self.module.shop)

    def parked(self) -> bytes:
        """At the price of the first of two items."""
        fiber = Fiber.start(self.module.shop([1, 2]))
        return fiber.dumps()


def finish(fiber: Fiber) -> Any:
    """Every price is 3."""
    while not fiber.done:
        fiber.send(3)
    if fiber.error is not None:
        raise fiber.error
    return fiber.result


@pytest.mark.parametrize("edit", EDITS)
def test_the_report_tells_which_places_remain(edit: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, "move")
    source, verdict = EDITS[edit]
    old, new = shop.write(BEFORE), shop.write(source)

    (move,) = report(old, new)

    assert verdict in str(move)


@pytest.mark.parametrize("edit", EDITS)
def test_move_does_what_the_report_says(edit: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, "move")
    source, verdict = EDITS[edit]
    register_version(shop.write(BEFORE))
    saved = shop.parked()
    shop.write(source)

    if verdict == "moved":
        assert finish(Fiber.loads(saved)) == RAN_ON[edit]
    else:
        with pytest.raises(CodeChanged) as caught:
            Fiber.loads(saved)
        assert verdict in caught.value.verdict


@pytest.mark.parametrize("edit", EDITS)
def test_pin_finishes_in_the_old_code(edit: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path, "pin")
    register_version(shop.write(BEFORE))
    saved = shop.parked()
    shop.write(EDITS[edit][0])

    fiber = Fiber.loads(saved)
    assert Fiber.loads(fiber.dumps()).describe() == fiber.describe()

    assert finish(fiber) == 6


def test_pin_uses_the_helpers_of_the_new_module(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "pin")
    source = """
        def helper():
            return "HELPER"

        class Base:
            def name(self):
                return "base"

        class Till(Base):
            @fiber
            async def shop(self):
                text = '''a
        b'''
                await Op("wait")
                return helper(), super().name(), text, (lambda: self.name())()
        """
    module = write(tmp_path / "till.py", source.replace("HELPER", "old"))
    register_version(version_of(module.Till.shop))
    saved = Fiber.start(module.Till().shop()).dumps()
    write(
        tmp_path / "till.py", source.replace("HELPER", "new").replace('await Op("wait")', "pass").replace("\n\n", "\n")
    )

    assert finish(Fiber.loads(saved)) == ("new", "base", "a\nb", "base")
    assert shop is not None


def test_fail_keeps_it_where_it_is(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "fail")
    old = shop.write(BEFORE)
    register_version(old)
    saved = shop.parked()
    new = shop.write(EDITS["code after it"][0])

    with pytest.raises(CodeChanged) as caught:
        Fiber.loads(saved)

    assert str(caught.value) == (
        f"fiber was parked in shop_fail:shop version {old.version}, the loaded version is {new.version}: "
        "on_change='fail' keeps it where it is"
    )


@pytest.mark.parametrize("policy", ["pin", "move"])
def test_an_old_version_that_nobody_registered_cannot_be_gone_on_with(policy: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path / "unknown", policy)
    (tmp_path / "unknown").mkdir()
    shop.write(BEFORE.replace("price", "never seen elsewhere"))
    saved = shop.parked()
    shop.write(BEFORE)

    with pytest.raises(CodeChanged, match=f"{policy} needs the old .*, which .* not registered"):
        Fiber.loads(saved)


def test_a_function_that_is_gone_is_named(tmp_path: Path) -> None:
    module = write(tmp_path / "going.py", BEFORE.replace("POLICY", "pin"))
    saved = Fiber.start(module.shop([1])).dumps()
    changed = saved.replace(b"going:shop", b"going:shoq")

    with pytest.raises(CodeChanged, match="there is no such function any more: it was removed or renamed"):
        Fiber.loads(changed)


def test_a_module_that_is_gone_is_named(tmp_path: Path) -> None:
    module = write(tmp_path / "leaving.py", BEFORE.replace("POLICY", "pin"))
    saved = Fiber.start(module.shop([1])).dumps()
    changed = saved.replace(b"leaving:shop", b"lost_in:shop")

    with pytest.raises(CodeChanged, match=r"its module cannot be imported here \(No module named 'lost_in'"):
        Fiber.loads(changed)


SHARING = """
    @fiber(on_change="move")
    async def shop(cart):
        total = 0

        def add(n):
            nonlocal total
            total += n
            return "OLD"

        names = [add(1)]
        names.append(add(await Op("price", cart)))
        return total, names
    """


def test_an_inner_function_keeps_its_code_and_its_variables_in_a_moved_fiber(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "sharing")
    register_version(shop.write(SHARING))
    saved = shop.parked()
    shop.write(SHARING.replace("OLD", "NEW").replace("return total", "other = lambda: 'first'\n        return total"))

    assert finish(Fiber.loads(saved)) == (4, ["OLD", "OLD"])


def test_a_fiber_whose_inner_functions_would_lose_its_variables_cannot_move(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "apart")
    register_version(shop.write(SHARING))
    saved = shop.parked()
    shop.write(SHARING.replace("nonlocal total\n            total += n", "pass"))

    with pytest.raises(CodeChanged, match=r"inner functions no longer share variables with it as before \(total\)"):
        Fiber.loads(saved)


def test_unchanged_code_is_the_same_version_wherever_it_stands(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "pin")
    old = shop.write(BEFORE)

    new = shop.write('''
        X = 1


        @fiber(on_change="POLICY")
        async def shop(cart: list[int]) -> int:
            """What does it cost?"""
            total = 0  # a comment
            for it in (cart):
                r = await Op(
                    "price", it,
                )
                total += r
            return total
        ''')

    assert new.version == old.version
    assert [point.line for point in new.points] != [point.line for point in old.points]


def test_a_label_keeps_a_place_whose_expression_was_edited(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "move")
    label = BEFORE.replace('Op("price", it)', 'Op("price", it, label="price")')
    register_version(shop.write(label))
    saved = shop.parked()
    shop.write(label.replace('Op("price", it', 'Op("price", it, currency="EUR"'))

    assert finish(Fiber.loads(saved)) == 6


def test_migrate_supplies_what_is_missing(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "move")
    register_version(shop.write(BEFORE))
    saved = shop.parked()
    shop.write(
        EDITS["a new variable, set earlier"][0].replace(
            '@fiber(on_change="POLICY")',
            'def supply(variables):\n            return {"rate": 10 + variables["total"]}\n\n'
            '        @fiber(on_change="POLICY", migrate=supply)',
        )
    )

    assert finish(Fiber.loads(saved)) == 60


def test_a_version_can_be_stored_as_json(tmp_path: Path) -> None:
    version = Shop(tmp_path, "pin").write(BEFORE)

    assert Version.from_plain(__import__("json").loads(__import__("json").dumps(version.as_plain()))) == version


@pytest.mark.filterwarnings("ignore:coroutine 'inner' was never awaited:RuntimeWarning")
def test_a_call_that_has_not_started_moves_to_the_new_code(tmp_path: Path) -> None:
    source = """
        @fiber(on_change="move")
        async def inner(n):
            return n + RESULT + await Op("x")

        @fiber
        async def outer():
            later = inner(1)
            await Op("first")
            return await later
        """
    module = write(tmp_path / "later.py", source.replace("RESULT", "10"))
    saved = Fiber.start(module.outer()).dumps()
    write(tmp_path / "later.py", source.replace("RESULT", "20"))

    assert finish(Fiber.loads(saved)) == 24
