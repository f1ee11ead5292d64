"""Runs over a part of a graph: others run the rest and tell of it with `Given`."""

import pytest

from onceflow.core.model import events
from onceflow.errors import IllegalEvent
from tests.core.building import Drive, graph


def partial(text, members, *completed):
    drive = Drive(graph(text), members=members.split())
    drive.begin()
    drive.complete(*completed)
    return drive


def test_members_without_foreign_inputs_start_at_once():
    drive = Drive(graph("a pure; b pure; c pure a b; z kept c"), members=["b", "c"])
    assert drive.begin() == ["start b"]


def test_a_foreign_input_arrives_with_given():
    drive = partial("a pure; b pure a; z kept b", "b")
    assert drive.running == {}
    assert drive.tell(events.Given("a")) == ["start b"]


def test_a_given_output_is_not_started():
    drive = partial("a pure; b pure a; z kept b", "b")
    drive.tell(events.Given("a"))
    assert list(drive.attempts) == ["b"]


def test_a_foreign_parent_that_is_only_waited_for_arrives_with_given_too():
    drive = partial("a pure; b pure after:a; z kept b", "b")
    assert drive.tell(events.Given("a")) == ["start b"]


def test_an_irrevocable_member_waits_until_its_foreign_parent_is_called_quiet():
    drive = partial("a kept; n default a; z kept n", "n")
    assert drive.tell(events.Given("a")) == []
    assert drive.tell(events.Given("a", reproducible=True)) == []
    assert drive.tell(events.Given("a", quiet=True)) == ["+begun n", "start! n"]


def test_an_undoable_member_waits_until_its_foreign_parent_is_called_reproducible():
    drive = partial("a kept; u undoable a; z kept u", "u")
    assert drive.tell(events.Given("a")) == []
    assert drive.tell(events.Given("a", quiet=True)) == []
    assert drive.tell(events.Given("a", reproducible=True))[-1] == "start! u"


def test_facts_may_be_given_before_the_output():
    drive = partial("a kept; n default a; z kept n", "n")
    assert drive.tell(events.Given("a", available=False, quiet=True)) == []
    assert drive.tell(events.Given("a")) == ["+begun n", "start! n"]


def test_facts_only_grow():
    drive = partial("a kept; p pure a; n default p; z kept n", "p n")
    drive.tell(events.Given("a", quiet=True))
    drive.tell(events.Given("a", quiet=False))
    assert drive.finish("p") == ["+begun n", "start! n"]


def test_a_lost_foreign_output_is_asked_for_when_a_member_needs_it():
    drive = partial("a kept; b pure; c pure a b; z kept c", "b c")
    drive.tell(events.Given("a"))
    assert drive.tell(events.Given("a", available=False)) == ["need a"]
    assert drive.finish("b") == []
    assert drive.tell(events.Given("a")) == ["start c"]


def test_a_lost_foreign_output_is_asked_for_when_its_running_reader_is_lost():
    drive = partial("a pure; b pure a; z kept b", "b")
    drive.tell(events.Given("a"))
    assert drive.tell(events.Given("a", available=False)) == []
    assert drive.lose(attempts="b") == ["need a"]
    assert drive.tell(events.Given("a")) == ["start b"]


def test_a_lost_member_that_read_a_lost_foreign_output_needs_it_again():
    drive = partial("a pure; b pure a; k kept; c pure b k; z kept c", "b k c")
    drive.tell(events.Given("a"))
    drive.finish("b")
    drive.tell(events.Given("a", available=False))
    assert "need a" in drive.lose("b")
    assert drive.tell(events.Given("a")) == ["start b"]


def test_an_exported_unsaved_member_is_not_settled_by_the_consumers_that_are_known():
    """`a` is read by the member `b` and by `x` outside: nobody here learns when `x` is settled."""
    drive = partial("a loose; b kept a; x kept a; z kept b x", "a b", "a")
    drive.finish("b")
    drive.save("b")
    assert "a" in drive.run.rows
    assert not drive.run.rows["a"].settled
    assert not drive.run.rows["b"].settled


def test_an_exported_unsaved_member_is_kept_when_all_known_consumers_are_settled():
    drive = partial("a pure; b kept a; x kept a; z kept b x", "a b", "a")
    drive.finish("b")
    assert not any("release a" in said for said in drive.save("b"))
    assert drive.run.rows["b"].settled
    assert not drive.run.rows["a"].settled


def test_a_member_that_nothing_outside_reads_is_released_when_its_consumers_are_settled():
    drive = partial("a pure; b kept a; z kept b", "a b", "a")
    drive.finish("b")
    assert "release a" in drive.save("b")


def test_an_exported_saved_member_is_settled_by_its_save():
    drive = partial("a kept; b kept a; x kept a; z kept b x", "a b", "a")
    assert drive.run.rows["a"].settled


def test_a_partial_run_succeeds_when_all_its_members_are_done_and_their_saves_answered():
    drive = partial("a kept; b kept a; z kept b", "a b", "a")
    assert drive.finish("b") == ["save b"]
    assert drive.save("b")[-2:] == ["+finished succeeded", "finish succeeded"]


def test_an_unsaved_exported_member_does_not_keep_a_partial_run_from_succeeding():
    drive = partial("a pure; b loose a; z kept b", "a b", "a")
    assert drive.finish("b")[-1] == "finish succeeded"


def test_foreign_nodes_that_no_member_reads_have_no_row():
    drive = partial("a pure; b pure; c pure a; d pure b; z kept c d", "c")
    assert set(drive.states()) == {"a", "c"}


@pytest.mark.parametrize("node", ["b", "nobody", "z"])
def test_given_is_illegal_for_nodes_that_are_not_outside(node):
    drive = partial("a pure; b pure a; z kept b", "b")
    before = drive.states()
    with pytest.raises(IllegalEvent):
        drive.tell(events.Given(node))
    assert drive.states() == before


def test_a_member_that_fails_stops_the_part():
    drive = partial("a pure; b pure a; c kept; z kept b c", "b c")
    drive.tell(events.Given("a"))
    drive.raises("b")
    assert drive.end("c") == ["+finished failed", "finish failed failed=b"]


def test_a_foreign_input_of_an_undo_that_was_lost_is_asked_for():
    drive = partial("a pure; u undoable a; z kept u", "u")
    drive.tell(events.Given("a", reproducible=True))
    drive.tell(events.Given("a", available=False))
    assert drive.lose(attempts="u") == ["need a"]
    assert drive.end("u") == []
    assert drive.tell(events.Given("a")) == ["undo u"]


def test_a_lost_foreign_output_that_no_member_needs_is_not_asked_for():
    drive = partial("a kept; b pure a; z kept b", "b")
    drive.tell(events.Given("a"))
    assert drive.tell(events.Given("a", available=False)) == []


def test_a_lost_foreign_output_is_asked_for_once():
    drive = partial("a kept; b pure a; k kept; c pure b k; z kept c", "b k c")
    drive.tell(events.Given("a"))
    drive.finish("b")
    drive.tell(events.Given("a", available=False))
    assert drive.lose("b") == ["need a"]
