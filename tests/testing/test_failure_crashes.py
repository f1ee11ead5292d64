"""Handlers and transactions under a crash at every moment: the effects are there once, or were taken back."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow import TaskFailed, task, transaction
from onceflow.handlers import break_, handler, ignore, retry
from onceflow.testing import Ledger, MemoryEngine, crash_everywhere


class Sold(Exception):
    pass


world = Ledger()


def cancel(what: str, key: str) -> None:
    world.take_back(key)


@task(rollback=cancel)
def book(what: str, *after: Any) -> str:
    world.enter(what)
    return what


@task(can_rollback=True)
def sell_out(*after: Any) -> str:
    raise Sold


@task(rollback=cancel)
def sell_out_late(what: str, *after: Any) -> str:
    world.enter(what)
    raise Sold


@task
def confirm(*what: Any) -> str:
    world.enter(f"confirmed {what!r}")
    return repr(what)


@transaction
def booking(last: Any) -> str:
    room = book.bind("room")
    return confirm.bind(book.bind("flight", room), last.bind("train", room))


@task
def branch(last: Any) -> Any:
    return confirm.bind(last.bind("train", book.bind("room")))


lenient = handler(Sold, ignore("bus"))


def ignored(engine: MemoryEngine) -> None:
    world.clear()
    assert engine.run(confirm.bind(sell_out_late.options(handlers=[lenient]).bind("train"))) == "('bus',)"
    world.assert_holds("confirmed ('bus',)")


def tried_again(engine: MemoryEngine) -> None:
    world.clear()
    node = sell_out_late.options(handlers=[handler(Sold, retry(2, delay=5)), lenient]).bind("train")
    assert engine.run(confirm.bind(node)) == "('bus',)"
    world.assert_holds("confirmed ('bus',)")


def caught(engine: MemoryEngine) -> None:
    world.clear()
    value, error = booking.options(catch=True).bind(sell_out_late)
    assert engine.run(confirm.bind(value, error)) == "(None, Sold())"
    world.assert_holds("confirmed (None, Sold())")


def answered(engine: MemoryEngine) -> None:
    world.clear()
    node = booking.options(handlers=[lenient]).bind(sell_out_late)
    assert engine.run(confirm.bind(node, book.bind("table"))) == "('bus', 'table')"
    world.assert_holds("table", "confirmed ('bus', 'table')")


def started_afresh(engine: MemoryEngine) -> None:
    world.clear()
    node = booking.options(handlers=[handler(Sold, retry(2, delay=5)), lenient]).bind(sell_out)
    assert engine.run(confirm.bind(node)) == "('bus',)"
    world.assert_holds("confirmed ('bus',)")


def failed(engine: MemoryEngine) -> None:
    world.clear()
    with pytest.raises(TaskFailed):
        engine.run(confirm.bind(book.bind("table"), booking.bind(sell_out)))
    world.assert_holds("table")


def broken(engine: MemoryEngine) -> None:
    world.clear()
    last = sell_out.options(handlers=[handler(Sold, break_())])
    assert engine.run(confirm.bind(branch.bind(last), branch.bind(book))) == repr((None, "('train',)"))
    world.assert_holds("room", "room", "train", "confirmed ('train',)", f"confirmed {(None, repr(('train',)))!r}")


@pytest.mark.parametrize("story", [ignored, tried_again, caught, answered, started_afresh, failed, broken])
def test_it_ends_alike_whatever_crashes_when(story: Any) -> None:
    crash_everywhere(story)


def test_so_it_does_if_the_recovery_crashes_as_well() -> None:
    crash_everywhere(ignored, crashes=2)
