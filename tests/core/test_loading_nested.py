"""Nested graphs after a crash (design 2.5, 2.9): the journal knows a graph from the save of its expander on."""

import pytest

from onceflow.core.model import events
from tests.core.building import Drive, begun, graph

PAIR = graph("x pure; y pure x")


def test_before_its_expander_is_saved_a_nested_graph_is_forgotten_and_another_may_take_its_place():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=PAIR)
    drive.finish("e/x")
    again = drive.reload()
    assert again.begin() == ["start e"]
    assert set(again.states()) == {"e", "z"}
    assert again.finish("e", graph=graph("w kept")) == ["save e", "start e/w"]
    assert again.play().status == "succeeded"


def test_after_its_expander_is_saved_a_nested_graph_goes_on_where_it_was():
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("a kept; b kept; n default a b"))
    drive.complete("e/a")
    again = drive.reload()
    assert again.begin() == ["start e/b"]
    again.finish("e/b")
    assert again.save("e/b")[-2:] == ["+begun e/n", "start! e/n"]
    assert again.play().status == "succeeded"


def test_a_begun_nested_task_is_undone_or_repeated_as_any_other():
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("u undoable; n default; j pure u n"))
    again = drive.reload()
    assert sorted(again.begin()) == ["start! e/n", "undo e/u"]


def test_ids_of_a_tail_chain_go_on_where_they_were():
    step = graph("step kept")
    drive = begun("loop kept; z kept loop")
    drive.complete("loop", graph=step)
    drive.complete("loop/step", graph=step)
    again = drive.reload()
    assert again.begin() == ["start loop~2/step"]
    again.complete("loop~2/step", graph=step)
    assert list(again.running) == ["loop~3/step"]
    assert again.play().status == "succeeded"


def test_a_settled_part_of_a_tail_chain_is_not_kept_in_memory_after_loading():
    step = graph("step kept")
    drive = begun("loop kept; z kept loop")
    drive.complete("loop", graph=step)
    drive.complete("loop/step", graph=step)
    for n in range(2, 30):
        drive.complete(f"loop~{n}/step", graph=step)
    again = drive.reload()
    again.begin()
    assert len(again.run.rows) < 6


def test_a_lost_graph_of_nondeterministic_tasks_makes_its_deterministic_expander_nondeterministic():
    """1. `e` (pure) returned a nondeterministic `x`; `s` has read it and is saved; `z` has yet to read it.
    2. A crash takes the graph. Were `e` simply run again, `z` would read another `x` than `s` did."""
    drive = begun("e pure; s kept e; k kept; z kept e s k")
    drive.finish("e", graph=graph("x loose"))
    drive.complete("e/x", "s")
    answer = drive.reload().begin()
    assert answer[:2] == ["+recovering e s", "+dropped e s"]
    assert sorted(answer[2:]) == ["drop e", "drop s", "start e", "start k"]


def test_a_lost_graph_of_pure_tasks_is_made_again_and_what_was_read_of_it_stays():
    drive = begun("e pure; s kept e; k kept; z kept e s k")
    drive.finish("e", graph=PAIR)
    drive.complete("e/x", "e/y", "s")
    again = drive.reload()
    assert sorted(again.begin()) == ["start e", "start k"]
    assert again.finish("e", graph=PAIR) == ["start e/x"]
    assert again.finish("e/x") == ["start e/y"]
    assert again.states()["s"] == "done"
    assert again.play().status == "succeeded"


def test_a_recovery_that_drops_an_expander_goes_on_after_a_crash():
    """1. `e` is saved, and descends from the unsaved `a`; a nested undoable task has finished.
    2. `a` is lost, R is journaled, the undo starts, and the engine crashes.
    3. The undo is started again; then expander and nested rows are dropped together."""
    drive = begun("a loose; e kept a; k kept; m kept a k; z kept e m", "a")
    drive.complete("e", graph=graph("u undoable; y pure u"))
    drive.complete("e/u", "e/y")
    drive.lose("a")
    again = drive.reload()
    assert again.begin() == ["undo e/u with output"]
    answer = again.undone("e/u")
    assert answer[:2] == ["+undone e/u", "+dropped a e e/u e/y"]
    assert set(again.states()) == {"a", "e", "k", "m", "z"}
    assert again.play().status == "succeeded"


def test_a_dropped_expander_is_loaded_without_its_nested_rows():
    drive = begun("a loose; e kept a; k kept; m kept a k; z kept e m", "a")
    drive.complete("e", graph=graph("s kept; y pure s"))
    drive.complete("e/s")
    drive.lose("a")
    again = drive.reload()
    again.begin()
    assert set(again.states()) == {"a", "e", "k", "m", "z"}
    again.finish("a")
    again.finish("e")
    assert again.play().status == "succeeded"


def test_a_saga_undoes_nested_effects_after_a_crash():
    drive = begun("e kept; f kept e; z kept f", on_failure="undo")
    drive.complete("e", graph=graph("u undoable; y pure u"))
    drive.complete("e/u", "e/y")
    drive.raises("f")
    again = drive.reload()
    assert again.begin() == ["undo e/u with output"]
    assert again.undone("e/u")[-1] == "finish undone failed=f"
    third = again.reload()
    third.begin()
    assert third.tell(events.Resume())[-2:] == ["+begun e/u", "start! e/u"]


def test_a_nested_task_whose_graph_a_crash_took_waits_for_the_end_of_its_old_attempt():
    drive = Drive(graph("e kept; z kept e"))
    drive.begin()
    nested = graph("u undoable; v kept u")
    drive.complete("e", graph=nested)
    drive = drive.reload(0, straggling={"e/u": drive.running["e/u"]})
    drive.begin()
    assert drive.complete("e", graph=nested) == ["save e", "+saved e as graph"]
    assert drive.end("e/u") == ["+begun e/u carrying e.0", "start! e/u"]


def test_a_member_of_a_recovery_whose_graph_was_saved_only_afterwards_is_a_member_after_a_crash():
    """1. `e/x` is lost together with `b`, whose undo takes time. 2. `e` is saved, so the journal learns what `e/x` is
    after it has learnt that `e/x` is to be dropped. 3. The engine crashes."""
    drive = begun("b undoable; e kept; k kept; z kept b e k")
    drive.finish("b")
    drive.finish("e", graph=graph("x kept; y pure x"))
    drive.finish("e/x")
    assert drive.lose("b", "e/x", attempts="e/y")[0] == "+recovering b e/x"
    drive.save("e")
    again = drive.reload()
    assert again.begin() == ["undo b"]
    assert again.undone("b")[:2] == ["+undone b", "+dropped b e/x"]
    assert again.play().status == "succeeded"
    assert again.reload().status == "succeeded"


def test_a_recovery_that_is_over_does_not_concern_the_next_graph():
    """1. As above, but a crash takes `e` before it is saved. 2. It returns a graph with an `e/x` again, and is saved.
    3. The engine crashes again: this `e/x` was never to be dropped."""
    nested = graph("x kept; y pure x")
    drive = begun("b undoable; e kept; k kept; z kept b e k")
    drive.finish("b")
    drive.finish("e", graph=nested)
    drive.finish("e/x")
    drive.lose("b", "e/x", attempts="e/y")
    again = drive.reload()
    again.begin()
    again.undone("b")
    again.complete("e", graph=nested)
    again.complete("e/x")
    assert again.reload().begin() == ["start e/y", "start k", "undo b"]


@pytest.mark.parametrize("kind", ["kept", "pure,saved"])
def test_the_journal_learns_which_graphs_inside_a_graph_are_not_deterministic_when_it_learns_of_that(kind):
    """1. `b` returns a graph; before it is saved, `a` in it returns one with a nondeterministic `x`, which `s` reads
    and `m` is about to. 2. `b` and `s` are saved. 3. The engine crashes. `n` must not start: `x` will run again for
    `m`, and so will `s`."""
    inner = graph("x loose")
    drive = begun(f"b {kind}; y kept b")
    drive.finish("b", graph=graph("a pure; s kept a; m kept a; n default s; z kept n m"))
    drive.finish("b/a", graph=inner)
    drive.finish("b/a/x")
    drive.finish("b/s")
    assert drive.save("b") == ["+saved b as graph", "+expanded b/a", "save b/s"]
    drive.save("b/s")
    again = drive.reload()
    assert again.begin() == [
        "+recovering b/a b/s",
        "+dropped b/a b/s",
        "drop b/a",
        "drop b/s",
        "start b/a",
    ]
    assert again.play({"b/a": inner}).status == "succeeded"


def test_a_graph_whose_graphs_are_deterministic_needs_no_further_record():
    drive = begun("b kept; y kept b")
    drive.finish("b", graph=graph("a pure; s kept a"))
    drive.finish("b/a", graph=graph("x pure"))
    assert drive.save("b") == ["+saved b as graph"]


def test_a_graph_in_a_graph_in_a_graph_is_looked_into():
    drive = begun("b kept; y kept b")
    drive.finish("b", graph=graph("a pure; s kept a"))
    drive.finish("b/a", graph=graph("c pure; d pure c"))
    drive.finish("b/a/c", graph=graph("x loose"))
    assert drive.save("b") == ["+saved b as graph", "+expanded b/a"]
