"""Events that were given to a wait whose output never counted."""

from __future__ import annotations

import pytest

from onceflow import transaction, wait_event
from onceflow.authoring.graph_builder import build_graph
from onceflow.storage.journal import MailboxEvent
from onceflow.values import packed_outputs
from onceflow.values.handler_answers import Answer
from tests.driver.common import Drive, commit, effect, loose

EVENT = MailboxEvent(1, "r", "order", packed_outputs.dump("large" * 100_000))


@transaction
def trip() -> str: ...


def saves(drive: Drive) -> list[str]:
    return [name.split(".", 3)[3] for name, _, _ in drive.host.saves]


@pytest.mark.parametrize("waits_already", [False, True])
def test_an_event_is_for_others_if_the_graph_ends_before_the_wait_that_got_it_is_saved(waits_already: bool) -> None:
    # given a wait in a transaction that has got a large event, and a second one outside
    trips = trip.bind()
    first = loose.bind() if waits_already else trips
    drive = Drive(effect.bind(wait_event("order", str, after=[first]), trips))
    commit(drive)
    graph = build_graph(loose.bind(wait_event("order", str), loose.bind()))
    drive.driver.finished(drive.host.running("trip"), [packed_outputs.dump(graph)], True)
    commit(drive)
    in_trip = drive.host.started[-1]
    if waits_already:
        drive.finish("loose", 1)
        commit(drive)
    drive.host.mail.append(EVENT)
    drive.driver.look_for_mail()
    commit(drive)
    assert saves(drive) == ["trip/wait_event"]

    # when the transaction ends because something else in it has failed
    drive.driver.raised(in_trip, b"no", True, Answer("value", 1, [packed_outputs.dump("none")]))
    commit(drive)

    # then the second one gets it
    drive.save("the event")
    commit(drive)
    assert "took wait_event" in drive.kinds
