"""Corners of nested graphs (design 2.8, 2.9): scopes, what a crash took of a graph, what the journal learns, ids."""

import pytest

from onceflow.core.model.walks import id_inside, row_around
from tests.core.building import begun, graph

PAIR = graph("x pure; y pure x")


# -- scopes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "depth"), [("kept", 1), ("kept,guarding", 2), ("kept,transaction", 2)], ids=["plain", "guards", "groups"]
)
def test_what_the_sink_of_a_graph_returns_is_in_the_same_scope_unless_the_sink_has_a_say_about_it(kind, depth):
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph(f"a {kind}"))
    drive.complete("e/a", graph=graph("x kept; y kept x"))
    assert drive.run.rows["e~2/x"].scope.depth == depth
    assert drive.ends("e~2/x", depth) == ["give e~2/y", "+abandoned e~2/y", "save e~2/y"]


# -- graphs that a crash took ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "completed"),
    [("e pure; s kept e; k kept; z kept e s k", ["s"]), ("e pure; n default e; z kept n", [])],
    ids=["one of two has read it", "all have read it"],
)
def test_nobody_can_answer_for_a_task_of_a_lost_graph_whose_result_was_read_before_the_crash(text, completed):
    drive = begun(text)
    drive.finish("e", graph=PAIR)
    drive.complete("e/x", "e/y", *completed)
    again = drive.reload()
    again.begin()
    again.finish("e", graph=PAIR)
    assert again.handle("e/x")[0] == "+failed e/x 1 final"


def test_somebody_can_if_all_that_had_read_the_result_is_dropped():
    """1. `s` has read `e` and `a`. 2. A crash takes both, and `z` needs `a` again: so `s` is dropped."""
    drive = begun("a loose; e pure; s kept e a; k kept; z kept a s k", "a")
    drive.finish("e", graph=PAIR)
    drive.complete("e/x", "e/y", "s")
    again = drive.reload()
    assert "+dropped a s" in again.begin()
    again.finish("e", graph=PAIR)
    assert again.handle("e/x") == ["+handled e", "save e", "start e/y"]
    again.finish("a")
    assert again.play().status == "succeeded"


# -- what the journal learns -----------------------------------------------------------------------------------------


def test_the_innermost_task_that_the_journal_knows_is_noted_as_not_deterministic():
    drive = begun("e pure,saved; z kept e")
    drive.complete("e", graph=graph("a pure; b kept a"))
    assert drive.finish("e/a", graph=graph("x loose")) == ["+expanded e/a", "start e/a/x"]


@pytest.mark.parametrize(("kind", "record"), [("kept", []), ("pure,saved", ["+handled e/a"])])
def test_an_answer_in_a_graph_is_noted_with_the_graph_only_where_the_task_would_be_trusted(kind, record):
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=graph(f"a {kind}; b kept a"))
    drive.handle("e/a")
    assert drive.save("e") == ["+saved e as graph", *record, "save e/a"]


def test_a_task_that_is_declared_nondeterministic_is_not_said_to_be_trusted_again():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=PAIR)
    drive.handle("e/x")
    records = [told for told in drive.lose("e/x") if told.startswith("+")]
    assert records == ["+recovering e/x e/y", "+dropped e/x e/y"]


def test_a_task_is_not_trusted_again_while_something_nondeterministic_is_left_in_its_graph():
    """1. `e/x` is lost and runs again. 2. `s` reads the result, and a crash takes the graph: `s` has to go as well."""
    drive = begun("e pure; s kept e; k kept; z kept e s k")
    drive.finish("e", graph=graph("x loose; w pure; y pure x w"))
    drive.finish("e/x")
    assert drive.lose("e/x") == ["drop e/x", "start e/x"]
    drive.finish("e/x", "e/w", "e/y")
    drive.complete("s")
    assert drive.reload().begin()[:2] == ["+recovering e s", "+dropped e s"]


def test_the_journal_has_nothing_to_say_about_a_task_that_is_trusted_again():
    """1. What was handled in its graph is dropped. 2. The task itself is dropped, and none of it is saved."""
    drive = begun("n loose; e pure n; z kept e n")
    drive.finish("n")
    drive.finish("e", graph=PAIR)
    drive.handle("e/x")
    assert "+trusted e" in drive.lose("e/x")
    assert drive.lose("n") == ["stop e/x", "drop n", "drop e", "drop e/x", "start n"]


def test_the_journal_has_still_to_know_of_what_a_handler_gave_when_something_else_that_it_gave_is_dropped():
    drive = begun("f pure; g kept f")
    drive.finish("f", graph=graph("x loose; y loose; s loose x y"))
    assert drive.handle("f/x")[0] == "+handled f"
    assert drive.handle("f/y")[0] == "+handled f"
    records = [told for told in drive.lose("f/x") if told.startswith("+")]
    assert records == ["+recovering f/s f/x", "+dropped f/s f/x"]


def test_the_journal_is_told_that_a_task_is_dropped_of_which_it_learned_with_the_graph_around_it():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=graph("n loose; a pure n; b kept n a"))
    drive.finish("e/n")
    drive.finish("e/a", graph=graph("x loose"))
    assert drive.save("e") == ["+saved e as graph", "+expanded e/a"]
    told = drive.lose("e/n")
    assert told[1:3] == ["+recovering e/a e/a/x e/n", "+dropped e/a e/a/x e/n"]


def test_a_task_whose_graph_was_saved_is_not_said_to_be_trusted_again_when_that_save_does_not_count_any_more():
    """1. `e/x` was handled, and `e` is saved, but for a ref. 2. That is lost, and `e` returns other refs. 3. What was
    handled is dropped; but since the graph was saved, nothing is in the journal against `e`."""
    drive = begun("e pure; z kept e")
    drive.finish("e", graph=PAIR, holding="new")
    assert drive.handle("e/x")[0] == "+handled e"
    drive.save("e")
    assert drive.lose("e.1") == ["start e"]
    assert drive.finish("e", graph=PAIR, holding="new new") == ["save e"]
    assert "+trusted e" not in drive.lose("e/x")


# -- ids -------------------------------------------------------------------------------------------------------------


def test_ids_in_the_graph_that_a_task_returns_are_known_before():
    drive = begun("loop kept; z kept loop")
    assert id_inside(drive.run.rows["loop"], "step") == "loop/step"
    for node in ("loop", "loop/step"):
        inside = id_inside(drive.run.rows[node], "step")
        drive.complete(node, graph=graph("step kept"))
        assert list(drive.running) == [inside]
    assert inside == "loop~2/step"


@pytest.mark.parametrize(
    ("node", "around"),
    [
        ("e", "e"),
        ("e/a/x", "e"),
        ("e/f/x", "e/f"),
        ("e~2/x", "e/g"),
        ("e~3/x", "e/g"),
        ("e/f~2/x", "e/f"),
        ("e/f~g/x", "e"),
        ("e/f~2/x/y~4/z", "e/f"),
        ("o/x", None),
        ("7/x", None),
    ],
)
def test_the_innermost_known_task_around_a_node_is_found_by_the_node_s_id(node, around):
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("f kept; g kept f"))
    assert row_around(drive.run.rows, node) is (None if around is None else drive.run.rows[around])


# -- graphs that are saved for the sake of what a handler gave ---------------------------------------------------------


def test_a_graph_that_is_to_be_saved_stays_so_when_something_in_it_is_dropped():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=graph("a loose; b kept a"))
    drive.finish("e/a")
    drive.lose("e/a", attempts="e/b")
    drive.finish("e/a")
    assert "start e" in drive.lose("e")


def test_a_graph_that_was_saved_because_of_what_a_handler_gave_counts_as_saved_when_that_is_dropped():
    """`q/n` waits for `a`, and so for `f`, which would wait for `c` if it were not saved."""
    drive = begun("a loose; f loose a; q kept a; c kept f q")
    drive.finish("a")
    drive.finish("f", graph=graph("x pure"))
    drive.handle("f/x")
    drive.save("f")
    assert "+dropped f/x" in drive.lose("f/x")
    drive.finish("f/x")
    assert drive.finish("q", graph=graph("n default")) == ["save q"]


def test_a_graph_is_to_be_saved_while_anything_is_left_in_it_that_a_handler_gave():
    drive = begun("f loose; g kept f")
    drive.finish("f", graph=graph("x loose; y loose; s loose x y"))
    drive.handle("f/x")
    drive.handle("f/y")
    assert "+dropped f/s f/x" in drive.lose("f/x")
    drive.finish("f/x", "f/s")
    assert "start f" in drive.lose("f")


def test_a_graph_is_to_be_saved_while_one_in_it_is_about_to_end():
    drive = begun("f loose; g kept f")
    drive.finish("f", graph=graph("w loose; i loose,guarding; s loose w i"))
    drive.finish("f/w")
    drive.finish("f/i", graph=PAIR)
    drive.ends("f/i/x", 2)
    assert "start f/w" in drive.lose("f/w")
    assert drive.run.rows["f"].checkpoint
