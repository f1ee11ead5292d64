"""What is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow.authoring.fibers import fiber
from onceflow.errors import DurableSyntaxError, InvalidOption
from tests.authoring.fibers.writing import write

GENERATOR_EXPRESSION = (
    "await in a generator expression (that makes it an async generator, which cannot be saved) is not supported in a "
    "durable function; use a list [...] instead"
)
EXCEPT_STAR = (
    "await inside an except* block is not supported in a durable function (collect what you need there, await after it)"
)
YIELD = (
    "durable function f contains yield (async generator), which cannot be saved; return a list, or make a class with a "
    "durable __anext__"
)

REFUSED = {
    "await in a generator expression": (
        """
        @fiber
        async def f():
            return sum(await Op("x") for n in range(3))
        """,
        4,
        GENERATOR_EXPRESSION,
    ),
    "async for in a generator expression": (
        """
        @fiber
        async def f(xs):
            return 1, (
                x
                async for x in xs
            )
        """,
        6,
        GENERATOR_EXPRESSION,
    ),
    "await in a nested generator expression": (
        """
        @fiber
        async def f(xs):
            return [(await Op("x") for n in range(3)) for x in xs]
        """,
        4,
        GENERATOR_EXPRESSION,
    ),
    "await in except*": (
        """
        @fiber
        async def f():
            try:
                pass
            except* ValueError:
                await Op("x")
        """,
        7,
        EXCEPT_STAR,
    ),
    "await in an except clause": (
        """
        @fiber
        async def f():
            try:
                pass
            except (await Op("kind")):
                pass
        """,
        6,
        "await in the expression of an except clause is not supported in a durable function (await before the try)",
    ),
    "yield": (
        """
        @fiber
        async def f():
            yield await Op("x")
        """,
        2,
        YIELD,
    ),
    "not async": (
        """
        @fiber
        def f():
            return 1
        """,
        2,
        "durable function f is neither async nor a generator: there is nothing it could wait for",
    ),
    "variables of an enclosing function": (
        """
        def mk(n):
            @fiber
            async def f():
                return n + await Op("x")

            return f

        mk(1)
        """,
        3,
        (
            "durable function mk.<locals>.f uses variables of an enclosing function (n); it could not be found "
            "again in "
            "another process. Move it to module level and pass them as arguments."
        ),
    ),
    "inside a function": (
        """
        def mk():
            @fiber
            async def f():
                return await Op("x")

            return f

        mk()
        """,
        3,
        (
            "durable function mk.<locals>.f is defined inside a function; it could not be found again in another "
            "process. "
            "Move it to module level."
        ),
    ),
    "not the innermost decorator": (
        """
        import functools

        def other(function):
            @functools.wraps(function)
            async def wrapper():
                return await function()

            return wrapper

        @fiber
        @other
        async def f():
            return await Op("x")
        """,
        5,
        "durable function f is wrapped by another decorator; @fiber must be the innermost one",
    ),
    "reserved names": (
        """
        @fiber
        async def f():
            _F_x = await Op("x")
        """,
        4,
        "_F_x: names that begin with _F_ are reserved in a durable function",
    ),
    "await in an annotation": (
        """
        @fiber
        async def f():
            x: (await Op("x")) = 1
        """,
        4,
        "await in an annotation is not supported in a durable function",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_supported_is_refused_with_file_and_line(what: str, tmp_path: Path) -> None:
    source, line, problem = REFUSED[what]

    with pytest.raises(DurableSyntaxError) as caught:
        write(tmp_path / "refused.py", source)

    assert str(caught.value) == f"{tmp_path / 'refused.py'}:{line}: {problem}"
    assert (caught.value.file, caught.value.line, caught.value.problem) == (str(tmp_path / "refused.py"), line, problem)


def test_too_many_nested_blocks_are_refused(tmp_path: Path) -> None:
    """The interpreter allows twenty, and some of ours become two."""
    lines = ["@fiber", "async def f(lock):"]
    lines += [f"{'    ' * depth}async with lock:" for depth in range(1, 13)]
    lines += [f"{'    ' * 13}await Op('x')", ""]

    with pytest.raises(DurableSyntaxError) as caught:
        write(tmp_path / "nested.py", "\n".join(lines))

    assert caught.value.problem == (
        "durable function f cannot be compiled (too many statically nested blocks); split it into several"
    )


def test_a_function_without_source_is_refused() -> None:
    names: dict[str, object] = {"fiber": fiber, "__name__": "nowhere"}

    with pytest.raises(DurableSyntaxError, match="its source text cannot be read; a durable function needs its source"):
        exec(compile("@fiber\nasync def f(): pass", "<nowhere>", "exec"), names)


def test_a_file_that_was_edited_after_its_import_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "edited.py", "async def f():\n    return await Op('one')\n")
    plain = write(tmp_path / "edited.py", "async def f():\n    return await Op('one')\n").f
    write(tmp_path / "edited.py", "async def f():\n    return await Op('other')\n")

    with pytest.raises(DurableSyntaxError, match=r"the file is not what was imported \(was it edited meanwhile\?\)"):
        fiber(plain)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="@fiber takes a function and must be the innermost decorator"):
        fiber(staticmethod(len))  # type: ignore[type-var]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidOption, match="on_change must be 'pin', 'move' or 'fail', not 'hope'"):
        fiber(on_change="hope")  # type: ignore[call-overload]
