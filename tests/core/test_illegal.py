"""Impossible events raise and change nothing; late ones are answered with nothing."""

import copy

import msgspec
import pytest

from onceflow.core.model import events
from onceflow.core.model.refs import RefPart
from onceflow.core.model.rows import Row
from onceflow.errors import IllegalEvent
from tests.core.building import Drive, graph

TEXT = "a kept,parts=2; b loose a; c kept b; u undoable,retries=1 a; n default a; k kept,retries=1; z kept c u n k"


def snapshot(run):
    """All that a run knows, deeply."""
    rows = {}
    for id, row in run.rows.items():
        fields = {name: getattr(row, name) for name in Row.__struct_fields__}
        fields["parents"] = [(parent.id, mask) for parent, mask in row.parents]
        fields["consumers"] = [(consumer.id, mask, position) for consumer, mask, position in row.consumers]
        for name in ("settling", "quieting", "undo", "nested", "expander", "pinned", "scope"):
            fields[name] = fields[name] is not None
        rows[id] = copy.deepcopy({name: value for name, value in fields.items() if name != "node"})
    known = msgspec.structs.asdict(run)
    rest = {name: value for name, value in known.items() if isinstance(value, (int, str, bool, type(None)))}
    lists = {name: len(value) for name, value in known.items() if isinstance(value, (list, dict))}
    return rows, rest, lists


def in_the_middle():
    """`a` is saved in part, `b` done, `k` waits for a retry."""
    drive = Drive(graph(TEXT))
    drive.begin()
    drive.finish("a", "b")
    drive.save("a")
    drive.raises("k")
    return drive


def finished_c(drive, *refs):
    return events.Finished("c", drive.running["c"], refs=refs)


NEVER = 1 << 60
ILLEGAL = {
    "an attempt that was never started finished": lambda d: events.Finished("a", NEVER),
    "an attempt that was never started raised": lambda d: events.Raised("a", NEVER),
    "an attempt that was never started ended": lambda d: events.Ended("a", NEVER),
    "an attempt that was never started saved": lambda d: events.Saved("a", 0, NEVER),
    "an attempt that was never started could not save": lambda d: events.SaveFailed("a", 0, NEVER),
    "an attempt that was never started waited": lambda d: events.Elapsed("a", NEVER),
    "an attempt that was never started undid": lambda d: events.Undone("u", NEVER),
    "an attempt that was never started could not undo": lambda d: events.UndoFailed("u", NEVER),
    "an attempt that was never started was lost": lambda d: events.Lost((("b", 0),), (("a", NEVER),)),
    "attempt zero": lambda d: events.Finished("a", 0),
    "a negative attempt": lambda d: events.Ended("a", -1),
    "a node that does not exist finished": lambda d: events.Finished("q", d.attempts["a"][0]),
    "a node that does not exist was lost": lambda d: events.Lost((), (("q", d.attempts["a"][0]),)),
    "a part that does not exist was saved": lambda d: events.Saved("a", 2, d.attempts["a"][0]),
    "a part before the first was saved": lambda d: events.Saved("a", -1, d.attempts["a"][0]),
    "a part that does not exist could not be saved": lambda d: events.SaveFailed("a", 2, d.attempts["a"][0]),
    "a part before the first was lost": lambda d: events.Lost((("b", 0), ("a", -1))),
    "a ref is in a part that does not exist": lambda d: finished_c(d, RefPart(0b10)),
    "a ref comes from a node that is not read": lambda d: finished_c(d, RefPart(1, ("k", 0))),
    "a ref comes from a part before the first": lambda d: finished_c(d, RefPart(1, ("b", -1))),
    "an undo that is not parked is to be retried": lambda d: events.RetryUndo("u"),
    "an undo of nothing is to be retried": lambda d: events.RetryUndo("q"),
    "a run that is not stopped gives up": lambda d: events.GiveUp(),
    "a run that goes on is resumed": lambda d: events.Resume(),
    "a member is given": lambda d: events.Given("a"),
    "a node that does not exist is given": lambda d: events.Given("q"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_impossible_event_raises_and_changes_nothing(name):
    drive = in_the_middle()
    event = ILLEGAL[name](drive)
    before = snapshot(drive.run)
    with pytest.raises(IllegalEvent):
        drive.run.handle(event)
    assert snapshot(drive.run) == before
    assert drive.play().status == "succeeded"


def test_a_run_that_succeeded_cannot_be_resumed_even_if_loaded():
    drive = Drive(graph("a kept"))
    drive.begin()
    drive.complete("a")
    again = drive.reload()
    assert again.begin() == []
    with pytest.raises(IllegalEvent):
        again.tell(events.Resume())


def test_a_run_that_failed_cannot_be_resumed_without_being_loaded():
    drive = Drive(graph("a kept"))
    drive.begin()
    drive.raises("a")
    with pytest.raises(IllegalEvent):
        drive.tell(events.Resume())
    assert drive.status == "failed"


LATE = {
    "finished twice": lambda d: events.Finished("a", d.attempts["a"][0]),
    "raised after it finished": lambda d: events.Raised("a", d.attempts["a"][0], permanent=True),
    "ended after it finished": lambda d: events.Ended("a", d.attempts["a"][0]),
    "lost after it finished": lambda d: events.Lost((), (("a", d.attempts["a"][0]),)),
    "saved twice": lambda d: events.Saved("a", 0, d.attempts["a"][0]),
    "saved unasked": lambda d: events.Saved("b", 0, d.attempts["b"][0]),
    "could not save unasked": lambda d: events.SaveFailed("b", 0, d.attempts["b"][0], permanent=True),
    "waited unasked": lambda d: events.Elapsed("a", d.attempts["a"][0]),
    "undone unasked": lambda d: events.Undone("a", d.attempts["a"][0]),
    "could not undo unasked": lambda d: events.UndoFailed("u", d.attempts["a"][0]),
    "an attempt of another node": lambda d: events.Finished("z", d.attempts["a"][0]),
    "lost before it was there": lambda d: events.Lost((("z", 0), ("n", 0))),
    "lost after it was saved": lambda d: events.Lost((("a", 0),)),
    "a node of a graph that is gone": lambda d: events.Finished("b/x", d.attempts["a"][0]),
    "nothing was lost": lambda d: events.Lost(),
    "a ref was lost that an earlier attempt returned": lambda d: events.Lost((("a", 2), ("b", 5))),
}


@pytest.mark.parametrize("name", LATE)
def test_a_late_event_is_answered_with_nothing(name):
    drive = in_the_middle()
    event = LATE[name](drive)
    before = snapshot(drive.run)
    assert drive.run.handle(event) == []
    assert snapshot(drive.run) == before
    assert drive.play().status == "succeeded"


def test_all_events_are_late_when_the_run_is_over():
    drive = Drive(graph("a kept,retries=1; f kept; z kept a f"))
    drive.begin()
    attempt = drive.running["a"]
    drive.raises("f")
    drive.end("a")
    assert drive.status == "failed"
    before = snapshot(drive.run)
    for event in (
        events.Finished("a", attempt),
        events.Raised("a", attempt),
        events.Ended("a", attempt),
        events.Saved("a", 0, attempt),
        events.SaveFailed("a", 0, attempt, permanent=True),
        events.Elapsed("a", attempt),
        events.Undone("a", attempt),
        events.UndoFailed("a", attempt),
        events.Lost((("a", 0),), (("a", attempt),)),
        events.Cancel(undo=True),
        events.GiveUp(),
    ):
        assert drive.run.handle(event) == []
        assert snapshot(drive.run) == before
