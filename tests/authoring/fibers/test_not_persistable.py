"""What cannot be saved, and in which words."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceflow.authoring.fibers import Fiber, Op, fiber
from onceflow.errors import NotPersistable


def lines() -> Iterator[str]:
    yield "a"
    yield "b"


@fiber
async def over_generator() -> None:
    for _ in lines():
        await Op("x")


@fiber
async def over_itertools() -> None:
    for _ in itertools.count():
        await Op("x")


@fiber
async def with_local() -> Any:
    lock = threading.Lock()
    await Op("x")
    return lock


@fiber
async def with_container() -> Any:
    state = {"locks": [threading.Lock()]}
    await Op("x")
    return state


@contextlib.contextmanager
def plain_manager() -> Iterator[None]:
    yield


@fiber
async def with_manager() -> None:
    with plain_manager():
        await Op("x")


@fiber
async def handling() -> None:
    try:
        raise ValueError(threading.Lock())
    except ValueError:
        await Op("x")


@fiber
async def with_intermediate() -> Any:
    return [threading.Lock(), await Op("x")]


@fiber
async def captured() -> Any:
    lock = threading.Lock()

    def locked() -> bool:
        return lock.locked()

    await Op("x")
    return locked()


@fiber
async def with_local_class() -> Any:
    class Local:
        pass

    value = Local()
    await Op("x")
    return value


@fiber
async def operation_with_lock() -> None:
    await Op("x", threading.Lock())


@fiber
async def calling() -> None:
    await with_local()


async def plain() -> None:
    await Op("x")


@fiber
async def inside_plain() -> None:
    await plain()


FILE = "test_not_persistable.py"
LOCK = "a lock or thread belongs to one process; make it again after the await, or keep it in a global"
REASON = "[TypeError: cannot pickle '_thread.lock' object]"
GENERATOR = "a generator cannot be saved; iterate over list(...) instead, or finish it before the await"

MESSAGES: dict[str, tuple[Callable[[], Any], str]] = {
    "generator": (
        over_generator,
        (
            "over_generator() is waiting at {file}:{line} and the iterator of an enclosing `for` is a "
            "builtins.generator: "
            f"{GENERATOR} [TypeError: cannot pickle 'generator' object]"
        ),
    ),
    "itertools": (
        over_itertools,
        (
            "over_itertools() is waiting at {file}:{line} and the iterator of an enclosing `for` is a "
            "itertools.count: an "
            "iterator of itertools cannot be saved; iterate over list(...) instead [TypeError: later Pythons "
            "cannot pickle "
            "iterators of itertools]"
        ),
    ),
    "variable": (
        with_local,
        f"with_local() is waiting at {{file}}:{{line}} and local variable 'lock' is a _thread.lock: {LOCK} {REASON}",
    ),
    "container": (
        with_container,
        (
            "with_container() is waiting at {file}:{line} and local variable 'state' is a builtins.dict that holds a "
            f"_thread.lock: {LOCK} {REASON}"
        ),
    ),
    "manager": (
        with_manager,
        (
            "with_manager() is waiting at {file}:{line} and the context manager of an enclosing `with` is a "
            f"contextlib._GeneratorContextManager that holds a builtins.generator: {GENERATOR} [TypeError: cannot "
            f"pickle "
            "'generator' object]"
        ),
    ),
    "exception": (
        handling,
        (
            "handling() is waiting at {file}:{line} and the exception being handled is a builtins.ValueError "
            "that holds a "
            f"_thread.lock: {LOCK} {REASON}"
        ),
    ),
    "intermediate value": (
        with_intermediate,
        (
            "with_intermediate() is waiting at {file}:{line} and an intermediate value of this expression is a "
            f"_thread.lock: {LOCK} {REASON}"
        ),
    ),
    "captured variable": (
        captured,
        f"captured() is waiting at {{file}}:{{line}} and local variable 'lock' is a _thread.lock: {LOCK} {REASON}",
    ),
    "operation": (
        operation_with_lock,
        (
            "operation_with_lock() is waiting at {file}:{line} and the operation it waits for is a "
            f"onceflow.authoring.fibers.ops.Op that holds a _thread.lock: {LOCK} {REASON}"
        ),
    ),
}


@pytest.mark.parametrize("what", MESSAGES)
def test_the_error_names_function_line_and_value(what: str) -> None:
    function, message = MESSAGES[what]
    waiting = Fiber.start(function())

    with pytest.raises(NotPersistable) as caught:
        waiting.dumps()

    line = waiting.describe()[-1].line
    assert str(caught.value) == "cannot save fiber: " + message.format(file=FILE, line=line)
    assert caught.value.line == line
    assert caught.value.function == function.__name__


def test_the_frame_to_blame_is_named_even_if_it_is_not_the_outermost() -> None:
    with pytest.raises(NotPersistable, match=r"cannot save fiber: with_local\(\) is waiting"):
        Fiber.start(calling()).dumps()


def test_an_ordinary_coroutine_on_the_way_is_named() -> None:
    waiting = Fiber.start(inside_plain())

    with pytest.raises(NotPersistable) as caught:
        waiting.dumps()

    line = plain.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"cannot save fiber: the fiber is inside plain() at {FILE}:{line}, an ordinary coroutine; decorate it with "
        "@fiber or turn the call into an engine step"
    )


def test_an_ordinary_coroutine_is_described_nevertheless() -> None:
    described = Fiber.start(inside_plain()).describe()

    assert [frame.function for frame in described] == ["inside_plain", "plain"]
    assert described[1].line == plain.__code__.co_firstlineno + 1


def test_a_local_class_cannot_be_saved() -> None:
    with pytest.raises(NotPersistable, match=r"local variable 'value' is a .*Local"):
        Fiber.start(with_local_class()).dumps()


def test_a_fiber_that_could_not_be_saved_goes_on() -> None:
    waiting = Fiber.start(with_local())
    with pytest.raises(NotPersistable):
        waiting.dumps()

    waiting.send(None)

    assert waiting.done
    assert waiting.error is None


@fiber
async def sleeping() -> None:
    await asyncio.sleep(1)


@fiber
async def waiting_for_a_future() -> str:
    try:
        await asyncio.get_running_loop().create_future()
    except TypeError as error:
        return str(error)
    return ""


def test_what_is_no_operation_cannot_be_awaited() -> None:
    async def main() -> Fiber:
        return Fiber.start(waiting_for_a_future())

    ended = asyncio.run(main())

    assert ended.result == "a fiber can wait for operations and durable functions, not for a _asyncio.Future"


def test_a_running_fiber_cannot_be_saved() -> None:
    seen: list[str] = []
    holder: list[Fiber] = []
    SAVING.append(lambda: seen.append(_saving(holder[0])))
    holder.append(Fiber.start(saving_itself()))

    holder[0].send(None)

    assert seen == ["cannot save fiber: saving_itself() is running; only a fiber that waits can be saved"]


SAVING: list[Callable[[], None]] = []


def _saving(fiber: Fiber) -> str:
    try:
        fiber.dumps()
    except NotPersistable as error:
        return str(error)
    return ""


@fiber
async def saving_itself() -> None:
    await Op("x")
    SAVING.pop()()
