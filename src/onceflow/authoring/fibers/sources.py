"""The source of a durable function, and the name under which another process finds it."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import linecache
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn

from onceflow.authoring.fibers import nodes
from onceflow.errors import DurableSyntaxError

_FUTURES = sum(
    getattr(__import__("__future__"), name).compiler_flag for name in __import__("__future__").all_feature_names
)


class Located(NamedTuple):
    node: nodes.Function
    text: str
    """The source text of the function, with its decorators and its indentation."""
    first_line: int
    file: str


def locate(function: FunctionType) -> Located:
    """The source of a function, which must still be what was imported."""
    located = _located(function)
    if located is None:
        linecache.checkcache(function.__code__.co_filename)  # the file may be younger than what is remembered of it
        located = _located(function)
    return located or _refuse(function, _STALE)


def _located(function: FunctionType) -> Located | None:
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        _refuse(function, "its source text cannot be read; a durable function needs its source")
    try:
        node = _parsed("".join(lines), code.co_filename).functions.get((code.co_name, code.co_firstlineno))
    except SyntaxError:
        return None
    if node is None or not _agrees(_compiled(node, function.__qualname__, code.co_filename, code.co_flags), code):
        return None
    first, last = code.co_firstlineno, node.end_lineno
    return Located(node, "".join(lines[first - 1 : last]), first, code.co_filename)


_STALE = "the file is not what was imported (was it edited meanwhile?); import it anew"


def _refuse(function: FunctionType, problem: str) -> NoReturn:
    code = function.__code__
    raise DurableSyntaxError(
        code.co_filename, code.co_firstlineno, f"durable function {function.__qualname__}: {problem}"
    )


def parse(text: str, first_line: int, file: str) -> nodes.Function:
    """The function of a stored source text, with the positions that it had."""
    indented = text[:1] in (" ", "\t")
    tree = ast.parse("if 1:\n" + text if indented else text, file)
    ast.increment_lineno(tree, first_line - (2 if indented else 1))
    return next(_functions(tree))


def remember(text: str, first_line: int, file: str) -> str:
    """The name of this file, which is not there: tracebacks find the lines of a stored source text under it."""
    lines = ["\n"] * (first_line - 1) + [f"{line}\n" for line in text.split("\n")]
    linecache.cache[file] = len(text), None, lines, file
    return file


class _Parsed(NamedTuple):
    tree: ast.Module
    functions: dict[tuple[str, int], nodes.Function]
    """By name and first line."""


@functools.lru_cache(maxsize=4)
def _parsed(text: str, file: str) -> _Parsed:
    tree = ast.parse(text, file)
    return _Parsed(tree, {(node.name, first_line_of(node)): node for node in _functions(tree)})


def _functions(tree: ast.AST) -> Iterator[nodes.Function]:
    return (node for node in ast.walk(tree) if isinstance(node, nodes.FUNCTIONS))


def first_line_of(node: nodes.Function) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def in_classes(node: ast.stmt, qualname: str) -> ast.Module:
    """A module in which the function stands in classes of the same names: these are part of how private names and
    `super()` are understood."""
    for kind in reversed(qualname.split(".")[:-1]):
        node = ast.copy_location(ast.ClassDef(kind, [], [], [node], []), node)
    return ast.Module([node], [])


def compile_tree(tree: ast.Module, file: str, flags: int) -> CodeType:
    import warnings

    nodes.fill_positions(tree)
    with warnings.catch_warnings():  # whatever there is to say was said when the user's own code was compiled
        warnings.simplefilter("ignore")
        code: CodeType = compile(tree, file, "exec", flags & _FUTURES, dont_inherit=True)
    return code


def find_code(code: CodeType, path: Sequence[str]) -> CodeType:
    """The code of an inner function or class."""
    for name in path:
        code = next(
            constant for constant in code.co_consts if isinstance(constant, CodeType) and constant.co_name == name
        )
    return code


def _compiled(node: nodes.Function, qualname: str, file: str, flags: int) -> CodeType:
    bare = type(node)(node.name, node.args, node.body, [], None)
    tree = in_classes(ast.copy_location(bare, node), qualname)
    return find_code(compile_tree(tree, file, flags), qualname.split("."))


def _agrees(found: CodeType, loaded: CodeType) -> bool:
    """Whether this source can be that of the loaded function. Names and constants are compared; code that a tool
    (pytest, say) has rewritten while it was imported has names that no source can have, and is taken on trust."""
    if any(name.startswith("@") for name in (*loaded.co_names, *loaded.co_varnames)):
        return True
    arguments = found.co_argcount + found.co_kwonlyargcount
    return (
        found.co_varnames[:arguments] == loaded.co_varnames[:arguments]
        and set(found.co_names) == set(loaded.co_names)
        and _constants(found) == _constants(loaded)
    )


def _constants(code: CodeType) -> set[str]:
    return {repr(constant) for constant in code.co_consts if not isinstance(constant, CodeType)}


def module_name(function: FunctionType) -> str:
    """The name under which another process can import the function's module."""
    module = function.__module__
    if module != "__main__":
        return module
    name = main_name()
    if name is None:
        _refuse(
            function,
            "it is defined in __main__, which is no file that another process could import; put it into a module",
        )
    if not _has_guard(function):
        _refuse(
            function,
            "its script would run again when another process imports it; put what the script does under `if __name__ "
            '== "__main__":`, or the function into a module',
        )
    return name


def main_name() -> str | None:
    """The importable name of the running script: that of `python -m`, or of its file."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    return str(spec.name) if spec is not None else Path(file).stem if file else None


def _has_guard(function: FunctionType) -> bool:
    lines = linecache.getlines(function.__code__.co_filename, function.__globals__)
    tree = _parsed("".join(lines), function.__code__.co_filename).tree
    return any(
        isinstance(node, ast.If)
        and any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))
        for node in tree.body
    )


def import_named(module: str) -> Any:
    """The module of this name, which may be the running script."""
    if module == main_name():
        return sys.modules["__main__"]
    try:
        return importlib.import_module(module)
    except SystemExit as error:  # it must not end the process that continues a fiber
        raise ImportError(f"{module} called sys.exit({error.code!r}) while it was imported") from error


def named(module: str, qualname: str) -> Any:
    found = import_named(module)
    for step in qualname.split("."):
        found = inspect.getattr_static(found, step) if isinstance(found, type) else getattr(found, step)
    return found
