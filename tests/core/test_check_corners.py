"""The check before a run and of nested graphs (design 2.4, 2.9) in corners: takers, the last step of a dry run, and
what a nested graph changes for those outside of it."""

import msgspec
import pytest

from onceflow.core.checks.check import check
from onceflow.core.model import events
from onceflow.core.model.graph import Graph
from onceflow.errors import InvalidGraph, UnsafeGraph
from tests.core.building import begun, graph

CROSSED = "a {0}; b {0}; v {0} takes:a b; w {0} takes:b a; z {0} v w"
"""Each of two takers reads what the other one takes."""


def blocked(text):
    with pytest.raises(UnsafeGraph) as caught:
        check(graph(text))
    return caught.value.blocked


# -- before the run ----------------------------------------------------------------------------------------------------


def test_a_task_may_be_freed_by_the_last_save_of_a_dry_run():
    """`n` is looked at before `m` is saved, and `m` makes nothing else ready."""
    check(graph("a loose; s kept a; k kept; l kept k; m kept a l; n default s; z pure m n"))


def test_a_taker_that_only_waits_for_a_blocked_reader_is_not_named():
    assert blocked("l loose; n default l; a pure; r kept a n; w kept takes:a; z pure r w") == ("n",)


def test_takers_that_wait_for_each_other_are_named():
    assert blocked("a pure; b pure; v kept takes:a b; w kept takes:b a; z kept v w") == ("v", "w")


def test_takers_that_wait_for_each_other_are_refused_even_if_nothing_has_an_effect_or_is_saved():
    assert blocked(CROSSED.format("pure")) == ("v", "w")


def test_takers_of_what_is_saved_do_not_wait_for_each_other():
    check(graph(CROSSED.format("kept")))


@pytest.mark.parametrize("edge", [-1, 1])
def test_nobody_takes_through_an_edge_that_it_does_not_have(edge):
    a, w = graph("a kept; w kept takes:a").nodes
    with pytest.raises(InvalidGraph, match="takes what it does not read"):
        Graph([a, msgspec.structs.replace(w, takes=((edge, 1),))])


def test_a_graph_with_checkpoints_keeps_what_was_noted_on_it_but_not_what_follows_from_its_nodes():
    before = graph("a loose; z kept a")
    before.note = "kept"
    digest = before.digest
    after = before.with_checkpoints({"a"})
    assert after.note == "kept"
    assert after.digest != digest


# -- of nested graphs --------------------------------------------------------------------------------------------------


def test_a_task_that_others_wait_for_cannot_return_a_graph_without_being_saved():
    """As `p` reads what `e` returned, no record says that `e` is done: `n` would wait for ever."""
    drive = begun("e default,unsaved; n default after:e; z kept n")
    assert drive.finish("e", graph=graph("p pure"))[0] == "refuse e UnsafeGraph"


def test_a_repeatable_task_in_a_nested_graph_may_wait_if_it_has_an_effect():
    """`n` waits for `l`, which waits for `m`, which waits for `n`."""
    drive = begun("l loose; e pure,saved l; m kept l e; z kept m")
    drive.finish("l")
    assert drive.finish("e", graph=graph("n default,deterministic"))[0] == "refuse e UnsafeGraph"


def test_takers_in_a_nested_graph_are_looked_at_even_if_nothing_has_an_effect():
    drive = begun("e pure; z kept e")
    assert drive.finish("e", graph=graph(CROSSED.format("pure")))[0] == "refuse e UnsafeGraph"


def test_of_a_nested_graph_only_the_sink_is_saved_because_its_expander_is():
    drive = begun("l loose; e kept l; m kept l; z kept e m")
    drive.finish("l")
    assert drive.finish("e", graph=graph("x loose; n default x"))[0] == "refuse e UnsafeGraph"


def test_what_is_forgotten_is_not_judged_with_a_nested_graph():
    drive = begun("a kept; x default a; e loose x; z kept e")
    drive.complete("a", "x")
    assert "a" not in drive.run.rows
    assert drive.finish("e", graph=graph("p loose")) == ["start e/p"]


FORK = "f kept,aside; j kept; y kept j"


def test_a_fork_that_was_joined_and_forgotten_is_not_judged_with_a_nested_graph():
    drive = begun("e kept; l loose; d kept l; m kept l; z kept e d m")
    drive.complete("e", graph=graph(FORK))
    drive.complete("e/f")
    drive.tell(events.Finished("e/j", drive.running.pop("e/j"), joined=("e/f",)))
    drive.save("e/j")
    drive.complete("e/y")
    assert "e/f" not in drive.run.rows
    drive.finish("l")
    assert drive.finish("d", graph=graph("p kept; q kept p"))[0] == "save d"


def test_a_fork_that_ended_with_its_scope_is_not_judged_with_a_nested_graph():
    drive = begun("l loose; e kept l; m kept l; d kept l; z kept e m d")
    drive.finish("l")
    drive.complete("e", graph=graph(FORK))
    drive.ends("e/j", 1)
    drive.save("e/y")
    assert drive.run.rows["e/f"].abandoned
    assert not drive.run.rows["e/f"].settled
    assert drive.finish("d", graph=graph("p kept; q kept p"))[0] == "save d"


def test_a_task_whose_code_was_edited_may_return_a_graph_that_something_irrevocable_waits_for():
    """It is not trusted until it has run by the new code, which it just has."""
    drive = begun("e pure; s kept e; k kept; z default e s k")
    drive.finish("e")
    drive.complete("s")
    again = drive.reload(changed=["e"])
    assert "+dropped e s" in again.begin()
    assert "+trusted e" in again.finish("e", graph=graph("x pure"))


def test_a_done_record_counts_as_a_save_when_a_nested_graph_is_judged():
    """Nobody reads `T`, but `n` waits for it, and must not wait for itself."""
    drive = begun("a loose; s kept a; T undoable,unsaved s; n default after:T; e kept a; z kept n e")
    drive.finish("a")
    drive.complete("s")
    assert "+done T" in drive.finish("T")
    assert drive.finish("e", graph=graph("x default")) == ["save e"]


def test_a_graph_in_which_all_take_turns_is_refused_if_something_that_may_change_is_shared():
    drive = begun("e kept; z kept e")
    inner = graph("a loose,turn=0; b kept,turn=1 a; c kept,turn=2 a b")
    assert drive.finish("e", graph=inner)[0] == "refuse e InvalidGraph"
