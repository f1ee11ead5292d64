"""Fibers and workflows whose tasks have their errors caught, for the fiber or because somebody asked for it."""

from __future__ import annotations

from typing import Any

from onceflow import Ref, fiber, put, task, workflow
from onceflow.fibers import call

taken_back: list[tuple[str, object]] = []
"""What the undo of each booking was given."""


def cancel_booking(city: str, *, output: object) -> None:
    taken_back.append((city, output.get() if isinstance(output, Ref) else output))


@task(rollback=cancel_booking)
def book(city: str) -> str:
    return f"booking of {city}"


@task(rollback=cancel_booking, num_returns=2)
def book_both(city: str) -> tuple[str, str]:
    return "room", "flight"


@task(rollback=cancel_booking)
def book_by_ref(city: str) -> Ref[str]:
    return put(f"ref to {city}")


@task(rollback=cancel_booking)
def cannot_book(city: str) -> str:
    raise ConnectionError(f"{city} is closed")


@task(can_rollback=True)
def fail(*after: object) -> None:
    raise ValueError("no")


@task.pure
def shout(text: str) -> str:
    return text.upper()


@workflow
def shouted(city: str) -> Any:
    return shout.bind(book.bind(city))


@fiber
async def trip() -> None:
    await book.call("Rome")
    await book_both.call("Bern")
    await book_by_ref.call("Oslo")
    raise ValueError("no")


@workflow
def caught_trip() -> Any:
    booking, _ = book.options(catch=True).bind("Rome")
    both, _ = book_both.options(catch=True).bind("Bern")
    return fail.bind(booking, both)


@fiber
async def tour() -> None:
    await book.call("Rome")
    await book_both.call("Bern")
    await book_by_ref.call("Oslo")
    await shouted.call("Lima")
    await call(shouted.bind("Cork"))
    await book.options(catch=True).call("Nice")
    try:
        await cannot_book.call("Ulm")
    finally:
        await book.call("home")
