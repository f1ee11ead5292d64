"""What handlers say about attempts that were stopped, and raised all the same."""

from __future__ import annotations

from onceflow import transaction
from onceflow.authoring.graph_builder import build_graph
from onceflow.values import packed_outputs
from onceflow.values.handler_answers import Answer
from tests.driver.common import Drive, commit, effect, loose, pure

FIRST, SECOND = packed_outputs.dump("first"), packed_outputs.dump("second")


@transaction
def trip() -> str: ...


def test_a_graph_ends_with_what_was_said_about_the_current_attempt() -> None:
    # given a transaction that was tried again while one of its tasks could not be stopped
    drive = Drive(trip.bind())
    commit(drive)
    graph = build_graph(loose.bind(pure.bind(), effect.bind(loose.bind(1))))
    drive.driver.finished(drive.host.running("trip"), [packed_outputs.dump(graph)], True)
    commit(drive)
    stopped, failing = sorted(drive.host.started[-2:], key=lambda work: work.task != "pure")
    drive.driver.raised(failing, b"no", True, Answer("again", 1))
    commit(drive)
    assert drive.host.stopped == [stopped.attempt]
    drive.host.timers[-1][1]()
    commit(drive)
    drive.finish(failing.node, 1)
    commit(drive)

    # when both its attempts raise, the one that counts first, while the graph has to wait for something else
    drive.driver.raised(drive.host.running(stopped.node), b"no", True, Answer("value", 1, [SECOND]))
    commit(drive)
    drive.driver.raised(stopped, b"no", True, Answer("value", 1, [FIRST]))
    commit(drive)
    drive.finish("trip/effect", 1)
    commit(drive)

    # then what was said about that one counts
    assert drive.driver.ending is not None
    assert drive.driver.ending.result == (SECOND,)
