"""What an edit around an await means for fibers that have computed a part of its expression already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onceflow.authoring.fibers import Fiber, Version, register_version, report, version_of
from onceflow.errors import CodeChanged
from tests.authoring.fibers.writing import write

COMPUTED = "what was computed before it in the same expression was edited: "

EDITED: dict[str, tuple[str, str, str, str]] = {
    "the left operand": (
        'total = total + await Op("price")',
        "total + await",
        "rate * await",
        f"{COMPUTED}`total` is now `rate`",
    ),
    "the item that is added to": (
        'table["a"] += await Op("price")',
        'table["a"]',
        'table["b"]',
        f"{COMPUTED}`table['a']` is now `table['b']`",
    ),
    "an argument before it": (
        'total = max(total.bit_length(), await Op("price"))',
        "total.bit_length()",
        "rate.bit_length()",
        f"{COMPUTED}`total.bit_length()` is now `rate.bit_length()`",
    ),
    "the order of arguments": (
        'total = max(total, rate, await Op("price"))',
        "total, rate,",
        "rate, total,",
        f"{COMPUTED}`total` is now `rate`",
    ),
    "a condition before it": (
        'total = (await Op("a") if total else 5) + await Op("price")',
        "if total",
        "if rate",
        f"{COMPUTED}`await Op('a') if total else 5` is now `await Op('a') if rate else 5`",
    ),
    "a piece of a text": (
        """total = f"{total}{await Op('price')}\"""",
        "{total}",
        "{rate}",
        f"{COMPUTED}`f'{{total}}'` is now `f'{{rate}}'`",
    ),
    "nested loops": (
        """
        for one in range(2):
            for two in "ab":
                total = await Op("price")
        """,
        'for one in range(2):\n            for two in "ab"',
        'for two in "ab":\n            for one in range(2)',
        "it was inside `for one in range(2)` and is now inside `for two in 'ab'`",
    ),
    "what a loop goes through": (
        """
        for one in range(2):
            total = await Op("price")
        """,
        "range(2)",
        "range(3)",
        "it was inside `for one in range(2)` and is now inside `for one in range(3)`",
    ),
    "what a with manages": (
        """
        with Manager("old"):
            total = await Op("price")
        """,
        "old",
        "new",
        "it was inside `with Manager('old')` and is now inside `with Manager('new')`",
    ),
    "what a handler handles": (
        """
        try:
            raise KeyError
        except KeyError:
            total = await Op("price")
        """,
        "except KeyError",
        "except LookupError",
        "it was inside `except KeyError` and is now inside `except LookupError`",
    ),
    "the order of cases": (
        """
        match rate:
            case 3: total = await Op("price")
            case 4: total = -1
            case 5: total = -2
        """,
        'case 3: total = await Op("price")\n            case 4: total = -1',
        'case 4: total = -1\n            case 3: total = await Op("price")',
        f"{COMPUTED}`case 1` is now `case 2`",
    ),
    "what a comprehension collects": (
        'total = [one + await Op("price") for one in "a"]',
        "one + await",
        "2 * one + await",
        f"{COMPUTED}`[one + await Op('price') for one in 'a']` is now `[2 * one + await Op('price') for one in 'a']`",
    ),
}
"""Statement, what is edited in it, and why a fiber that is parked there cannot move."""

KEPT: dict[str, tuple[str, str, str, object]] = {
    "what is done with the left operand": ('total = total - await Op("price")', "total - await", "total * await", 3000),
    "who is called": ('total = max(total, await Op("price"))', "max", "min", 3),
    "something larger around it": ('total = await Op("price")', 'await Op("price")', '(await Op("price")) * rate', 9),
    "a labelled await before it": (
        'total = await Op("a", label="first") + await Op("price")',
        'Op("a"',
        'Op("other", rate',
        6,
    ),
    "a case after it": (
        """
        match rate:
            case 3: total = await Op("price")
            case 4: total = -1
        """,
        "case 4",
        "case 5: total = -2\n            case 4",
        3,
    ),
    "an await before a comprehension": (
        'total = [await Op("price", one) for one in range(2)]',
        "total =",
        'seen = [await Op("see", one) for one in range(2)]\n        total =',
        [3, 3],
    ),
    "a loop before a comprehension": (
        'total = {one: await Op("price", one) for one in range(2)}',
        "total =",
        'for one in "": await Op("see")\n        total =',
        {0: 3, 1: 3},
    ),
}
"""Statement, what is edited in it, and what a fiber returns that moves from its last await to the new code."""


def module_with(folder: Path, statement: str, policy: str = "migrate=None") -> Any:
    return write(
        folder / "moving.py",
        f"""
    class Manager:
        def __init__(self, name): pass
        def __enter__(self): pass
        def __exit__(self, *error): pass

    @fiber(on_change="move", {policy})
    async def main():
        total, rate, table = 1000, 3, {{"a": 1, "b": 100}}
        {statement.strip()}
        return total
    """,
    )


def parked(module: Any, op: str = "price") -> Fiber:
    fiber = Fiber.start(module.main())
    while fiber.op.name != op:
        fiber.send(3)
    return fiber


def finish(fiber: Fiber) -> object:
    while not fiber.done:
        fiber.send(3)
    assert fiber.error is None
    return fiber.result


def stored(version: Version) -> Version:
    return Version.from_plain(json.loads(json.dumps(version.as_plain())))


@pytest.mark.parametrize("edit", EDITED)
def test_a_fiber_is_lost_if_what_it_has_computed_is_another_thing_now(edit: str, tmp_path: Path) -> None:
    statement, old, new, reason = EDITED[edit]
    assert old in statement
    module = module_with(tmp_path, statement)
    before = stored(version_of(module.main))
    register_version(before)
    saved = parked(module).dumps()
    module = module_with(tmp_path, statement.replace(old, new))

    with pytest.raises(CodeChanged) as caught:
        Fiber.loads(saved)

    assert caught.value.verdict == f"lost: {reason}"
    assert reason in str(report(before, version_of(module.main))[-1])


@pytest.mark.parametrize("edit", KEPT)
def test_a_fiber_moves_if_only_what_follows_is_edited(edit: str, tmp_path: Path) -> None:
    statement, old, new, result = KEPT[edit]
    assert old in statement
    module = module_with(tmp_path, statement)
    register_version(stored(version_of(module.main)))
    saved = parked(module).dumps()
    module_with(tmp_path, statement.replace(old, new))

    assert finish(Fiber.loads(saved)) == result


def test_of_two_loops_with_the_same_await_the_one_that_stays_keeps_its_fibers(tmp_path: Path) -> None:
    first = 'for one in "a":\n            total = await Op("price")'
    second = 'for two in "b":\n            total = await Op("price")'
    old = version_of(module_with(tmp_path, f"{first}\n        {second}").main)
    new = version_of(module_with(tmp_path, second).main)

    assert [move.verdict for move in report(old, new)] == ["lost", "moved"]


def test_a_variable_that_a_comprehension_shares_with_inner_functions_does_not_become_another_ones(
    tmp_path: Path,
) -> None:
    first = 'one = [(await Op("a"), (lambda: x)()) for x in "a"]'
    second = 'total = [(await Op("price"), (lambda: x)()) for x in "b"]'
    old = version_of(module_with(tmp_path, f"{first}\n        {second}").main)
    new = version_of(module_with(tmp_path, f"{second}\n        {first}").main)

    reasons = [move.reason for move in report(old, new) if move.verdict == "lost"]

    assert "inner functions share a variable of its comprehension, which stands elsewhere now" in reasons
    assert not [move for move in report(old, new) if move.verdict != "lost"]


def without_holds(version: Version, text: str = "") -> Version:
    """As it was stored before points told what they hold."""
    plain = version.as_plain()
    for point in plain["points"]:
        del point["holds"]
        point["text"] = text or point["text"]
    return Version.from_plain(plain)


def test_of_a_version_that_does_not_tell_what_was_computed_only_fibers_that_hold_nothing_move(tmp_path: Path) -> None:
    computed = module_with(tmp_path, 'total = total + await Op("price")')
    (move,) = report(without_holds(version_of(computed.main)), version_of(computed.main))
    assert (move.verdict, move.reason) == (
        "lost",
        "an older onceflow did not note what its expression had computed before it",
    )

    plain = module_with(tmp_path, 'for one in "a":\n            total = await Op("price")')
    (move,) = report(without_holds(version_of(plain.main)), version_of(plain.main))
    assert move.verdict == "moved"


def test_the_text_of_an_await_in_a_comprehension_is_the_users(tmp_path: Path) -> None:
    module = module_with(tmp_path, 'total = [await Op("price", one, two) for one in "a" async for two in agen(one)]')

    texts = [point.text for point in version_of(module.main).points]

    assert texts == ["async for two in agen(one)", "await Op('price', one, two)"]


def test_an_old_text_of_an_await_in_a_comprehension_is_read_as_the_users(tmp_path: Path) -> None:
    version = version_of(module_with(tmp_path, 'total = [await Op("price", one) for one in "a"]').main)

    old = without_holds(version, "await Op('price', _F_t4_one)")

    assert old.points[0].text == version.points[0].text == "await Op('price', one)"


@pytest.mark.parametrize(
    ("migrate", "verdict"),
    [
        ("lambda variables: 1 / 0", "migrate raised ZeroDivisionError: division by zero"),
        ("lambda variables: None", "migrate gave something of type NoneType, and not a dict of variables"),
        ("lambda variables: {'other': 1}", "check: missing ['bonus'] at line 11; migrate gave only ['other']"),
    ],
    ids=["raises", "gives nothing", "gives something else"],
)
def test_it_is_said_what_is_wrong_with_migrate(migrate: str, verdict: str, tmp_path: Path) -> None:
    module = module_with(tmp_path, 'total = await Op("price")')
    register_version(stored(version_of(module.main)))
    saved = parked(module).dumps()
    module_with(tmp_path, 'bonus = 7\n        total = (await Op("price")) + bonus', policy=f"migrate={migrate}")

    with pytest.raises(CodeChanged) as caught:
        Fiber.loads(saved)

    assert caught.value.verdict == verdict
