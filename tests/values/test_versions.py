"""Versions of code."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from onceflow import task
from onceflow.values import versions
from onceflow.values.versions import changed, code_version

BEFORE = """
def function(first, second=2, *, third=3):
    sum = first + second
    total = -sum
    return [value * total for value in (third, "text", None) if value in {1, 2}]
"""


def define(source: str, line: int = 1, file: str = "file.py") -> Callable[..., Any]:
    scope: dict[str, Any] = {"__name__": "somewhere"}
    exec(compile("\n" * (line - 1) + textwrap.dedent(source), file, "exec"), scope)
    return scope["function"]  # type: ignore[no-any-return]


def test_a_version_begins_with_the_tag_of_the_interpreter() -> None:
    tag, _, digest = code_version(define(BEFORE)).partition(":")
    assert tag == f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert len(digest) == 16


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        BEFORE.replace("    sum =", '    """What it does."""\n    sum ='),
        BEFORE.replace("    sum =", "    # why\n\n    sum ="),
        BEFORE.replace("sum", "amount"),
        BEFORE.replace("second=2", "second: int = 2"),
    ],
    ids=["nothing", "docstring", "comment", "name of a local variable", "annotation"],
)
def test_what_nobody_executes_does_not_count(after: str) -> None:
    assert code_version(define(after, line=50, file="other.py")) == code_version(define(BEFORE))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first + second", "first - second"),
        ("second=2", "second=3"),
        ("third=3", "third=4"),
        ("second=2", "second=2.0"),
        ("third, ", "first, "),
        ('"text"', '"other"'),
        ('"text"', 'b"text"'),
        ("None", "False"),
        ("value * total", "value + total"),
        ("{1, 2}", "{1, 3}"),
        ("first", "renamed"),
        ("def ", "async def "),
        ('[value * total for value in (third, "text", None) if value in {1, 2}]', "other(total)"),
    ],
)
def test_what_is_executed_counts(old: str, new: str) -> None:
    assert code_version(define(BEFORE.replace(old, new))) != code_version(define(BEFORE))


def test_another_global_name_is_other_code() -> None:
    assert code_version(lambda: min(1, 2)) != code_version(lambda: max(1, 2))


def test_the_code_of_nested_functions_counts_and_their_docstrings_do_not() -> None:
    source = "def function():\n    def inner():\n        {}return 1\n    return inner"
    plain = code_version(define(source.format("")))
    assert code_version(define(source.format("'''Docs.'''; "))) == plain
    assert code_version(define(source.replace("return 1", "return 2").format(""))) != plain


def test_what_a_try_covers_counts() -> None:
    outside, inside = "    a()\n    try:\n        a()", "    try:\n        a()\n        a()"
    source = "def function(a):\n{}\n    except E:\n        pass"
    assert code_version(define(source.format(inside))) != code_version(define(source.format(outside)))


def test_a_function_with_more_constants_than_a_byte_can_number_is_told_apart() -> None:
    source = "def function():\n    return [{}]"
    values = [f"'{number}' + x" for number in range(300)]
    assert code_version(define(source.format(", ".join(values)))) != code_version(
        define(source.format(", ".join([*values[:-1], "'other' + x"])))
    )


def test_what_has_no_code_of_its_own_has_no_version() -> None:
    for value in (len, int, functools.partial(print), task(name="t")(lambda: 1), None):
        assert code_version(value) == ""


def test_nothing_is_unwrapped() -> None:
    @functools.wraps(define(BEFORE))
    def wrapper(*args: Any) -> Any: ...

    def bare(*args: Any) -> Any: ...

    assert code_version(wrapper) == code_version(bare)


def test_versions_differ_only_if_both_are_known_and_of_one_interpreter() -> None:
    assert changed("cp311:aa", "cp311:bb")
    assert not changed("cp311:aa", "cp311:aa")
    assert not changed("cp311:aa", "cp312:bb")
    assert not changed("", "cp311:bb")
    assert not changed("cp311:aa", "")


def test_a_version_is_the_same_in_another_process_under_another_hash_seed() -> None:
    program = f"""
scope = {{}}
exec({BEFORE!r}, scope)
from onceflow.values.versions import code_version
print(code_version(scope["function"]))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program], env={**environment, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        )
        assert done.stdout.strip() == code_version(define(BEFORE)), done.stderr


def test_the_version_of_known_code_is_not_computed_again_and_forgotten_when_the_code_dies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = define(BEFORE)
    place = id(function.__code__)
    version = code_version(function)
    assert place in versions._known
    with monkeypatch.context() as patched:
        patched.delattr(versions, "_instructions")
        assert code_version(function) == version

    del function
    gc.collect()
    assert place not in versions._known


def test_functions_that_share_their_code_have_defaults_of_their_own() -> None:
    def make(value: int) -> Callable[..., Any]:
        def inner(number: int = value) -> int:
            return number

        return inner

    assert code_version(make(1)) != code_version(make(2))
    assert code_version(make(1)) == code_version(make(1))


def test_a_function_that_was_given_other_defaults_has_another_version() -> None:
    function = define(BEFORE)
    version = code_version(function)
    assert code_version(function) == version
    function.__defaults__ = (5,)  # type: ignore[attr-defined]
    assert code_version(function) != version


def test_the_version_of_a_method_is_that_of_its_function() -> None:
    class Home:
        def method(self, number: int = 1) -> int:
            return number

    assert code_version(Home().method) == code_version(Home.method) != ""
