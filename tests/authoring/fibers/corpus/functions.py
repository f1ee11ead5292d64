"""Functions, closures, methods, arguments, objects."""

from __future__ import annotations

import functools
from typing import Any

from tests.authoring.fibers.world import echo, fail, fiber, log

COUNT = 0


@fiber
async def arguments(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    await echo(a)
    return a, b, c, args, d, e, sorted(kwargs.items())


@fiber
async def case_arguments():
    return (
        await arguments(1, d=4),
        await arguments(1, 2, 3, 4, 5, d=await echo(6), f=7),
        arguments.__kwdefaults__,
        arguments.__defaults__,
    )


@fiber
async def case_wrong_arguments():
    try:
        await arguments()
    except TypeError as error:
        return str(error), await echo(1)


@fiber
async def case_closures_share_variables():
    count = 0

    def bump(by=1):
        nonlocal count
        count += by
        return count

    bump()
    await echo(1)
    bump(10)
    count += 100
    await echo(2)
    return bump(), count


@fiber
async def case_lambdas_survive():
    factor = 2
    double, triple = (lambda x: x * factor), (lambda x: x * (factor + 1))
    await echo(1)
    factor = 10
    await echo(2)
    return double(1), triple(1), (lambda: lambda: factor)()()


@fiber
async def case_lambdas_on_one_line_are_told_apart():
    fs = [lambda: "a", lambda: "b", lambda: lambda: "c", lambda x=1: x]
    await echo(1)
    return fs[0](), fs[1](), fs[2]()(), fs[3]()


@fiber
async def case_lambdas_that_look_alike():
    n = 5
    fs = [lambda: n + 1, lambda: n - 1, lambda: 1 - n, (lambda: n + 1, lambda: lambda: n * 1)]
    await echo(1)
    return fs[0](), fs[1](), fs[2](), fs[3][0](), fs[3][1]()()


@fiber
async def case_recursive_inner_function():
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    def is_even(n):
        return n == 0 or is_odd(n - 1)

    def is_odd(n):
        return n != 0 and is_even(n - 1)

    await echo(1)
    return factorial(5), is_even(4)


@fiber
async def case_inner_function_with_state():
    def inner(a, b=[1], *, c=2):
        "doc"
        b.append(a)
        return b, c, inner.attribute

    inner.attribute = "set"
    inner(0)
    await echo(1)
    return inner(5), inner.__doc__, inner.__name__, inner.__qualname__


@fiber
async def case_captured_parameter(value=1):
    def get():
        return value

    value += await echo(1)
    await echo(0)
    return get(), value


@fiber
async def case_captured_loop_variable():
    functions = []
    for n in range(3):
        functions.append(lambda: n)
        await echo(n)
    return [f() for f in functions]


@fiber
async def case_comprehension_lambdas():
    functions = [lambda: n for n in range(3)]
    await echo(1)
    return [f() for f in functions]


@fiber
async def case_captured_in_handler():
    try:
        await fail("x")
    except Exception as error:
        show = lambda: repr(error)
        await echo(1)
        log(show())
    await echo(2)
    try:
        show()
    except NameError:
        return "gone"


@fiber
async def case_unbound_captured_variable():
    def get():
        return later

    await echo(1)
    try:
        get()
    except NameError:
        log("not yet")
    later = await echo(5)
    return get()


@fiber
async def case_partial_and_map():
    base = 5
    add = functools.partial(lambda a, b: a + b + base, 1)
    await echo(1)
    return add(2), list(map(lambda x: x + base, [1, 2]))


@fiber
async def case_annotated_captured_variable():
    total: int = 0
    later: str

    def add(n: int) -> None:
        nonlocal total, later
        total += n
        later = "set"

    add(await echo(1))
    await echo(2)
    return total, later


@fiber
async def case_nested_closures():
    a = 1

    def outer(b):
        def inner(c):
            return a + b + c

        return inner

    f = outer(10)
    await echo(1)
    a = 2
    await echo(2)
    return f(100)


@fiber
async def case_unawaited_coroutines():
    waiting = [arguments(n, d=n) for n in range(2)]
    await echo(1)
    return [await each for each in waiting]


@fiber
async def case_unawaited_coroutine_with_captured_argument():
    later = case_captured_parameter(5)
    await echo(1)
    return await later


@fiber
async def case_fan_out_in_an_operation():
    coroutines = await echo([arguments(1, d=2), arguments(3, d=4)])
    return [await coroutine for coroutine in coroutines]


class Base:
    def __init__(self):
        self.seen = []

    @fiber
    async def greet(self, name):
        self.seen.append(await echo(name))
        return f"base {name}"

    def plain(self, *values):
        return ("base", *values)


class Child(Base):
    kind = "child"

    @fiber
    async def greet(self, name):
        first = await super().greet(await echo(name))
        return first, super().plain(await echo(1)), self.plain(await echo(2)), __class__.kind

    def plain(self, *values):
        return ("child", *values)

    @classmethod
    @fiber
    async def build(cls, n):
        return cls.kind, await echo(n)

    @staticmethod
    @fiber
    async def helper(n):
        return await echo(n) + 1

    @fiber
    async def private(self):
        __x = await echo(1)
        self.__y = await echo(2)
        for __z in [1]:
            await echo(__z)
        return __x, self.__y, self.__secret(await echo(3)), sorted(n for n in vars(self) if "y" in n)

    def __secret(self, n):
        return ("secret", n)

    class Inner:
        @fiber
        async def method(self):
            return type(self).__qualname__, await echo(1)


@fiber
async def case_methods():
    child = Child()
    return (
        await child.greet("x"),
        await Child.build(1),
        await child.build(2),
        await Child.helper(3),
        await child.private(),
        await Child.Inner().method(),
        child.seen,
    )


@fiber
async def case_bound_methods_survive():
    child = Child()
    bound, via_super, made = child.plain, super(Child, child).plain, Child.build
    await echo(1)
    return bound(1), via_super(2), await made(3), bound.__self__ is via_super.__self__


@fiber
async def case_self_is_shared():
    child = Child()
    child.me = child
    await child.greet("a")
    await echo(1)
    return child.me is child, child.seen


@fiber
async def case_identity_and_cycles():
    a = [1]
    b = {"a": a, "again": a}
    a.append(b)
    t = (a, b)
    await echo(1)
    return b["a"] is a, a[1] is b, t[0] is a, t[1]["again"] is b["a"]


@fiber
async def case_globals():
    global COUNT
    COUNT = 1
    await echo(1)
    COUNT += await echo(1)
    result, COUNT = COUNT, 0
    return result


@fiber
async def case_global_in_a_branch():
    if await echo(True):
        global COUNT
        COUNT = 5
    result, COUNT = COUNT, 0
    return result


@fiber
async def case_local_imports():
    import math
    import os.path as path
    from collections import Counter

    await echo(1)
    return math.floor(2.5), path.basename("a/b"), Counter("aab")["a"]


@fiber
async def case_locals():
    a = 1
    await echo(2)
    b = [3]
    seen = dict(locals())
    return sorted(seen), a, b, sorted(name for name in dir() if not name.startswith("__"))


@fiber
async def case_eval():
    a = 1
    await echo(2)
    return eval("a + 1")


@fiber
async def case_inner_decorators_and_defaults():
    def twice(f):
        return lambda *args: f(*args) * 2

    @twice
    def inner(x, y=await echo(3)):
        return x + y

    return inner(1), await echo(2), inner(2)


@fiber
async def case_inner_class():
    class Local:
        value = 5

        def get(self):
            return self.value

    result = Local().get()
    del Local
    return result + await echo(1)


@fiber
async def case_inner_class_with_awaited_base():
    class Local(await echo(Base), metaclass=await echo(type)):
        pass

    result = Local().plain(1)
    del Local
    return result, await echo(2)


@fiber
async def case_dead_variables_are_dropped():
    lines = (line for line in "ab")
    text = "".join(lines)
    lock = __import__("threading").Lock()
    with lock:
        text += "!"
    return text + await echo("c")


@fiber
async def case_none_and_constants():
    x = None
    await echo(...)
    return x, await echo(None), NotImplemented is not None


@fiber
async def case_type_objects():
    kinds = [int, dict, Base, Child.Inner, type(None), ValueError]
    await echo(1)
    return [kind.__name__ for kind in kinds], kinds[2] is Base


def plain_helper(x: Any) -> Any:
    return x + 1


@fiber
async def case_functions_as_values():
    table = {"helper": plain_helper, "fiber": arguments, "len": len}
    await echo(1)
    return table["helper"](1), await table["fiber"](1, d=2), table["len"]("abc")


@fiber
async def case_docstring_only_matters_to_people():
    """A docstring."""
    return await echo(case_docstring_only_matters_to_people.__doc__)


@fiber
async def case_finished_coroutine():
    coroutine = arguments(1, d=2)
    await coroutine
    await echo(1)
    try:
        await coroutine
    except RuntimeError as error:
        return str(error)


@fiber
async def case_many_variables():
    a = b = c = d = e = 1
    x, y = await echo((1, 2))
    a += 1
    b += await echo(2)
    f = g = a + b
    return a, b, c, d, e, f, g, x, y


@fiber
async def case_delegating_return():
    return await case_many_variables()


@fiber
async def case_nothing_is_returned():
    await echo(1)


@fiber
async def case_sets_and_frozensets():
    s = {3, 1, 2}
    for x in sorted(s):
        s.discard(await echo(x))
    return s
