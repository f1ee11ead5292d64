"""Tracebacks, line events, debuggers: what people use to look at code sees the user's own."""

from __future__ import annotations

import bdb
import io
import pdb
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from onceflow.authoring.fibers import Fiber
from tests.authoring.fibers import comparing, world
from tests.authoring.fibers.writing import write

LINED = """
    async def native(n):
        total = 0
        for i in range(n):
            if i % 2:
                total += await Op("odd", i)
            else:
                total -= 1
            value = (
                total,
                await Op("second", i),
            )
        try:
            await Op("fail")
        except KeyError as error:
            total += len(
                str(error)
            )
        finally:
            total += 1
        while total < 3:
            total += await Op("more", 1)
        return [
            total,
            await Op("end", 5),
        ]

    durable = fiber(native)
    """


def drive(coroutine: Any) -> Any:
    """Every operation has the result 1, but `fail`, which fails."""
    try:
        op = coroutine.send(None)
        while True:
            op = coroutine.throw(KeyError("k")) if op.name == "fail" else coroutine.send(1)
    except StopIteration as end:
        return end.value


def lines_of(call: Callable[[], Any], file: str) -> list[int]:
    """All line events in a file."""
    seen: list[int] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            seen.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return seen


def without_repeats(lines: list[int]) -> list[int]:
    return [line for index, line in enumerate(lines) if index == 0 or lines[index - 1] != line]


def test_line_events_are_those_of_the_native_function(tmp_path: Path) -> None:
    module = write(tmp_path / "lined.py", LINED)
    file = str(tmp_path / "lined.py")

    native = lines_of(lambda: drive(module.native(3)), file)
    durable = lines_of(lambda: drive(module.durable(3)), file)

    assert without_repeats(durable) == without_repeats(native)


def test_every_line_that_native_code_covers_is_covered_after_reloads(tmp_path: Path) -> None:
    module = write(tmp_path / "covered.py", LINED)
    file = str(tmp_path / "covered.py")

    def reloading() -> None:
        going = Fiber.start(module.durable(3))
        while not going.done:
            going = Fiber.loads(going.dumps())
            if going.op is not None and going.op.name == "fail":
                going.throw(KeyError("k"))
            else:
                going.send(1)

    assert set(lines_of(reloading, file)) == set(lines_of(lambda: drive(module.native(3)), file))


def test_a_traceback_shows_the_users_lines(tmp_path: Path) -> None:
    module = write(
        tmp_path / "failing.py",
        """
        @fiber
        async def outer():
            return 1 + await inner(
                await Op("argument")
            )

        @fiber
        async def inner(n):
            await Op("wait")
            return 1 / n
        """,
    )
    going = Fiber.start(module.outer())
    going.send(0)
    going = Fiber.loads(going.dumps())
    going.send(None)

    shown = "".join(traceback.format_exception(going.error))

    assert 'failing.py", line 4, in outer\n    return 1 + await inner(' in shown
    assert 'failing.py", line 11, in inner\n    return 1 / n' in shown
    assert "_F_" not in shown
    assert shown.endswith("ZeroDivisionError: division by zero\n")


def test_a_saved_traceback_prints_as_before(tmp_path: Path) -> None:
    module = write(
        tmp_path / "kept.py",
        """
        @fiber
        async def keeping():
            try:
                deeper()
            except ValueError as error:
                await Op("wait")
                return error

        def deeper():
            raise ValueError("here")
        """,
    )
    live, saved = Fiber.start(module.keeping()), Fiber.start(module.keeping())
    saved = Fiber.loads(saved.dumps())
    live.send(None)
    saved.send(None)

    shown = ["".join(traceback.format_exception(going.result)).replace("    ~~~~~~^^\n", "") for going in (live, saved)]
    plain = ["\n".join(line for line in text.splitlines() if not set(line) <= set(" ~^")) for text in shown]

    assert plain[0] == plain[1]


def test_a_breakpoint_stops_where_the_user_set_it(tmp_path: Path) -> None:
    module = write(tmp_path / "debugged.py", LINED)
    file = str(tmp_path / "debugged.py")
    output = io.StringIO()
    debugger = pdb.Pdb(
        stdin=io.StringIO("continue\np total\nwhere\nclear 1\ncontinue\n"), stdout=output, nosigint=True, readrc=False
    )
    assert debugger.set_break(file, 6) is None
    before = sys.gettrace()

    try:
        debugger.runcall(drive, module.durable(2))
    finally:
        sys.settrace(before)
        bdb.Breakpoint.clearBreakpoints()

    shown = output.getvalue()
    assert f"> {file}(6)native()" in shown
    assert 'total += await Op("odd", i)' in shown
    assert "(Pdb) -1" in shown


@pytest.mark.parametrize("case", ["case_custom_exceptions", "case_context_and_cause"])
def test_frames_of_a_saved_exception_hold_no_variables(case: str) -> None:
    for going in comparing.steps(getattr(comparing.durable_module("errors"), case)):
        copy = going.fork()
        copy.discard()
    assert world.entries
