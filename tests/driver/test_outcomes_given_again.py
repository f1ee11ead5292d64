"""What a graph ends with, if that is dropped before it is saved and has to be given once more."""

from __future__ import annotations

from typing import Any

from onceflow import task, transaction
from onceflow.authoring.caught_results import without_error
from onceflow.authoring.graph_builder import build_graph
from onceflow.core.model import events
from onceflow.handlers import handler, retry
from onceflow.values import packed_outputs
from onceflow.values.handler_answers import Answer
from tests.driver.common import Drive, commit, loose, take_back

NOTHING, ERROR = packed_outputs.dump(None), packed_outputs.dump("late" * 100_000)


@task(rollback=take_back)
def book() -> str: ...


@task(can_rollback=True)
def caught() -> str: ...


@transaction
def trip() -> str: ...


def returns(drive: Drive, node: str, graph: Any) -> None:
    drive.driver.finished(drive.host.running(node), [packed_outputs.dump(build_graph(graph))], True)
    commit(drive)


def test_it_is_the_same_when_a_transaction_around_is_tried_again() -> None:
    # given a graph in a transaction, whose time is over, and the outcome of which is being saved
    drive = Drive(trip.options(handlers=[handler(ValueError, retry(1, delay=5))]).bind())
    commit(drive)
    returns(drive, "trip", loose.bind(*caught.options(catch=True).bind(), loose.bind()))
    returns(drive, "trip/caught", without_error(book.bind()))
    drive.finish("trip/caught/book", "room")
    commit(drive)
    drive.driver.features.answering.give_later("trip/caught", [NOTHING, ERROR])
    drive.driver.tell(events.Expired("trip/caught/caught", 2, False))
    commit(drive)
    assert [len(value) for _, value, _ in drive.host.saves] == [len(ERROR)]

    # when the transaction is tried again, and takes back what that outcome would stand on
    (other,) = [work for work in drive.host.started if work.task == "loose"]
    drive.driver.raised(other, b"busy", True, Answer("again", 1))
    commit(drive)
    drive.undo("trip/caught/book")
    commit(drive)

    # then the graph ends with the same outcome
    drive.save("the error")
    commit(drive)
    saved = [entry for entry in drive.host.entries() if entry.kind == "saved" and entry.node == "trip/caught/caught"]
    assert saved[-1].blob == "the error"
