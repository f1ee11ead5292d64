"""Graphs returned by tasks (design 2.9)."""

import pytest

from onceflow.core.model import events, records
from onceflow.errors import InvalidGraph, NotDeterministic, UnsafeGraph
from tests.core.building import Drive, begun, graph

PAIR = graph("x pure; y pure x")


def refusal(drive, node, nested):
    answer = drive.finish(node, graph=nested)
    refused = drive.commands[0]
    assert answer[1] == f"+failed {node} 1 final", "an unsafe graph is not retried"
    return refused.error


# -- becoming rows ---------------------------------------------------------------------------------------------------


def test_nested_nodes_become_rows_named_after_their_expander_and_start():
    drive = begun("e kept; z kept e")
    assert drive.finish("e", graph=PAIR) == ["save e", "start e/x"]
    assert drive.states() == {"e": "done", "e/x": "running", "e/y": "waiting", "z": "waiting"}


def test_nested_nodes_without_effect_wait_for_no_save():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=PAIR)
    assert drive.finish("e/x") == ["start e/y"]


def test_consumers_of_the_expander_read_the_nested_sink():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=PAIR)
    drive.finish("e/x")
    assert drive.finish("e/y") == ["start z"], "its save waits for the expander's"


def test_consumers_that_only_come_after_the_expander_come_after_the_nested_sink():
    drive = begun("e kept; z kept after:e")
    assert drive.finish("e", graph=PAIR) == ["save e", "start e/x"]
    assert drive.states()["z"] == "waiting"
    drive.finish("e/x")
    assert drive.finish("e/y") == ["start z"]


def test_the_nested_sink_inherits_the_checkpoint_of_its_expander():
    drive = begun("e kept; z pure e")
    drive.finish("e", graph=PAIR)
    drive.save("e")
    assert drive.finish("e/x") == ["start e/y"]
    assert drive.finish("e/y") == ["save e/y", "start z"]


def test_the_nested_sink_of_an_unsaved_expander_is_not_saved():
    drive = begun("e loose; z kept e")
    drive.finish("e", graph=PAIR)
    drive.finish("e/x")
    assert drive.finish("e/y") == ["start z"]


def test_a_nested_sink_may_be_saved_although_it_does_not_inherit_a_checkpoint():
    drive = begun("e kept; z pure e")
    drive.finish("e", graph=graph("x kept; y kept x"))
    drive.save("e")
    assert drive.finish("e/x") == ["save e/x", "start e/y"]


def test_saving_the_expander_saves_the_graph_with_it():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=PAIR)
    assert drive.save("e") == ["+saved e as graph"]
    assert drive.journal == [records.Saved("e", 0, drive.attempts["e"][0], PAIR)]


def test_an_expander_of_several_parts_returns_a_graph_whose_sink_has_as_many():
    drive = begun("e kept,parts=2; a kept e.0; b kept e.1; z kept a b")
    assert drive.finish("e", graph=graph("x pure; y pure,parts=2 x")) == ["save e", "start e/x"]
    drive.finish("e/x")
    assert drive.finish("e/y") == ["start a", "start b"]
    assert drive.save("e") == ["+saved e as graph", "save e/y", "save e/y.1"]


def test_a_nested_graph_as_the_result_makes_its_sink_the_result():
    drive = begun("e kept")
    drive.finish("e", graph=PAIR)
    drive.save("e")
    drive.finish("e/x", "e/y")
    answer = drive.save("e/y")
    assert sorted(answer[1:3]) == ["release e", "release e/x"]
    assert [answer[0], *answer[3:]] == ["+saved e/y", "+finished succeeded", "finish succeeded"]


def test_a_chain_in_which_each_sink_returns_the_next_graph_numbers_its_ids():
    drive = begun("loop kept; z kept loop")
    step = graph("step kept")
    drive.complete("loop", graph=step)
    drive.complete("loop/step", graph=step)
    drive.complete("loop~2/step", graph=step)
    assert list(drive.running) == ["loop~3/step"]
    drive.complete("loop~3/step")
    assert drive.play().status == "succeeded"


def test_a_graph_in_the_middle_of_a_nested_graph_has_longer_ids():
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("x kept; y kept x"))
    drive.complete("e/x", graph=graph("i kept"))
    assert list(drive.running) == ["e/x/i"]


def test_a_fan_out_of_fan_outs_comes_together_again():
    fan = graph("p kept; q kept; r kept; j pure p q r")
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=fan)
    for middle in "pqr":
        drive.complete(f"e/{middle}", graph=fan)
    assert set(drive.running) == {f"e/{m}/{i}" for m in "pqr" for i in "pqr"}
    for node in list(drive.running):
        drive.complete(node)
    assert set(drive.running) == {"e/p/j", "e/q/j", "e/r/j"}
    drive.complete("e/p/j", "e/q/j")
    assert list(drive.running) == ["e/r/j"]
    drive.complete("e/r/j")
    assert list(drive.running) == ["e/j"]
    assert drive.play().status == "succeeded"


# -- effects and saves wait for the expander's save ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["undoable", "default"])
def test_an_effectful_nested_task_waits_until_its_expander_is_saved(kind):
    drive = begun("e kept,deterministic; z kept e")
    assert drive.finish("e", graph=graph(f"n {kind}; m pure n"))[-1] == "save e"
    assert drive.running == {}
    drive.save("e")
    assert list(drive.running) == ["e/n"]
    assert drive.journal[-1] == records.Begun("e/n", drive.running["e/n"], (("e", 0),) * (kind == "undoable"))


def test_nested_saves_are_asked_for_when_the_expander_is_saved():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=graph("x kept; y kept; j kept x y"))
    assert drive.finish("e/x") == []
    assert drive.save("e") == ["+saved e as graph", "save e/x"]
    assert drive.finish("e/y") == ["save e/y", "start e/j"]


def test_nested_saves_wait_for_each_expander_around_them():
    drive = begun("e kept; z kept e")
    drive.finish("e", graph=graph("x kept; y pure x"))
    drive.finish("e/x", graph=graph("i kept"))
    assert drive.finish("e/x/i") == ["start e/y"]
    assert drive.save("e") == ["+saved e as graph", "save e/x"]
    assert drive.save("e/x") == ["+saved e/x as graph", "save e/x/i"]


def test_an_irrevocable_consumer_of_the_expander_waits_for_the_nested_sink():
    drive = begun("e kept; n default e; z kept n")
    drive.complete("e", graph=graph("x kept; y pure x"))
    drive.finish("e/x", "e/y")
    assert drive.save("e/x") == ["+saved e/x", "+begun n", "start! n"]


# -- refused graphs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", ["n default,unsaved", "u undoable,unsaved", "k kept; m pure k"])
def test_an_expander_without_a_checkpoint_may_return_only_effectless_unsaved_tasks(nested):
    error = refusal(begun("e loose; z kept e"), "e", graph(nested))
    assert isinstance(error, InvalidGraph)
    assert f"not: {nested[0]}." in str(error)


def test_a_graph_whose_sink_has_other_parts_is_refused():
    error = refusal(begun("e kept,parts=2; z kept e"), "e", PAIR)
    assert isinstance(error, InvalidGraph)
    assert str(error).startswith("'e' has 2 outputs, but ")


def test_an_unsafe_nested_graph_fails_the_expander_at_once():
    drive = begun("e kept,retries=5; z kept e")
    error = refusal(drive, "e", graph("a loose; n default a; m kept a; j pure n m"))
    assert isinstance(error, UnsafeGraph)
    assert error.blocked == ("e/n",)
    assert error.proposals == {"e/n": ("e/a",)}
    assert drive.play().status == "failed"


def test_a_refused_graph_leaves_no_rows():
    drive = begun("e kept; z kept e")
    refusal(drive, "e", graph("a loose; n default a"))
    assert set(drive.states()) == {"e", "z"}


def test_a_graph_that_is_unsafe_only_together_with_the_outer_one_is_refused():
    """`e` is saved, but descends from the unsaved `a`, which `m` reads only after `e`: its nested irrevocable task
    waits for `a`, `a` for `m`, and `m` for that task."""
    nested = graph("n default; j pure n")
    drive = begun("a loose; e kept a; m kept a e; z pure m", "a")
    error = refusal(drive, "e", nested)
    assert isinstance(error, UnsafeGraph)
    assert error.blocked == ("e/n",)
    drive = begun("a kept; e kept a; m kept a e; z pure m", "a")
    assert "save e" in drive.finish("e", graph=nested)
    assert drive.play().status == "succeeded"


def test_a_nested_graph_that_blocks_an_outer_task_is_refused():
    """`e` is pure, so `n` could start on its value; on the output of the nested `x` it could not."""
    drive = begun("e pure; n default e; z kept n")
    error = refusal(drive, "e", graph("x loose"))
    assert isinstance(error, UnsafeGraph)
    assert error.blocked == ("n",)
    assert drive.play().status == "failed"


def test_a_nested_task_that_writes_waits_as_an_irrevocable_one_does():
    """However plain it is: `e` is deterministic, and its nested `w` starts when `a` is settled, which waits for `m`."""
    drive = begun("a loose; e kept,deterministic a; m kept a e; z pure m", "a")
    error = refusal(drive, "e", graph("w writer,deterministic; j pure w"))
    assert isinstance(error, UnsafeGraph)
    assert error.blocked == ("e/w",)


# -- expanders that run again ----------------------------------------------------------------------------------------


def test_a_lost_deterministic_expander_that_returns_the_same_graph_keeps_the_nested_rows():
    drive = begun("e pure; k kept; z kept e k")
    drive.finish("e", graph=graph("x pure; y pure x"))
    drive.finish("e/x")
    assert drive.lose("e", attempts="e/y") == ["start e"]
    assert drive.states()["e/x"] == "done"
    assert drive.finish("e", graph=graph("x pure; y pure x")) == ["start e/y"]
    assert drive.states()["e/x"] == "done"


def test_a_deterministic_expander_that_returns_another_graph_is_refused():
    drive = begun("e pure; z kept e")
    drive.finish("e", graph=graph("x pure; y pure x"))
    drive.finish("e/x")
    drive.lose("e", attempts="e/y")
    error = refusal(drive, "e", graph("x pure; w pure x"))
    assert isinstance(error, NotDeterministic)
    assert error.node == "e"


def test_a_deterministic_expander_that_returns_no_graph_the_second_time_is_refused():
    drive = begun("e pure; z kept e")
    drive.finish("e", graph=PAIR)
    drive.lose("e", attempts="e/x")
    assert isinstance(refusal(drive, "e", None), NotDeterministic)


def test_a_deterministic_task_that_returns_a_graph_only_the_second_time_is_refused():
    drive = begun("e pure; k kept; z kept e k", "e")
    drive.lose("e")
    assert isinstance(refusal(drive, "e", PAIR), NotDeterministic)


def test_the_nested_rows_of_a_lost_nondeterministic_expander_are_dropped_with_it():
    drive = begun("e loose; z kept e")
    drive.finish("e", graph=graph("x loose; y pure x"))
    drive.finish("e/x")
    answer = drive.lose("e", attempts="e/y")
    assert sorted(answer) == ["drop e", "drop e/x", "start e"]
    assert drive.states() == {"e": "running", "z": "waiting"}
    assert drive.finish("e", graph=graph("w pure")) == ["start e/w"]
    assert drive.play().status == "succeeded"


def test_effects_of_nested_tasks_are_undone_before_their_expander_is_dropped():
    """1. `e` is saved, but descends from the unsaved `a`; a nested undoable task has finished.
    2. `a` is lost while `m` has yet to read it: everything below it goes, the nested effect first."""
    drive = begun("a loose; e kept a; k kept; m kept a k; z kept e m", "a")
    drive.complete("e", graph=graph("u undoable; y pure u"))
    drive.complete("e/u", "e/y")
    assert drive.lose("a") == ["+recovering a e e/u e/y", "undo e/u with output"]
    answer = drive.undone("e/u")
    assert answer[:2] == ["+undone e/u", "+dropped a e e/u e/y"]
    assert sorted(answer[2:]) == ["drop a", "drop e", "drop e/u", "drop e/y", "start a"]
    assert set(drive.states()) == {"a", "e", "k", "m", "z"}
    assert drive.play().status == "succeeded"


def test_consumers_of_a_dropped_expander_wait_for_it_again():
    """1. `e` returned a graph and `c` has read its sink; then `e` is lost and dropped, `c` as well.
    2. This time `e` returns a value: `c` reads that."""
    drive = begun("a loose; e kept a; c loose e; k kept; z kept a c k", "a")
    drive.finish("e", graph=PAIR)
    drive.finish("e/x", "e/y", "c")
    drive.lose("a")
    drive.finish("a")
    assert drive.finish("e") == ["save e", "start c"]
    assert drive.play().status == "succeeded"


def test_events_about_nodes_of_a_dropped_graph_are_late():
    drive = begun("e loose; z kept e")
    drive.finish("e", graph=PAIR)
    late = drive.running["e/x"]
    drive.lose("e", attempts="e/x")
    assert drive.tell(events.Finished("e/x", late)) == []
    assert drive.tell(events.Ended("e/x", late)) == []


def test_a_save_of_a_dropped_graph_is_late_even_if_the_node_of_that_name_has_fewer_parts_now():
    drive = begun("a loose; e kept a; k kept; m pure a k; z kept e m", "a")
    drive.complete("e", graph=graph("x kept,parts=2; y pure x"))
    drive.finish("e/x")
    late = drive.saves["e/x", 1]
    drive.lose("a")
    drive.complete("a")
    drive.complete("e", graph=graph("x kept"))
    assert drive.tell(events.Saved("e/x", 1, late)) == []
    assert drive.tell(events.SaveFailed("e/x", 1, late, permanent=True)) == []
    assert drive.play().status == "succeeded"


def test_a_lost_saved_expander_keeps_its_graph():
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=PAIR)
    assert drive.lose("e", attempts="e/x") == ["start e/x"]


def test_an_unsaved_deterministic_expander_of_a_nondeterministic_graph_is_noted():
    """After a crash the graph is gone, and with it the knowledge that what was read is not deterministic."""
    drive = begun("e pure; z kept e")
    assert drive.finish("e", graph=graph("x loose")) == ["+expanded e", "start e/x"]
    drive = begun("e pure; z kept e")
    assert drive.finish("e", graph=PAIR) == ["start e/x"]


def test_an_undone_nested_task_keeps_its_count_of_undos_when_its_graph_is_dropped():
    """1. `e/u` has happened. 2. `a`, above `e`, is lost and needed again: `e/u` is undone, its graph dropped. 3. The
    next graph has an `e/u` again, and its key must be another one."""
    nested = graph("u undoable; v kept u")
    drive = Drive(graph("a loose; e kept a; m kept; y pure a m; z kept e y"))
    drive.begin()
    drive.complete("a")
    drive.complete("e", graph=nested)
    drive.complete("e/u")
    drive.lose("a")
    drive.undone("e/u")
    assert "e/u" not in drive.run.rows
    drive.complete("a")
    drive.complete("e", graph=nested)
    assert drive.run.undos == {"e/u": 1}
    assert drive.reload().run.undos == {"e/u": 1}


def test_an_undoable_task_waits_for_the_end_of_an_attempt_of_the_same_name_in_a_dropped_graph():
    drive = Drive(graph("e kept; z kept e"))
    drive.begin()
    drive.finish("e", graph=graph("u kept; v kept u"))
    drive.lose("e")
    drive.finish("e", graph=graph("u undoable; v kept u"))
    assert drive.save("e") == ["+saved e as graph"]
    assert drive.end("e/u") == ["+begun e/u carrying e.0", "start! e/u"]


def test_a_nested_task_that_will_be_dropped_is_not_saved_when_its_expander_is():
    """`e/x` is lost, and `e/y` with it; they are dropped only after `b`, lost as well, is undone. Meanwhile `e` is
    saved, for which the save of `e/y` has waited."""
    drive = begun("b undoable; e kept; k kept; z kept b e k")
    drive.finish("b")
    drive.finish("e", graph=graph("x kept; y kept x"))
    drive.finish("e/x", "e/y")
    assert drive.lose("b", "e/x") == ["+recovering b e/x e/y", "undo b"]
    assert drive.save("e") == ["+saved e as graph"]
    assert drive.undone("b")[:2] == ["+undone b", "+dropped b e/x e/y"]
    assert drive.play().status == "succeeded"


def test_an_expander_that_is_lost_during_the_recovery_of_its_nested_tasks_is_dropped_with_them():
    """1. `e/x` is lost together with `b`, whose undo takes time; so `e/y`, which returned a graph itself, is not
    dropped yet. 2. Meanwhile `e` is lost."""
    drive = begun("b undoable; e kept; k kept; z kept b e k")
    drive.finish("b")
    drive.finish("e", graph=graph("x kept; y kept x"))
    drive.finish("e/x")
    drive.finish("e/y", graph=graph("i kept; j pure i"))
    assert drive.lose("b", "e/x", attempts="e~2/i") == ["+recovering b e/x e/y", "undo b"]
    assert drive.lose("e") == ["+recovering e"]
    assert drive.undone("b")[:2] == ["+undone b", "+dropped b e e/x e/y"]
    assert set(drive.states()) == {"b", "e", "k", "z"}
    drive.finish("e", graph=graph("x pure"))
    assert drive.play().status == "succeeded"


def test_a_released_nested_task_is_not_saved_when_its_expander_is():
    """`c` is saved, and with it everything above is settled. So a lost part of `e/x` is not made again, and the other
    part is of no use."""
    drive = begun("e kept,parts=2; c kept e; k kept; z kept c k")
    drive.finish("e", graph=graph("x kept,parts=2"))
    drive.finish("e/x")
    drive.complete("c")
    assert drive.lose("e/x.0") == ["release e/x"]
    assert drive.save("e") == ["+saved e as graph", "release e"]
    assert drive.play().status == "succeeded"


@pytest.mark.parametrize("kind", ["default", "undoable", "kept", "loose", "pure,parts=2", "pure,saved"])
def test_after_a_crash_a_task_that_was_seen_before_returns_no_graph_that_it_could_not_have_returned(kind):
    drive = Drive(graph("e pure; s kept e; k kept; z kept e s k"))
    drive.begin()
    drive.finish("e", graph=graph("x pure; y pure x"))
    drive.complete("e/x", "e/y", "s")
    again = drive.reload()
    again.begin()
    assert again.finish("e", graph=graph(f"n {kind}"))[0].startswith("refuse e ")
    assert again.play().status == "failed"
