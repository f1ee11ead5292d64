"""Loops, branches, comprehensions and match."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import math

from tests.authoring.fibers.world import echo, fail, fiber, log


@fiber
async def case_if_chain():
    found = []
    for n in range(4):
        if n == await echo(0):
            found.append("zero")
        elif n == await echo(1):
            found.append(await echo("one"))
        elif n == 2:
            found.append("two")
        else:
            found.append(await echo("many"))
    return found


@fiber
async def case_while_with_else():
    n = 0
    while n < 3:
        n += await echo(1)
    else:
        log(await echo("else"))
    while n:
        n -= 1
        if await echo(n) == 1:
            break
    else:
        log("never")
    return n


@fiber
async def case_await_in_while_test():
    n = 0
    while await echo(n) < 3:
        n += 1
        if n == 2:
            continue
        log("body", n)
    else:
        n += await echo(10)
    while (x := await echo(n)) > 11:
        n -= 1
        if x == 12:
            break
    else:
        log("never")
    return n


@fiber
async def case_for_with_else():
    out = []
    for a, b in [(1, 2), (3, 4)]:
        out.append(a + await echo(b))
    else:
        out.append(await echo("else"))
    for x in [1, 2, 3]:
        if x == await echo(2):
            break
    else:
        out.append("never")
    return out, x, a, b


@fiber
async def case_nested_loops():
    out = []
    for i in range(3):
        for j in range(3):
            if j == 2:
                break
            if i == 1:
                continue
            out.append((i, await echo(j)))
        else:
            out.append("never")
        out.append(await echo(i))
    return out


@fiber
async def case_loop_variable_is_changed_in_the_body():
    out = []
    for x in [1, 2, 3]:
        x = x * 10
        await echo(x)
        out.append(x)
    return out, x


@fiber
async def case_loop_variable_is_deleted_in_the_body():
    out = []
    for x in [1, 2]:
        del x
        await echo(0)
        try:
            out.append(x)
        except UnboundLocalError:
            out.append("gone")
    return out


@fiber
async def case_loop_targets():
    d, items = {}, [0, 0]
    for d["k"] in [1, 2]:
        await echo(d["k"])
    for items[await echo(1)] in "ab":
        log(list(items))
    for (a, *b), c in [((1, 2, 3), 4)]:
        await echo(a)
    return d, items, a, b, c


@fiber
async def case_await_in_iterable():
    return [x for x in await echo([1, 2])] + [x async for x in Counter(2)], sum(x for x in await echo([1, 2]))


@fiber
async def case_loop_over_many_kinds():
    out = []
    for number in range(18):
        sources = [
            [1, 2], (3, 4), "ab", b"cd", range(2), {"k": 1}, {"k": 1}.items(), {"k": 1}.values(), {5}, frozenset({6}),
            collections.deque([7, 8]), collections.OrderedDict(a=1), reversed([9, 10]), enumerate("xy"),
            zip("ab", [1, 2]), map(abs, [-1, -2]), filter(None, [0, 1, 2]), iter([11]),
        ]  # fmt: skip
        for x in sources[number]:
            out.append((x, await echo(0)))
    return out


@fiber
async def case_an_iterator_is_shared_after_a_reload():
    it = iter([1, 2, 3, 4, 5])
    out = []
    for x in it:
        out.append((x, next(it, None), await echo(x)))
    return out


@fiber
async def case_list_changed_while_iterated():
    items = [1, 2, 3]
    for x in items:
        if x < 3:
            items.append(await echo(x + 10))
    return items


@fiber
async def case_comprehensions():
    a = [await echo(x) for x in range(3) if await echo(x) != 1]
    b = sorted({await echo(x % 2) for x in range(3)})
    c = {await echo(k): await echo(k * 2) for k in "ab"}
    d = [[await echo(x * y) for x in range(2)] for y in range(2)]
    e = [(x, y) for x in range(2) for y in range(await echo(2)) if x != y]
    return a, b, c, d, e


@fiber
async def case_comprehension_scope():
    x = "outer"
    inner = [await echo(x) for x in range(2)]
    return x, inner, [x + str(y) for y in [await echo(1)]]


@fiber
async def case_walrus_in_comprehension():
    found = [last := await echo(n) for n in range(3)]
    return found, last


@fiber
async def case_comprehension_shadowing():
    x = 5
    return (
        [[x for x in range(await echo(x))] + [x] for x in (1, 2)],
        [(lambda x: x + 1)(await echo(x)) for x in (3,)],
        x,
    )


@fiber
async def case_generator_expression_before_the_pause():
    total = sum(n * 2 for n in range(3)) + await echo(1)
    return total, max(len(word) for word in ["a", await echo("bcd")])


class Counter:
    def __init__(self, end):
        self.n, self.end = 0, end

    def __aiter__(self):
        log("aiter")
        return self

    @fiber
    async def __anext__(self):
        self.n += 1
        if await echo(self.n) > self.end:
            raise StopAsyncIteration
        return self.n


@fiber
async def case_async_for():
    out = []
    async for x in Counter(3):
        if x == 2:
            continue
        out.append(x + await echo(10))
    else:
        out.append("else")
    async for x in Counter(5):
        if x == await echo(2):
            break
    else:
        out.append("never")
    return out, x


@fiber
async def case_async_comprehensions():
    return (
        [x async for x in Counter(2)],
        sorted({x + await echo(1) async for x in Counter(2)}),
        {x: y async for x in Counter(2) for y in [await echo(x)]},
    )


@fiber
async def case_async_for_over_nothing_of_the_kind():
    try:
        async for x in await echo([1]):
            log(x)
    except TypeError as error:
        return str(error)


class StopsInBody:
    def __aiter__(self):
        return self

    @fiber
    async def __anext__(self):
        return await echo(1)


@fiber
async def case_a_stop_in_the_body_is_not_the_end_of_async_for():
    try:
        async for _ in StopsInBody():
            raise StopAsyncIteration("mine")
    except StopAsyncIteration as error:
        return str(error), await echo(2)
    except RuntimeError as error:
        return str(error)


@dataclasses.dataclass
class Point:
    x: int
    y: int


@fiber
async def case_match():
    out = []
    for subject in (0, "text", [1, 2, 3], {"k": 1, "z": 2}, Point(0, 3), Point(1, 2), None, 2.5, (7,)):
        match await echo(subject):
            case 0:
                out.append(await echo("zero"))
            case str() as text if len(text) > 3:
                out.append((text, await echo("long")))
            case [first, *rest]:
                out.append((first, rest, await echo(len(rest))))
            case {"k": value, **others}:
                out.append((value, others, await echo(value)))
            case Point(x=0, y=y):
                out.append(("on axis", await echo(y)))
            case Point(x, y):
                out.append(x + y)
            case None | 2.5:
                out.append(await echo("either"))
    return out


@fiber
async def case_match_with_awaiting_guards():
    out = []
    for subject in (1, 2, 3, [4]):
        match subject:
            case int(n) if await echo(n) == 1:
                out.append("one")
            case int(n) if n == 2:
                out.append(await echo("two"))
            case [n] if await echo(True) and n:
                out.append(n)
            case n:
                out.append(("else", await echo(n)))
    return out


@fiber
async def case_match_subject_only():
    match await echo("x"), 1:
        case ("x", n):
            return n
    return None


@fiber
async def case_break_and_continue_in_match():
    out = []
    for n in range(5):
        match n:
            case 1:
                await echo(n)
                continue
            case 3:
                out.append(await echo("stop"))
                break
            case _:
                out.append(n)
    else:
        out.append("never")
    return out


@fiber
async def case_a_loop_without_await_in_a_function_with_one():
    total = 0
    for n in range(100):
        if n % 7 == 0:
            continue
        total += n
    return total + await echo(math.floor(1.5))


@fiber
async def case_recursion():
    return await fibonacci(6)


@fiber
async def fibonacci(n):
    if n < 2:
        return await echo(n)
    return await fibonacci(n - 1) + await fibonacci(n - 2)


@fiber
async def case_mutual_recursion():
    return await even(7)


@fiber
async def even(n):
    return True if n == 0 else await odd(n - 1)


@fiber
async def odd(n):
    return False if n == 0 else await even(n - (await echo(1)))


@fiber
async def case_a_failing_iterator():
    class Failing:
        def __iter__(self):
            raise KeyError("no iteration")

    try:
        for _ in Failing():
            await echo(1)
    except KeyError as error:
        del Failing
        return repr(error), await echo(2)


@fiber
async def case_while_true_with_return():
    n = 0
    while True:
        n += 1
        if await echo(n) == 3:
            return n


@fiber
async def case_fail_in_loop():
    for n in range(3):
        try:
            await fail(n)
        except Exception as error:
            log(repr(error))
            continue
        finally:
            log("finally", n)
    return n


@fiber
async def case_iter_with_sentinel():
    source = [3, 2, 1, 0]
    out = []
    for x in iter(source.pop, 3):
        out.append(await echo(x))
    return out
