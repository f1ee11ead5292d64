"""Refs in graphs that tasks return (design 2.7, 2.9), and what a crash leaves of refs."""

import pytest

from onceflow.core.model import records
from tests.core.building import begun, graph, refs


def reloaded(drive, records=None):
    again = drive.reload(records)
    return again, again.begin()


# -- nested graphs ---------------------------------------------------------------------------------------------------


def test_nested_nodes_read_the_refs_in_the_graph():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=graph("x loose; y kept x"), holding="new new")
    assert [mask for parent, mask in drive.run.rows["e/y"].parents if parent.id == "e"] == [0b111]
    assert [mask for _, mask in drive.run.rows["z"].parents] == [0b1], "z reads the nested sink, which holds none yet"


def test_a_graph_is_saved_when_the_refs_in_it_are():
    drive = begun("e kept; z kept e")
    assert drive.finish("e", graph=graph("n default"), holding="new") == ["save e"]
    assert drive.save("e") == ["+saved e as graph with 1 refs", "save e.1"]
    assert drive.save("e.1") == ["+saved e.1", "+begun e/n", "start! e/n"]


def test_after_a_crash_it_is_known_of_what_is_saved_in_part_whether_it_was_a_graph():
    """1. `e` returns a graph with a ref, of which one part is saved. 2. A crash. 3. What comes after `e` waits for the
    graph."""
    drive = begun("e kept,deterministic; c kept after:e; z kept e c")
    drive.finish("e", graph=graph("n pure,saved"), holding="new")
    _, part = list(drive.saves)[-1]
    drive.save(f"e.{part}" if part else "e")
    _, decided = reloaded(drive)
    assert "start c" not in decided


def test_the_refs_of_a_task_of_two_parts_that_returns_a_graph_come_after_both():
    drive = begun("e kept,parts=2; z kept e.1")
    drive.finish("e", graph=graph("x kept,parts=2"), holding="new")
    assert drive.run.rows["e"].every_part == 0b101
    assert [mask for _, mask in drive.run.rows["e/x"].parents] == [0b101]
    drive.save("e", "e.2")
    drive.finish("e/x", holding="e.2@1")
    assert [mask for _, mask in drive.run.rows["z"].parents] == [0b110]
    assert drive.play().status == "succeeded"


def test_a_ref_goes_into_a_nested_graph_and_out_of_it():
    """1. `m` makes a ref; `e` returns it in a graph, whose sink returns it again. 2. It is lost everywhere. 3. `m` runs
    again, and neither the expander nor the nested sink does."""
    drive = begun("m pure; e loose m; k kept; w kept e k; z kept w")
    drive.finish("m", holding="new")
    drive.finish("e", graph=graph("x loose"), holding="m.1")
    drive.finish("e/x", holding="e.1")
    assert drive.lose("m.1", "e.1", "e/x.1") == ["start m"]
    drive.complete("k")
    assert drive.finish("m", holding="new") == ["start w"]


def test_a_nested_graph_with_refs_is_judged_without_them():
    """What is left of the run is checked as a graph of declared parts."""
    drive = begun("a loose; b kept a; e kept b a; z kept e")
    drive.finish("a", holding="new new")
    drive.finish("b", holding="a.1")
    assert "save e" in drive.finish("e", graph=graph("x default"), holding="a.2 b.1")


# -- what a crash leaves ---------------------------------------------------------------------------------------------


def test_a_saved_output_is_known_with_its_refs_after_a_crash():
    drive = begun("a kept; b kept a; z kept b")
    drive.complete("a", holding="new")
    again, answer = reloaded(drive)
    assert answer == ["start b"]
    assert again.run.rows["a"].every_part == 0b11
    assert again.settled == {"a"}


def test_an_output_of_which_a_ref_was_not_saved_is_made_again_after_a_crash():
    drive = begun("a pure,saved; b kept a; z kept b")
    drive.finish("a", holding="new")
    drive.save("a")
    again, answer = reloaded(drive)
    assert answer == ["start a"]
    assert again.finish("a", holding="new") == ["save a.1", "start b"]
    assert again.save("a.1") == ["+saved a.1 with 1 refs"]


def test_a_ref_whose_origin_is_saved_is_there_after_a_crash_and_saved_as_well():
    drive = begun("a kept; r kept a; w kept r; z kept w")
    drive.complete("a", holding="new")
    drive.finish("r", holding="a.1")
    drive.save("r")
    again, answer = reloaded(drive)
    assert answer == ["save r.1", "start w"]
    assert again.save("r.1") == ["+saved r.1", "release a"]
    assert again.journal[-1] == records.Saved("r", 1, drive.attempts["r"][0])
    last, answer = reloaded(again)
    assert answer == ["start w"]
    assert last.settled == {"a", "r"}


def test_who_passed_a_ref_on_runs_again_if_a_crash_took_what_is_known_of_its_origin():
    drive = begun("m pure; r kept m; w kept r; z kept w")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1")
    drive.save("r")
    again, answer = reloaded(drive)
    assert answer == ["+recovering r", "+dropped r", "drop r", "start m"]
    assert again.finish("m", holding="new") == ["start r"]
    assert again.play().status == "succeeded"


def test_an_output_that_is_passed_as_a_ref_is_known_after_any_crash():
    drive = begun("m pure; r kept m; w kept r; z kept w")
    drive.finish("m")
    drive.finish("r", holding="m.0")
    drive.save("r")
    again, answer = reloaded(drive)
    assert answer == ["start m"]
    assert again.finish("m") == ["save r.1", "start w"]


def save_only_ref(drive):
    """As a run did that was begun when refs were not yet saved after the graph that holds them."""
    drive.journal.append(records.Saved("e", 1, drive.run.rows["e"].attempt, refs=refs("new")))


@pytest.mark.parametrize("save", [save_only_ref, lambda drive: drive.save("e")])
def test_a_graph_that_was_saved_by_half_may_be_returned_again(save):
    """A ref of it is saved and not the graph, or the graph and not the ref: the task runs again, and what it returns is
    no surprise."""
    nested = graph("x pure; y pure,saved x")
    drive = begun("e pure,saved; z kept e")
    drive.finish("e", graph=nested, holding="new")
    save(drive)
    again, answer = reloaded(drive)
    assert answer == ["start e"]
    answer = again.finish("e", graph=nested, holding="new")
    assert not [command for command in answer if "refuse" in command]
    assert again.play().status == "succeeded"


def test_a_graph_of_which_only_a_ref_was_saved_may_be_another_one():
    """The journal knows that the graph is not deterministic, and that it does not know the graph."""
    drive = begun("e pure,saved; z kept e")
    assert "+expanded e" in drive.finish("e", graph=graph("x loose"), holding="new")
    save_only_ref(drive)
    again, _ = reloaded(drive)
    assert not again.run.rows["e"].repeatable


def test_a_record_of_an_attempt_with_other_refs_replaces_what_was_saved():
    drive = begun("a pure,saved; z kept a")
    drive.finish("a", holding="new new")
    drive.save("a", "a.2")
    drive.lose("a.1")
    drive.finish("a")
    drive.save("a")
    for count in (1, 2, 3):
        again, _ = reloaded(drive, count)
        assert again.run.rows["a"].every_part == (0b111 if count < 3 else 0b1)
        assert again.play().status == "succeeded"


def test_what_is_about_to_be_dropped_is_not_saved_after_a_crash():
    """All of `r` is there, because the origin of its ref is saved; but `b`, which it read, is being undone."""
    drive = begun("a kept; b undoable; r kept a b; w kept r; z kept w")
    drive.complete("a", holding="new")
    drive.finish("b")
    drive.finish("r", holding="a.1")
    drive.save("r")
    assert "undo b" in drive.lose("b", attempts="w")
    _, answer = reloaded(drive)
    assert answer == ["undo b"]


def test_a_graph_that_was_saved_twice_is_one_graph_after_a_crash():
    nested = graph("x pure")
    drive = begun("e pure,saved; z kept e")
    drive.finish("e", graph=nested, holding="new new")
    drive.save("e")
    drive.lose("e.1")
    drive.finish("e", graph=nested, holding="new")
    assert drive.save("e", "e.1") == ["+saved e as graph with 1 refs", "save e.1", "+saved e.1"]
    again, _ = reloaded(drive)
    assert again.settled == {"e"}
    assert again.play().status == "succeeded"


def test_a_dropped_node_holds_no_refs_after_a_crash():
    drive = begun("a loose; b kept a; c kept a; z kept b c")
    drive.finish("a", holding="new")
    drive.complete("b", holding="a.1")
    assert "+dropped a b" in drive.lose("a", attempts="c")
    again, answer = reloaded(drive)
    assert answer == ["start a"]
    assert again.run.rows["b"].every_part == 0b1
    assert again.play().status == "succeeded"
