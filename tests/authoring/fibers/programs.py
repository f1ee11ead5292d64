"""Two generators of programs: one of expressions, one of dense control flow.

Both make the source of one durable function. Whatever they draw ends: loops have few rounds, and the world refuses to
carry out more than some hundred operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
INDENT = "    "


class Expressions:
    """Assignments whose right and left sides suspend everywhere."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._count = 0

    def program(self) -> str:
        lines = ["a, b, c = 1, [2, 3], Box(4)"]
        lines += [self._statement() for _ in range(self._draw(st.integers(1, 4)))]
        lines.append(f"return {self._expression(3)}, repr(a), repr(b), repr(c)")
        return _function(lines)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _choose(self, *options: Callable[[], str]) -> str:
        return options[self._draw(st.integers(0, len(options) - 1))]()

    def _statement(self) -> str:
        e = lambda: self._expression(2)  # noqa: E731
        return self._choose(
            lambda: f"a = {e()}",
            lambda: f"a = c[{e()}] = {e()}",
            lambda: f"c[{e()}] = {e()}",
            lambda: f"c[{e()}] += {self._integer()}",
            lambda: f"(await echo(c))[{e()}], a = {e()}, {e()}",
            lambda: f"a, *(b) = [{e()}, {e()}, {e()}]",
            lambda: f"c.value = {e()}",
            lambda: f"c.value = [c.value]; c.value += [{e()}]",
            lambda: f"b = [x for x in [note(1), a] if {e()}]",
            lambda: f"for a in [{e()}, {e()}]: log({e()})",
            lambda: f"f = lambda p={e()}: (p, a); a = f(); log(f({e()}))",
            lambda: f"assert {e()}, {e()}",
            lambda: f"log({e()})",
        )

    def _integer(self) -> str:
        return self._choose(lambda: f"await echo({self._next()})", lambda: f"note({self._next()})")

    def _expression(self, depth: int) -> str:
        if depth == 0:
            return self._choose(
                lambda: f"note({self._next()})",
                lambda: f"await echo({self._next()})",
                lambda: f"(await echo({self._next()}))",
                lambda: "a",
                lambda: "b",
                lambda: "c",
                lambda: str(self._next()),
                lambda: "0",
                lambda: f"await fail({self._next()})",
            )
        e = lambda: self._expression(depth - 1)  # noqa: E731
        return self._choose(
            lambda: self._expression(0),
            lambda: f"collect({e()}, {e()}, *[{e()}], key={e()}, **{{'k': {e()}}})",
            lambda: f"c.call({e()}, key={e()})",
            lambda: f"({e()}, {e()}, {e()})",
            lambda: f"[{e()}, *[{e()}], {e()}]",
            lambda: f"{{'p': {e()}, **{{'q': {e()}}}, 'r': {e()}}}",
            lambda: f"({e()} and {e()} or {e()})",
            lambda: f"({e()} if {e()} else {e()})",
            lambda: f"(repr({e()}) < repr({e()}) <= repr({e()}))",
            lambda: f"(not {e()})",
            lambda: f"f'{{{self._expression(0)}!r:>{{await echo(5)}}}} {{{self._expression(0)}}}'",
            lambda: f"(a := {e()})",
            lambda: f"[{e()} for x in (note({self._next()}), await echo(0)) if x or {e()}]",
            lambda: f"{{y: {e()} for y in 'ab'}}",
            lambda: f"[{e()} async for z in Steps(2)]",
            lambda: f"c[{e()}]",
            lambda: f"c[{e()}:{e()}]",
            lambda: f"(lambda p, q={e()}: (p, q))({e()})",
            lambda: f"(c + {e()})",
            lambda: f"await echo({e()})",
        )


class Control:
    """Statements in every nesting."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._count = 0
        self._shares = False
        """Whether there are inner functions that share its variables."""

    def program(self) -> str:
        start = ["x, y = 0, 0"]
        self._shares = self._flip()
        if self._shares:
            start += [
                "f = lambda: (x, y)",
                "def bump():",
                f"{INDENT}nonlocal x",
                f"{INDENT}x += 1",
                f"{INDENT}return x",
            ]
        return _function([*start, *self._block(3, 0), "return x, y"])

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _flip(self) -> bool:
        return bool(self._draw(st.booleans()))

    def _block(self, depth: int, loops: int, most: int = 3) -> list[str]:
        lines: list[str] = []
        for _ in range(self._draw(st.integers(1, most))):
            lines += self._statement(depth, loops)
        return lines

    def _inner(self, depth: int, loops: int) -> list[str]:
        return [INDENT + line for line in self._block(depth - 1, loops, 2)]

    def _statement(self, depth: int, loops: int) -> list[str]:
        simple = [self._log, self._await, self._add, self._closure]
        if depth < 3:  # else the program would mostly be over at once
            simple += [self._fail, self._raise, self._return]
        if loops:
            simple += [self._break, self._continue]
        compound = [self._if, self._for, self._while, self._try, self._try, self._try, self._with, self._match]
        compound += [self._async_for, self._star]
        if depth == 0 or self._draw(st.integers(0, 2)) == 0:
            return [simple[self._draw(st.integers(0, len(simple) - 1))]()]
        return compound[self._draw(st.integers(0, len(compound) - 1))](depth, loops)

    def _log(self) -> str:
        return f"log({self._next()}, x, y)"

    def _await(self) -> str:
        return f"{'xy'[self._flip()]} = await echo({self._next()})"

    def _add(self) -> str:
        return f"x += await echo({self._next()}) + y"

    def _fail(self) -> str:
        return f"await fail({self._next()})"

    def _raise(self) -> str:
        kind = self._draw(
            st.sampled_from(["ValueError({n})", "KeyError({n}) from ValueError(x)", "Stop({n}) from None"])
        )
        return f"raise {kind.format(n=self._next())}"

    def _return(self) -> str:
        return f"return {self._draw(st.sampled_from(['x', 'await echo({n})', '({n}, y)'])).format(n=self._next())}"

    def _closure(self) -> str:
        if self._shares:
            return str(self._draw(st.sampled_from(["log(f())", "log(bump())", "y = bump() + await echo(x)"])))
        return f"log((lambda n: (n, x))({self._next()}))"

    def _break(self) -> str:
        return f"if x % 3 {self._draw(st.sampled_from(['== 1', '!= 1', '< 2']))}: break"

    def _continue(self) -> str:
        return f"if (await echo(x)) % 2 == {int(self._flip())}: continue"

    def _test(self) -> str:
        tests = ["x % 2", "await echo(y) % 2", "await echo({n}) and x < y", "True", "x is None"]
        return str(self._draw(st.sampled_from(tests))).format(n=self._next())

    def _if(self, depth: int, loops: int) -> list[str]:
        lines = [f"if {self._test()}:", *self._inner(depth, loops)]
        if self._flip():
            lines += [f"elif {self._test()}:", *self._inner(depth, loops)]
        if self._flip():
            lines += ["else:", *self._inner(depth, loops)]
        return lines

    def _for(self, depth: int, loops: int) -> list[str]:
        name = f"i{self._next()}"
        sources = ["range(2)", "[1, 2]", "await echo((3, 4))", "enumerate('ab')", "{{1: 2}}.items()", "zip('a', [x])"]
        source = self._draw(st.sampled_from(sources)).replace("{{", "{").replace("}}", "}")
        target = f"{name}, z" if any(word in source for word in ("enumerate", "items", "zip")) else name
        lines = [f"for {target} in {source}:", f"{INDENT}log({name!r}, {name})", *self._inner(depth, loops + 1)]
        if self._flip():
            lines += ["else:", *self._inner(depth, loops)]
        return lines

    def _while(self, depth: int, loops: int) -> list[str]:
        name = f"n{self._next()}"
        test = f"await echo({name}) < 2" if self._flip() else f"{name} < 2"
        lines = [f"{name} = 0", f"while {test}:", f"{INDENT}{name} += 1", *self._inner(depth, loops + 1)]
        if self._flip():
            lines += ["else:", *self._inner(depth, loops)]
        return lines

    def _async_for(self, depth: int, loops: int) -> list[str]:
        lines = ["async for s in Steps(2):", *self._inner(depth, loops + 1)]
        if self._flip():
            lines += ["else:", *self._inner(depth, loops)]
        return lines

    def _try(self, depth: int, loops: int) -> list[str]:
        lines = ["try:", *self._inner(depth, loops)]
        handlers = self._draw(st.integers(0, 2))
        heads = ["except Boom as e:", "except (ValueError, KeyError) as e:", "except Exception:", "except:"]
        chosen = sorted(self._draw(st.sets(st.integers(0, 3), min_size=handlers, max_size=handlers)))
        for index in chosen:
            lines += [heads[index], *self._inner(depth, loops)]
            if "as e" in heads[index] and self._flip():
                lines.append(f"{INDENT}log(repr(e), repr(e.__context__))")
            if self._flip():
                lines.append(f"{INDENT}raise")
        if chosen and self._flip():
            lines += ["else:", *self._inner(depth, loops)]
        if not chosen or self._flip():
            lines += ["finally:", *self._inner(depth, loops)]
        return lines

    def _star(self, depth: int, loops: int) -> list[str]:
        lines = ["try:", *self._inner(depth, loops), "except* Boom as group:", f"{INDENT}log(repr(group.exceptions))"]
        if self._flip():
            lines += ["finally:", *self._inner(depth, loops)]
        return lines

    def _with(self, depth: int, loops: int) -> list[str]:
        kind = "async with Async" if self._flip() else "with "
        name = f"m{self._next()}"
        head = f"{kind}Manager({self._next()}, {self._flip()}) as {name}"
        if self._flip():
            head += f", {'Async' * ('async' in kind)}Manager(await echo({self._next()}), {self._flip()})"
        return [f"{head}:", f"{INDENT}log({name}.name)", *self._inner(depth, loops)]

    def _match(self, depth: int, loops: int) -> list[str]:
        guard = f" if await echo({self._next()}) > y" if self._flip() else " if x > 1" if self._flip() else ""
        lines = ["match (x, await echo(y)):", f"{INDENT}case (0, w){guard}:"]
        lines += [INDENT + line for line in self._inner(depth, loops)]
        lines += [f"{INDENT}case (int(x), _):", *(INDENT + line for line in self._inner(depth, loops))]
        return lines


class Generators(Control):
    """The same in a generator, which is driven by a fiber."""

    def program(self) -> str:
        body = super().program().replace("async def program", "def generator")
        body = body.replace("x, y = 0, 0", "x, y = await echo(0), 0")
        body = re.sub(r"await (echo|fail)\(([^()]*)\)", r"(yield ('\1', \2))", body)
        return f"{body}\n@fiber\nasync def program():\n{INDENT}return await drive(generator())\n"

    def _async_for(self, depth: int, loops: int) -> list[str]:
        return self._for(depth, loops)

    def _with(self, depth: int, loops: int) -> list[str]:
        return [line.replace("async with Async", "with ").replace("Async", "") for line in super()._with(depth, loops)]

    def _for(self, depth: int, loops: int) -> list[str]:
        return [line.replace("await echo((3, 4))", "(yield ('echo', (3, 4)))") for line in super()._for(depth, loops)]


def _function(lines: list[str]) -> str:
    return "\n".join(["@fiber", "async def program():", *(INDENT + line for line in lines), ""])


@st.composite
def expressions(draw: Draw) -> str:
    return Expressions(draw).program()


@st.composite
def generators(draw: Draw) -> str:
    return Generators(draw).program()


@st.composite
def control(draw: Draw) -> str:
    return Control(draw).program()
