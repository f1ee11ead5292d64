"""A fiber that is dropped vanishes: none of its code runs, whoever drops it."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow.authoring.fibers import Fiber, Op, fiber

ROOT = Path(__file__).resolve().parents[3]
LOG: list[str] = []


class Noisy:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        LOG.append("exit")

    @fiber
    async def __aenter__(self) -> None:
        await Op("enter")

    @fiber
    async def __aexit__(self, *_: object) -> None:
        LOG.append("aexit")
        await Op("exit")


@contextlib.contextmanager
@fiber
def managed() -> Iterator[None]:
    try:
        yield
    finally:
        LOG.append("manager")


@fiber
def numbers() -> Iterator[int]:
    try:
        yield 1
        yield 2
    except BaseException:
        LOG.append("generator")
        raise


@fiber
async def noisy(depth: int = 2) -> Any:
    try:
        with Noisy(), managed():
            async with Noisy():
                for number in numbers():
                    try:
                        if depth:
                            return await noisy(depth - 1)
                        return await Op("deep", number)
                    except:  # noqa: E722
                        LOG.append("bare")
                    else:
                        LOG.append("else")
                    finally:
                        LOG.append("finally")
                        await Op("cleaning")
    except* BaseException:
        LOG.append("star")
    finally:
        LOG.append("outermost")


def deep() -> Fiber:
    LOG.clear()
    going = Fiber.start(noisy())
    while going.op is not None and going.op.name != "deep":
        going.send(None)
    return going


def test_discarding_runs_nothing() -> None:
    deep().discard()

    assert LOG == []


def test_dropping_the_last_reference_runs_nothing() -> None:
    going = deep()
    del going
    gc.collect()

    assert LOG == []


def test_a_cycle_that_the_collector_finds_runs_nothing() -> None:
    going: Any = deep()
    going.itself = going
    del going
    gc.collect()

    assert LOG == []


def test_a_loaded_fiber_vanishes_as_well() -> None:
    loaded = Fiber.loads(deep().dumps())
    loaded.discard()
    gc.collect()

    assert LOG == []


def test_a_discarded_fiber_has_ended() -> None:
    going = deep()
    going.discard()
    going.discard()

    assert going.done
    with pytest.raises(RuntimeError, match="this fiber has ended"):
        going.send(None)


def test_a_cancelled_fiber_does_clean_up() -> None:
    going = deep()

    going.throw(KeyError("stop"))

    assert "bare" in LOG


def test_the_end_of_the_interpreter_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text(
        textwrap.dedent("""
            import sys
            from onceflow.authoring.fibers import Fiber, Op, fiber

            @fiber
            async def waiting():
                try:
                    await Op("x")
                finally:
                    print("finally ran", flush=True)

            kept = Fiber.start(waiting())
            kept.itself = kept
            sys.kept = kept
        """)
    )

    done = subprocess.run(
        [sys.executable, "-c", "import leaving"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("", "")


@fiber
async def sharing() -> Any:
    items: list[int] = []
    total = 0

    def add(number: int) -> None:
        nonlocal total
        items.append(number)
        total += number

    while len(items) < 3:
        add(await Op("next"))
    return items, total


def test_forks_are_independent() -> None:
    first = Fiber.start(sharing())
    first.send(1)
    second = first.fork()
    third = second.fork()

    for going, numbers_ in ((first, [2, 3]), (second, [20, 30]), (third, [200, 300])):
        for number in numbers_:
            going.send(number)

    assert [going.result for going in (first, second, third)] == [
        ([1, 2, 3], 6),
        ([1, 20, 30], 51),
        ([1, 200, 300], 501),
    ]


def test_what_a_fork_changes_is_not_seen_by_the_original() -> None:
    first = Fiber.start(sharing())
    second = first.fork()
    second.send(1)
    second.send(2)

    assert first.describe()[0].locals["items"] == "[]"
    assert second.describe()[0].locals["items"] == "[1, 2]"
