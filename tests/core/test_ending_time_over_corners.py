"""Graphs whose time is over (design 2.8): what stands aside in them, and transactions around them."""

from onceflow.core.model import events
from tests.core.building import Drive, graph
from tests.core.test_ending import KEEP, TRANSACTION, inside


def forking(text, nested):
    """A drive whose `e` has returned this graph, with the sink `s`, and is saved."""
    drive = Drive(graph(text))
    drive.begin()
    drive.complete("e", graph=graph(nested, sink="s"))
    return drive


def test_what_stands_aside_goes_on_if_the_graph_had_its_result_in_time():
    drive = forking(KEEP, "c kept,aside; s kept")
    drive.complete("e/s")
    assert drive.expire("e/c", 1) == []
    assert "e/c" in drive.running


def test_what_stands_aside_starts_again_if_the_result_came_while_the_graph_was_being_ended():
    drive = forking(KEEP, "b kept; c kept,aside b; s default")
    assert drive.expire("e/c", 1) == ["stop e/b", "withdraw e/s", "stop e/s"]
    assert "start e/b" in drive.tell(events.Finished("e/s", drive.attempts["e/s"][-1]))


def test_a_transaction_around_a_graph_whose_time_is_over_goes_on():
    drive = inside(TRANSACTION, "u undoable; f kept u; c kept f")
    drive.complete("e/u")
    drive.complete("e/f", graph=graph("a kept; y kept a"))
    assert drive.expire("e/f/a", 2) == ["stop e/f/a", "give e/f/y", "+abandoned e/f/y", "save e/f/y"]


def test_the_time_of_a_graph_is_not_over_while_its_run_is_asleep():
    drive = inside(KEEP, "x kept; y kept x")
    again = drive.reload(asleep=True)
    again.begin()
    assert again.expire("e/x", 1) == []
    assert again.tell(events.Resume()) == ["+resumed", "start e/x"]


def test_a_graph_that_was_about_to_be_tried_again_ends_if_its_time_is_over():
    drive = inside(KEEP, "a kept; i default; c kept a i")
    assert drive.ends("e/a", 1, again=True) == ["withdraw e/i"]
    assert drive.expire("e/c", 1) == ["withdraw e/i", "stop e/i"]
    assert drive.end("e/i") == ["give e/c", "+abandoned e/c", "save e/c"]


def test_a_transaction_is_not_taken_back_for_a_graph_in_it_whose_time_was_over_when_it_ended_itself():
    # given a graph in a transaction whose time is over, and whose outcome is not saved yet
    drive = inside(TRANSACTION, "u undoable; f kept; x kept; c kept f u x")
    drive.complete("e/u")
    drive.complete("e/f", graph=graph("a kept; y kept a"))
    assert "give e/f/y" in drive.expire("e/f/a", 2)
    # when a task fails, and the transaction is to end, without being taken back
    # then it is not
    assert drive.ends("e/x", 1, failed=-1)[-3:] == ["give e/c", "+abandoned e/c", "save e/c"]
