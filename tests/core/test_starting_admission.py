"""Nodes that ask before they start (design 2.13)."""

from tests.core.building import Drive, graph


def driving(text, **settings):
    drive = Drive(graph(text), validate=True, **settings)
    return drive, drive.begin()


def test_a_node_asks_once_and_starts_when_it_is_admitted():
    drive, first = driving("a pure,asks; b kept a")
    assert first == ["ask a"]
    assert drive.admit("a") == ["start a"]
    assert drive.admit("a") == []


def test_it_asks_when_it_could_start_and_not_before():
    drive, first = driving("a kept; b default,asks a")
    assert first == ["start a"]
    assert drive.finish("a") == ["save a"]
    assert drive.save("a") == ["+saved a", "ask b"]


def test_nothing_is_recorded_of_an_effect_that_has_not_been_admitted():
    drive, first = driving("a default,asks")
    assert first == ["ask a"]
    assert drive.admit("a") == ["+begun a", "start! a"]


def test_who_is_admitted_too_late_asks_again_when_it_can():
    drive, _ = driving("a loose; b pure,asks a; c kept b")
    assert drive.finish("a") == ["ask b"]
    assert drive.lose("a") == ["drop a", "start a"]
    assert drive.admit("b") == []
    assert drive.finish("a") == ["ask b"]
    assert drive.admit("b") == ["start b"]


def test_what_runs_again_asks_again():
    drive, _ = driving("a pure,asks; b kept a")
    drive.admit("a")
    drive.finish("a")
    assert drive.lose("a", attempts="b") == ["ask a"]


def test_an_attempt_that_is_tried_again_asks_again():
    drive, _ = driving("a kept,asks,retries=1")
    drive.admit("a")
    assert drive.raises("a") == ["+failed a 1", "wait a 1"]
    assert drive.elapse("a") == ["ask a"]


def test_who_asks_keeps_its_turn():
    nested = graph("a pure,asks,turn=0,limit=1; b pure,turn=1,limit=1; z pure a b")
    drive = Drive(graph("e kept; end kept e"), validate=True)
    drive.begin()
    drive.complete("e", graph=nested)
    assert drive.admit("e/a") == ["start e/a"]
    assert drive.finish("e/a") == ["start e/b"]


def test_a_run_that_is_cancelled_does_not_wait_for_those_who_ask():
    drive, _ = driving("a default,asks")
    assert drive.cancel() == ["+cancelled", "+finished cancelled", "finish cancelled"]
    assert drive.admit("a") == []


def test_another_life_asks_anew():
    drive, _ = driving("a default,asks; b kept a")
    drive.admit("a")
    assert drive.reload().begin() == ["ask a"]


def test_undos_and_what_is_made_again_for_them_ask_nobody():
    drive, _ = driving("a pure,asks; u undoable,asks a; f kept u", on_failure="undo")
    drive.admit("a")
    drive.finish("a")
    drive.admit("u")
    drive.complete("u")
    assert "undo u with output" in drive.raises("f", permanent=True)


def test_the_turn_of_who_asks_is_over_when_the_graph_is_dropped_that_it_is_in():
    # given a node that has its turn, and asks
    drive = Drive(graph("e kept; end kept e"), validate=True)
    drive.begin()
    drive.complete("e", graph=graph("a loose,turn=0,limit=1; b loose,turn=1; z loose a b"))
    assert "ask e/a/x" in drive.finish("e/a", graph=graph("x loose,turn=0,asks; y loose x"))
    # when the graph is lost
    assert drive.lose("e/a") == ["drop e/a", "start e/a"]


def test_whatever_has_an_effect_asks_if_the_host_wants_that():
    drive, first = driving("a pure; u undoable a; n default a; z kept u n", has_place=lambda node: False)
    assert first == ["start a"]
    assert drive.finish("a") == ["ask u", "ask n"]
    assert drive.admit("u") == ["+begun u carrying a.0", "start! u"]
    assert drive.admit("n") == ["+begun n", "start! n"]


def test_what_has_an_effect_need_not_ask_if_the_host_has_a_place_for_it_at_once():
    drive, first = driving("a pure; u undoable a; n default a; z kept u n", has_place=lambda node: node != "n")
    assert first == ["start a"]
    assert drive.finish("a") == ["+begun u carrying a.0", "start! u", "ask n"]
    assert drive.admit("n") == ["+begun n", "start! n"]


def test_a_node_in_a_queue_asks_although_the_host_has_a_place_for_its_effect():
    drive, first = driving("n default,asks; z kept n", has_place=lambda node: True)
    assert first == ["ask n"]
    assert drive.admit("n") == ["+begun n", "start! n"]


def test_an_undo_does_not_ask():
    drive, _ = driving("u undoable; n default u; z kept n", has_place=lambda node: False)
    drive.admit("u")
    drive.complete("u")
    assert drive.cancel(undo=True) == ["+cancelled with undo", "+recovering u", "undo u with output"]
