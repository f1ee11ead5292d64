"""Nodes that belong together take turns (design 2.10)."""

import pytest

from onceflow.core.model import events
from onceflow.errors import IllegalEvent
from tests.core.building import Drive, graph

LOOP = graph("a pure,turn=0,limit=2; b pure,turn=1,limit=2; c pure,turn=2,limit=2; z pure a b c")


def looping(nested=LOOP, text="e kept; end kept e", **settings):
    drive = Drive(graph(text), **settings)
    drive.begin()
    drive.complete("e", graph=nested)
    return drive


def test_no_more_nodes_of_a_group_run_than_its_limit_allows():
    drive = looping()
    assert set(drive.running) == {"e/a", "e/b"}
    assert drive.finish("e/a") == ["start e/c"]


def test_those_with_lower_numbers_go_first():
    drive = looping(graph("a pure,turn=5,limit=1; b pure,turn=9,limit=1; c pure,turn=7,limit=1; z pure a b c"))
    assert drive.finish("e/a") == ["start e/c"]
    assert drive.finish("e/c") == ["start e/b"]


def test_nothing_is_recorded_of_an_effect_that_waits_for_its_turn():
    drive = Drive(graph("e kept; end kept e"))
    drive.begin()
    drive.finish("e", graph=graph("a default,turn=0,limit=1; b default,turn=1,limit=1; z pure a b"))
    assert drive.save("e") == ["+saved e as graph", "+begun e/a", "start! e/a"]


def test_an_attempt_that_raised_gives_its_turn_to_another():
    drive = looping(graph("a pure,turn=0,limit=1,retries=1; b pure,turn=1,limit=1; z pure a b"))
    assert drive.raises("e/a") == ["+failed e/a 1", "wait e/a 1", "start e/b"]
    assert drive.elapse("e/a") == []
    assert drive.finish("e/b") == ["start e/a"]


def test_a_lost_attempt_gives_its_turn_back_and_waits_for_the_next():
    drive = looping(graph("a pure,turn=0,limit=1; b pure,turn=1,limit=1; z pure a b"))
    assert drive.lose(attempts="e/a") == ["start e/a"]


def test_a_node_that_returned_a_graph_is_in_flight_until_the_result_is_there():
    drive = looping(graph("a kept,turn=0,limit=1; b kept,turn=1,limit=1; z kept a b"))
    drive.complete("e/a", graph=graph("x pure; y pure x"))
    assert set(drive.running) == {"e/a/x"}
    drive.finish("e/a/x")
    assert drive.finish("e/a/y") == ["save e/a/y", "start e/b"]


def test_it_stays_in_flight_while_the_result_is_another_graph():
    drive = looping(graph("a kept,turn=0,limit=1; b kept,turn=1,limit=1; z kept a b"))
    drive.complete("e/a", graph=graph("x kept"))
    drive.complete("e/a/x", graph=graph("y kept"))
    assert "e/b" not in drive.running
    assert drive.finish("e/a~2/y") == ["save e/a~2/y", "start e/b"]


def test_a_node_that_returned_more_of_its_group_is_not_in_flight_any_more():
    drive = looping(graph("a kept,turn=0,limit=1; b kept,turn=9,limit=1; z kept a b"))
    more = graph("x pure,turn=1; y pure,turn=2; z pure x y")
    assert drive.finish("e/a", graph=more) == ["save e/a", "start e/a/x"]
    assert drive.finish("e/a/x") == ["start e/a/y"], "what is opened goes on before more is opened"
    assert drive.finish("e/a/y") == ["start e/a/z", "start e/b"]


def test_nodes_that_open_into_more_go_one_at_a_time():
    drive = looping(graph("a kept,turn=0,opens,limit=9; b kept,turn=5,opens,limit=9; z kept a b"))
    assert set(drive.running) == {"e/a"}
    drive.complete("e/a", graph=graph("x pure,turn=1; y pure,turn=2; z pure x y"))
    assert set(drive.running) == {"e/a/x", "e/a/y", "e/b"}


def test_a_group_in_a_group_has_turns_of_its_own():
    drive = looping(graph("a kept,turn=0,limit=1; b kept,turn=1,limit=1; z kept a b"))
    drive.complete("e/a", graph=LOOP)
    assert set(drive.running) == {"e/a/a", "e/a/b"}
    drive.finish("e/a/a", "e/a/b", "e/a/c")
    assert drive.finish("e/a/z")[-1] == "start e/b"


def test_what_runs_again_waits_for_no_turn():
    """Somebody may be in flight who needs it."""
    drive = looping(graph("a pure,turn=0,limit=1; b pure,turn=1,limit=1; z pure a b"))
    drive.finish("e/a")
    assert drive.lose("e/a") == ["start e/a"]
    assert set(drive.running) == {"e/a", "e/b"}


def test_the_limit_can_be_changed_while_the_run_goes_on():
    drive = looping()
    assert drive.tell(events.Limit("e", 3)) == ["+limited e 3", "start e/c"]
    assert drive.tell(events.Limit("e", 3)) == []


def test_a_lower_limit_ends_nothing_that_runs():
    drive = looping(graph("a pure,turn=0,limit=2; b pure,turn=1,limit=2; c pure,turn=2,limit=2; z pure a b c"))
    assert drive.tell(events.Limit("e", 1)) == ["+limited e 1"]
    assert drive.finish("e/a") == []
    assert drive.finish("e/b") == ["start e/c"]


def test_a_limit_may_be_set_before_there_is_a_group():
    drive = Drive(graph("e kept; end kept e"))
    drive.begin()
    drive.tell(events.Limit("e", 1))
    drive.finish("e", graph=LOOP)
    assert set(drive.running) == {"e/a"}


def test_a_limit_of_nothing_is_refused():
    drive = looping()
    with pytest.raises(IllegalEvent, match="at least 1"):
        drive.tell(events.Limit("e", 0))


def test_after_a_crash_the_limit_is_the_one_that_was_set():
    drive = looping()
    drive.tell(events.Limit("e", 1))
    again = drive.reload()
    again.begin()
    assert set(again.running) == {"e/a"}


def test_after_a_crash_a_graph_that_has_no_result_is_in_flight():
    drive = looping(graph("a kept,turn=0,limit=1; b kept,turn=1,limit=1; z kept a b"))
    drive.complete("e/a", graph=graph("x pure; y pure x"))
    again = drive.reload()
    again.begin()
    assert set(again.running) == {"e/a/x"}
    again.finish("e/a/x")
    assert again.finish("e/a/y") == ["save e/a/y", "start e/b"]


def test_after_a_crash_a_graph_that_has_its_result_is_not_in_flight():
    drive = looping(graph("a kept,turn=0,limit=1; b kept,turn=1,limit=1; z kept a b"))
    drive.complete("e/a", graph=graph("x kept"))
    drive.complete("e/a/x")
    again = drive.reload()
    again.begin()
    assert set(again.running) == {"e/b"}


def test_a_group_that_is_dropped_leaves_nothing_behind():
    """1. `s` is lost before it is saved. 2. Its graph, of which two run, goes with it. 3. It runs again, and returns
    another graph, whose nodes find all places free."""
    drive = Drive(graph("s loose; e kept s; end kept e"))
    drive.begin()
    drive.finish("s")
    drive.finish("e", graph=LOOP)
    drive.lose("s", "e", attempts="e/a e/b")
    drive.end("e/a", "e/b")
    drive.finish("s")
    drive.finish("e", graph=LOOP)
    assert set(drive.running) == {"e/a", "e/b"}


def test_one_that_opens_into_more_holds_up_only_others_that_do():
    drive = looping(graph("a kept,turn=0,opens,limit=9; b kept,turn=5,limit=9; z kept a b"))
    assert set(drive.running) == {"e/a", "e/b"}


def test_a_group_without_a_limit_has_room_for_all_and_may_be_given_one():
    drive = looping(graph("a kept,turn=0; b kept,turn=1,retries=1; z kept a b"))
    assert set(drive.running) == {"e/a", "e/b"}
    drive.tell(events.Limit("e", 1))
    drive.raises("e/b")
    assert drive.elapse("e/b") == []


def test_a_turn_is_handed_back_when_the_graph_that_had_it_is_dropped():
    drive = looping(graph("a loose,turn=0,limit=1; b loose,turn=1; z loose a b"))
    drive.finish("e/a", graph=graph("x loose"))
    drive.finish("e/a/x", graph=graph("y loose"))
    drive.lose("e/a/x", attempts="e/a~2/y")
    assert "e/b" not in drive.running
    assert "start e/b" in drive.finish("e/a/x")


def test_who_asks_is_not_queued_once_more():
    drive = looping(graph("s kept; k kept; a pure,asks,turn=0,opens,limit=2 s; b pure,turn=1 k; z pure a b"))
    assert drive.finish("e/s") == ["save e/s", "ask e/a"]
    drive.save("e/s")
    assert drive.finish("e/k") == ["save e/k", "start e/b"]


def test_a_taker_that_waited_for_readers_waits_for_its_turn():
    drive = looping(graph("m pure; r kept m; t kept,turn=0,limit=1 takes:m; z kept r t"))
    drive.finish("e/m", holding="actor")
    assert drive.finish("e/r") == ["save e/r", "start e/t"]
