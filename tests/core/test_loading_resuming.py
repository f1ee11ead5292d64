"""Runs that are resumed, and are to do something again whose outcome is saved (design 2.11)."""

import pytest

from onceflow.core.model import events
from onceflow.errors import IllegalEvent
from tests.core.building import Drive, graph


def failed(text):
    """A run that was loaded, in which somebody answered for x, and s, who read that, has failed."""
    drive = Drive(graph(text), validate=True)
    drive.begin()
    drive.complete("a")
    if "undo x" in drive.handle("x"):
        drive.undone("x")
    drive.save("x")
    drive.raises("s")
    again = drive.reload()
    again.begin()
    return again


def test_an_irrevocable_task_is_repeated_with_the_same_begun_record():
    drive = failed("a kept; x default a; s kept x; z kept s")
    assert drive.tell(events.Resume(("x",))) == ["+resumed", "+dropped x", "drop x", "start! x"]
    assert drive.play().status == "succeeded"


def test_an_undoable_task_was_taken_back_and_begins_anew():
    drive = failed("a kept; x undoable a; s kept x; z kept s")
    assert drive.tell(events.Resume(("x",))) == ["+resumed", "+dropped x", "drop x", "+begun x", "start! x"]
    assert drive.play().status == "succeeded"


def test_what_it_reads_is_made_again_if_it_is_not_saved():
    drive = failed("a pure; x default a; s kept x; z kept s")
    assert drive.tell(events.Resume(("x",))) == ["+resumed", "+dropped x", "drop x", "start a"]
    assert drive.finish("a") == ["start! x"]
    assert drive.play().status == "succeeded"


def test_a_crash_after_that_finds_it_dropped():
    drive = failed("a kept; x default a; s kept x; z kept s")
    drive.tell(events.Resume(("x",)))
    again = drive.reload()
    assert again.begin() == ["start! x"]
    assert again.play().status == "succeeded"


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a kept; x default a; y kept x; s kept x; z kept s y", "x"),
        ("a kept; x default a; s kept x; z kept s", "a"),
        ("a kept; x default a; s kept x; z kept s", "s"),
        ("a kept; x default a; s kept x; z kept s", "nobody"),
    ],
    ids=["somebody else has read it", "what was made of it has begun", "it has no outcome", "it is not there"],
)
def test_nothing_is_dropped_on_which_something_is_built(text, node):
    drive = Drive(graph(text), validate=True)
    drive.begin()
    drive.complete("a")
    drive.handle("x")
    drive.save("x")
    if "y" in drive.running:
        drive.complete("y")
    drive.raises("s")
    again = drive.reload()
    again.begin()
    with pytest.raises(IllegalEvent):
        again.tell(events.Resume((node,)))
    assert again.status == "failed"
