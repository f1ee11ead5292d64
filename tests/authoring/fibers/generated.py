"""Runs a generated program in both worlds."""

from __future__ import annotations

import itertools
import linecache
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from onceflow.authoring.fibers import definitions
from tests.authoring.fibers import comparing, prelude, world

_numbers = itertools.count()
WAYS = ("live", "reloaded at every await", "forked at every await")


def check(source: str, ways: tuple[str, ...] = WAYS) -> None:
    """Asserts that the program does the same in every way in which it can be run."""
    file = f"<program {next(_numbers)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    try:
        native = comparing.run_native(program(source, file, native=True))
        durable = program(source, file, native=False)
        for way in ways:
            assert comparing.run_durable(durable, comparing.WAYS[way]) == native, f"{way}\n{source}"
    finally:
        del linecache.cache[file]
        forget("durable_program")


def forget(module: str) -> None:
    """Definitions are kept for ever, which is too long for thousands of programs."""
    for code, definition in list(definitions._by_code.items()):
        if definition.function.__module__ == module:
            del definitions._by_code[code]
    for code, (definition, _) in list(definitions._inner.items()):
        if definition.function.__module__ == module:
            del definitions._inner[code]


def program(source: str, file: str, *, native: bool) -> Any:
    name = "native_program" if native else "durable_program"
    module = ModuleType(name)
    around = comparing.native(Path(prelude.__file__)) if native else prelude
    vars(module).update({word: getattr(around, word) for word in prelude.__all__})
    sys.modules[name] = module
    world.set_native(native)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # programs may be odd: an assertion about a tuple, say
            code = compile(source, file, "exec", dont_inherit=True)
        exec(code, vars(module))
    finally:
        world.set_native(False)
    return module.program
