"""Runs a function in both worlds and tells what came of it, in a form that can be compared."""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from onceflow.authoring.fibers import Fiber
from tests.authoring.fibers import world

CORPUS = Path(__file__).parent / "corpus"
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>"}
"""Frames of their own until Python 3.11; if they suspend, not in a fiber."""
PACKAGE = "tests.authoring.fibers.corpus"


class Outcome(NamedTuple):
    result: str
    error: Any
    log: list[str]


def modules() -> list[str]:
    return sorted(path.stem for path in CORPUS.glob("*.py") if not path.stem.startswith("_"))


def cases(module: str) -> list[str]:
    return [name for name in vars(native_module(module)) if name.startswith("case_")]


def durable_module(name: str) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.{name}")


def native_module(name: str) -> ModuleType:
    return native(CORPUS / f"{name}.py")


def native(path: Path) -> ModuleType:
    """A module whose fibers are ordinary functions."""
    name = f"native_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        world.set_native(True)
        try:
            spec.loader.exec_module(module)
        finally:
            world.set_native(False)
    return sys.modules[name]


@functools.cache
def expected(module: str, case: str) -> Outcome:
    """Of a function of the corpus, in the native world."""
    return run_native(getattr(native_module(module), case))


def run_native(function: Callable[[], Any]) -> Outcome:
    world.entries.clear()
    world.set_native(True)
    try:
        return outcome_of(lambda: _loop().run_until_complete(function()), file_of(function))
    finally:
        world.set_native(False)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def run_durable(function: Callable[[], Any], change: Callable[[Fiber], Fiber] = lambda fiber: fiber) -> Outcome:
    """`change` is applied at every operation."""
    world.entries.clear()
    gc.collect(0)
    fiber = Fiber.start(function())
    while not fiber.done:
        fiber = change(fiber)
        world.answer(fiber)
    return outcome_of(lambda: ended(fiber), file_of(function))


def steps(function: Callable[[], Any]) -> Iterator[Fiber]:
    """The fiber at each of its operations."""
    world.entries.clear()
    fiber = Fiber.start(function())
    while not fiber.done:
        yield fiber
        world.answer(fiber)


def ended(fiber: Fiber) -> Any:
    if fiber.error is not None:
        raise fiber.error
    return fiber.result


def file_of(function: Any) -> str:
    return str(function.__code__.co_filename)


def outcome_of(call: Callable[[], Any], file: str) -> Outcome:
    result, error = "", None
    try:
        result = repr(call())
    except BaseException as caught:
        error = told(caught, file)
    return Outcome(plain(result), error, [plain(entry) for entry in world.entries])


def plain(text: str) -> str:
    """Without what differs from world to world: addresses, and the names of modules."""
    return re.sub(
        r" at 0x[0-9a-f]+", "", re.sub(r"\b(native_|durable_|faulty_|tests\.authoring\.fibers\.(corpus\.)?)", "", text)
    )


def told(error: BaseException | None, file: str, seen: tuple[int, ...] = ()) -> Any:
    """All of an exception: its chain, its notes, and the lines of its traceback that are in the file."""
    if error is None or id(error) in seen:
        return None if error is None else "again"
    seen = (*seen, id(error))
    lines = [
        f"{frame.name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file and frame.name not in COMPREHENSIONS
    ]
    inner = [told(each, file, seen) for each in error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    return {
        "type": type(error).__name__,
        "args": repr(error.args) if not inner else repr(error.args[0]),
        "notes": getattr(error, "__notes__", []),
        "attributes": {name: repr(value) for name, value in vars(error).items() if name != "__notes__"},
        "lines": lines,
        "cause": told(error.__cause__, file, seen),
        "context": told(error.__context__, file, seen),
        "suppress": error.__suppress_context__,
        "inner": inner,
    }


def reload(fiber: Fiber) -> Fiber:
    return Fiber.loads(fiber.dumps())


def reload_twice(fiber: Fiber) -> Fiber:
    return reload(reload(fiber))


def reload_live(fiber: Fiber) -> Fiber:
    return Fiber.loads(fiber.dumps(full=False))


def fork(fiber: Fiber) -> Fiber:
    copy = fiber.fork()
    before = list(world.entries)
    fiber.discard()
    del fiber
    gc.collect(0)
    assert world.entries == before, "discarding ran user code"
    return copy


WAYS: dict[str, Callable[[Fiber], Fiber]] = {
    "live": lambda fiber: fiber,
    "reloaded at every await": reload,
    "reloaded twice at every await": reload_twice,
    "reloaded with live variables only": reload_live,
    "forked at every await": fork,
}
