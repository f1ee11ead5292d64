"""An await anywhere in an expression."""

from __future__ import annotations

import sys
from typing import Any

from tests.authoring.fibers.world import echo, fail, fiber, log, op


def note(value: Any) -> Any:
    log("note", value)
    return value


def collect(*args: Any, **kwargs: Any) -> Any:
    return args, sorted(kwargs.items())


class Box:
    def __init__(self, value: Any = 0) -> None:
        self.value = value
        self.items = {}

    def __getitem__(self, index: Any) -> Any:
        log("get", index)
        return self.items.get(str(index), 0)

    def __setitem__(self, index: Any, value: Any) -> None:
        log("set", index, value)
        self.items[str(index)] = value

    def __delitem__(self, index: Any) -> None:
        log("del", index)

    def __bool__(self) -> bool:
        log("bool", self.value)
        return bool(self.value)

    def __lt__(self, other: Any) -> Any:
        log("lt", self.value, other.value)
        return Box(self.value < other.value)

    def __repr__(self) -> str:
        return f"Box({self.value!r})"

    def method(self, *args: Any) -> Any:
        return (self.value, *args)


class Operand(Box):
    """From Python 3.12 on, native code asks the inner operand of `x and y or z` twice: there, only the first time is
    noted."""

    def __bool__(self) -> bool:
        if sys.version_info < (3, 12) or "asked" not in self.items:
            log("bool", self.value)
        self.items["asked"] = True
        return bool(self.value)


@fiber
async def case_operands_keep_their_order():
    return note(1) + await echo(10) * note(2) - await echo(3) + note(4)


@fiber
async def case_arguments_are_pinned():
    return collect(note(1), await echo(2), note(3), *[note(4)], key=await echo(5), **{"other": note(6)})


@fiber
async def case_unpacked_arguments():
    args, words = [1, 2], {"a": 1}
    result = collect(*args, await echo(3), *args, **words, b=await echo(4))
    args.append(9)
    return result


@fiber
async def case_star_is_evaluated_before_keyword():
    return collect(key=await echo(1), *[note(2), await echo(3)])


@fiber
async def case_displays():
    x = [note(1), await echo(2), *[3, await echo(4)], note(5)]
    y = (await echo(1), *(2, 3), await echo(4))
    z = sorted({await echo("a"), "b", await echo("c")})
    d = {note("k"): await echo(1), **{"m": 2}, await echo("n"): note(3)}
    return x, y, z, d


@fiber
async def case_a_mutable_left_operand_is_pinned_by_reference():
    items = [1]
    both = (items, await echo(2), items)
    items.append(3)
    return both, both[0] is both[2]


@fiber
async def case_slices():
    items = list(range(10))
    box = Box()
    return items[await echo(1) : await echo(8) : 2], box[1:2, await echo(3)], items[: await echo(2)]


@fiber
async def case_comparisons():
    one = note(1) < await echo(2) < note(3) < await echo(4)
    two = note(1) < await echo(0) < note(3) < await echo(4)
    return one, two, 3 in [await echo(3)], await echo(None) is None


@fiber
async def case_comparison_chains_ask_for_truth_once():
    a, b, c = Box(1), Box(2), Box(3)
    return a < await echo(b) < c, (c < await echo(b) < a).value


@fiber
async def case_boolean_operators():
    a = note(0) or await echo("") or note("last")
    b = note(1) and await echo(2) and note(0) and await echo("never")
    c = await echo(0) and note("never")
    return a, b, c, not await echo(0)


@fiber
async def case_boolean_operators_ask_for_truth_once():
    return [x.value for x in (Box(0) or await echo(Box(1)) or Box(2), Box(1) and await echo(Box(0)) and Box(5))]


@fiber
async def case_nested_boolean_operators_ask_for_truth_once():
    found = []
    for a, b, c in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1)):
        found.append((Operand(a) and await echo(Operand(b)) or Operand(c)).value)
        found.append((Operand(a) and Operand(b) or await echo(Operand(c))).value)
        found.append(((Operand(a) or Operand(b)) and (await echo(Operand(c)) or Operand(a))).value)
    return found


@fiber
async def case_conditions_ask_for_truth_once():
    found = []
    for a, b, c in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1)):
        if Box(a) and await echo(Box(b)) or Box(c):
            found.append("if")
        if not (Box(a) or await echo(Box(b))):
            found.append("if not")
        found.append("then" if Box(a) and not await echo(Box(b)) else "else")
        assert Box(1) or await echo(Box(b))
        while Box(a) and await echo(Box(b)):
            found.append("while")
            a = 0
    return found


@fiber
async def case_conditional_expressions():
    return [
        (await echo("yes") if note(flag) else await echo("no")) + (note("a") if await echo(flag) else note("b"))
        for flag in (True, False)
    ]


@fiber
async def case_formatted_strings():
    width, value = 8, 3.14159
    return f"{note('a')}-{await echo('b')!r:>{await echo(width)}}-{value:.{await echo(2)}f}{note('z')}{{}}"


@fiber
async def case_walrus():
    total = (x := await echo(3)) + x + (x := x + await echo(4)) + x
    return total, x


@fiber
async def case_a_name_that_is_rebound_later_keeps_its_value():
    x = 1
    return x + (x := await echo(10)) + x


@fiber
async def case_lambda_defaults():
    function = lambda a=await echo(1), *, b=note(2), c=await echo(3): (a, b, c)
    return function(), function(7)


@fiber
async def case_attribute_and_method():
    box = Box(5)
    box.value = await echo(6)
    return box.method(await echo(1), note(2)), (await echo(box)).value, (await echo([1, 2]))[1]


@fiber
async def case_the_method_is_looked_up_first():
    box = Box(1)
    return box.method(await replace(box))


@fiber
async def replace(box):
    box.method = lambda *args: "replaced"
    return await echo("argument")


@fiber
async def case_a_built_in_method_is_pinned():
    items: list = []
    items.append(await echo(1))
    seen = set()
    seen.add((await echo(2), items.append(await echo(3))))
    return items, seen, ",".join([await echo("a"), "b"]), {}.get(await echo("x"), await echo("default"))


@fiber
async def case_targets():
    box, items = Box(), [0, 0, 0]
    items[await echo(1)] = await echo("value")
    box[note("i")] = await echo(1)
    (await echo(box)).value = 3
    a, items[await echo(0)], *(b,) = 1, 2, 3
    box[await echo("j")], box.value = box[note("k")], await echo(9)
    return items, box, a, b, box.items


@fiber
async def case_several_targets():
    box = Box()
    x = box[await echo("a")] = box[note("b")] = await echo(1)
    [y, (z, box[await echo("c")])] = [1, (2, 3)]
    return x, y, z, sorted(box.items.items())


@fiber
async def case_augmented_assignment():
    x, box, items = 1, Box(), [1, 2, 3]
    alias = items
    x += await echo(2)
    box[note("i")] += await echo(3)
    box.value += await echo(4)
    items[await echo(0)] *= await echo(5)
    items += [await echo(6)]
    items[1:2] += await echo([7])
    return x, box.items, box, items, alias is items


@fiber
async def case_augmented_assignment_reads_first():
    x = 1

    def change():
        nonlocal x
        x = 100
        return 1

    x += await echo(1) + change()
    return x


@fiber
async def case_annotated_assignment():
    x: int = await echo(1)
    box = Box()
    box.value: int = await echo(2)
    y: str
    return x, box.value


@fiber
async def case_delete():
    box, items = Box(), [1, 2, 3]
    del box[await echo("a")], items[await echo(0)], box[note("b")]
    x = 1
    del x
    await echo(0)
    try:
        return x
    except NameError:
        return items


@fiber
async def case_assert():
    assert await echo(True), note("never")
    try:
        assert await echo(0), f"message {await echo(1)}"
    except AssertionError as error:
        log(str(error))
    assert note(False), await echo("end")


@fiber
async def case_nested_awaits():
    return await echo(await echo(1) + await echo(await echo(2)))


@fiber
async def case_failing_operands():
    try:
        return note(1) + await fail("middle") + note(3)
    except Exception as error:
        return repr(error), await echo("after")


@fiber
async def case_an_unbound_left_operand_fails_first():
    if await echo(0):
        x = 1
    try:
        return x + await echo("never")
    except UnboundLocalError:
        return "unbound"


@fiber
async def case_subscript_of_await_in_call():
    table = {"f": collect}
    return table["f"](await echo(1)), table[await echo("f")](2)


@fiber
async def case_a_global_is_looked_up_when_called():
    return len([await echo(1), await echo(2)]) + max(await echo(3), 2)


@fiber
async def case_multi_line():
    return collect(
        note(1),
        await echo(
            2,
        ),
        key=(await echo(3)),
    )


@fiber
async def case_labels():
    return await op("echo", 1, label="first") + await op("echo", 2, label="second")


@fiber
async def case_deep_expression():
    return [
        {"a": (await echo(1), [await echo(2) if await echo(True) else 0])},
        f"{[x + await echo(1) for x in (1, 2)]}",
        (lambda n: n + 1)(await echo(5)),
    ]


@fiber
async def case_starred_targets():
    first, *rest = [await echo(1), await echo(2), await echo(3)]
    *start, box = await echo([1, 2, 3])
    return first, rest, start, box


@fiber
async def case_return_tuple_with_star():
    return 1, *[await echo(2)], *(3, await echo(4))


@fiber
async def case_dict_unpack_order():
    return {**{"a": note(1)}, "b": await echo(2), **{"a": await echo(3)}}


@fiber
async def case_int_power_and_unary():
    return -((await echo(2)) ** await echo(3)), ~await echo(1), +(await echo(5))


@fiber
async def case_nothing_to_wait_for():
    return note("straight")
