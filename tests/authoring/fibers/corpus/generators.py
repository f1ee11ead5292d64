"""Durable generators and context managers."""

from __future__ import annotations

import contextlib

from tests.authoring.fibers.world import Boom, echo, fail, fiber, log


@fiber
def counting(end):
    for n in range(end):
        log("yielding", n)
        yield n


@fiber
def conversation(first):
    got = yield first
    while got is not None:
        got = yield ("got", got)
    return "over"


@fiber
def delegating():
    yield "first"
    result = yield from conversation("inner")
    yield ("result", result)
    yield from [1, 2]
    yield from counting(2)
    return (yield "last")


@fiber
def careful():
    try:
        yield 1
        yield 2
    except Boom as error:
        yield ("handled", repr(error))
        raise
    finally:
        log("finally")


@fiber
def tree(depth):
    if depth:
        yield from tree(depth - 1)
        yield depth
        yield from tree(depth - 1)


@fiber
def with_closure(start):
    total = start

    def add(n):
        nonlocal total
        total += n
        return total

    while True:
        add((yield (lambda: total)()) or 1)


@fiber
async def case_for_over_a_generator():
    out = []
    for n in counting(3):
        out.append((n, await echo(n)))
    return out


@fiber
async def case_generator_not_started():
    numbers = counting(2)
    await echo(1)
    return list(numbers)


@fiber
async def case_generator_half_way():
    numbers = counting(4)
    log(next(numbers), next(numbers))
    await echo(1)
    rest = list(numbers)
    await echo(2)
    return rest, list(numbers)


@fiber
async def case_sending_to_a_generator():
    talk = conversation("hello")
    log(next(talk))
    await echo(1)
    log(talk.send("a"))
    await echo(2)
    try:
        talk.send(None)
    except StopIteration as end:
        return end.value


@fiber
async def case_yield_from():
    source = delegating()
    out = []
    sent = None
    while True:
        try:
            out.append(source.send(sent))
        except StopIteration as end:
            return out, end.value
        sent = await echo("x" if len(out) == 2 else None)


@fiber
async def case_throwing_into_a_generator():
    source = careful()
    log(next(source))
    await echo(1)
    log(source.throw(Boom("thrown")))
    await echo(2)
    try:
        next(source)
    except Boom as error:
        return repr(error)


@fiber
async def case_recursive_generator():
    out = []
    for n in tree(3):
        out.append(n)
        if n > 1:
            await echo(n)
    return out


@fiber
async def case_generator_with_closure():
    source = with_closure(10)
    log(next(source))
    await echo(1)
    log(source.send(5))
    await echo(2)
    return source.send(None)


@fiber
async def case_two_names_for_one_generator():
    a = counting(5)
    b = [a, zip(a, a)]
    next(a)
    await echo(1)
    return next(b[0]), next(b[1]), b[0] is a


@fiber
async def case_generator_pipeline():
    numbers = map(lambda n: n * 2, counting(4))
    out = []
    for n in filter(None, numbers):
        out.append(await echo(n))
    return out


@contextlib.contextmanager
@fiber
def managed(name, swallow=False):
    log("enter", name)
    try:
        yield name.upper()
    except Boom as error:
        log("failed", name, repr(error))
        if not swallow:
            raise
    finally:
        log("leave", name)


@fiber
async def case_context_manager():
    with managed("a") as a, managed("b", swallow=True) as b:
        log(await echo(a + b))
        await fail("inside")
    return await echo("after")


@fiber
async def case_context_manager_lets_errors_through():
    with managed("a"):
        await echo(1)
        with managed("b"):
            await fail("out")


@fiber
async def case_context_manager_and_return():
    with managed("a") as a:
        return await echo(a)


@fiber
async def case_context_manager_not_entered():
    manager = managed("late")
    await echo(1)
    with manager as name:
        return name


@fiber
async def case_exit_stack_of_managers():
    with contextlib.ExitStack() as stack:
        for name in "ab":
            stack.enter_context(managed(name))
            await echo(name)
        log("inside")
    return await echo("left")


@fiber
async def case_as_decorator():
    return await echo(decorated(3))


@managed("decorator")
def decorated(n):
    return n + 1


class Waiting:
    """An awaitable of its own."""

    def __init__(self, n):
        self.n = n

    @fiber
    def __await__(self):
        first = yield from echo(self.n).__await__()
        second = yield from echo(first + 1).__await__()
        return first + second


@fiber
async def case_durable_await_method():
    return await Waiting(1) + await Waiting(10)


@fiber
def expressions():
    x = (yield 1) + (yield 2)
    y = [x, (yield 3), *[(yield 4)]] if (yield "test") else None
    z = {"k": (yield 5)}
    return x, y, z


@fiber
async def case_yields_in_expressions():
    source = expressions()
    sent = None
    while True:
        try:
            n = source.send(sent)
        except StopIteration as end:
            return end.value
        sent = await echo(n * 2)
