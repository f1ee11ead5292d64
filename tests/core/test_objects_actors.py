"""Actors (design 2.7): a version is shared by readers, or taken by one, which uses it up unless it is to be saved."""

import random

import msgspec
import pytest

from onceflow.core.checks import definitions
from onceflow.core.checks.check import check
from onceflow.core.model import events
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart
from onceflow.errors import IllegalEvent, InvalidGraph, UnsafeGraph
from tests.core.building import begun, graph
from tests.core.random_graphs import random_graph, shape_of

# -- when a taker starts ---------------------------------------------------------------------------------------------


def test_a_taker_waits_for_those_that_read_the_version():
    drive = begun("a pure; r kept a; s kept a; w kept takes:a; z kept r s w")
    assert drive.finish("a", holding="actor") == ["start r", "start s"]
    assert "start w" not in drive.finish("r")
    assert "start w" in drive.finish("s")


def test_a_taker_waits_also_for_a_reader_that_cannot_start_yet():
    drive = begun("a pure; k kept; r kept a k; w kept takes:a; z kept r w")
    assert drive.finish("a", holding="actor") == []
    assert drive.finish("k") == ["save k", "start r"]
    assert drive.finish("r") == ["save r", "start w"]


def test_of_a_version_that_is_to_be_saved_a_taker_leaves_a_copy_for_later_readers():
    drive = begun("a kept; k kept; r kept a k; w kept takes:a; z kept r w")
    assert drive.finish("a", holding="actor") == ["save a", "save a.1", "start w"]
    assert drive.finish("k") == ["save k", "start r"]


def test_a_taker_waits_for_a_reader_that_runs_whatever_is_saved():
    drive = begun("a kept; r kept a; w kept takes:a; z kept r w")
    assert drive.finish("a", holding="actor") == ["save a", "save a.1", "start r"]
    assert drive.lose(attempts="r") == ["start r"]
    assert drive.finish("r") == ["save r", "start w"]


def test_a_value_without_an_actor_in_it_is_read_by_all_at_once():
    drive = begun("a pure; r kept a; w kept takes:a; z kept r w")
    assert drive.finish("a", holding="new") == ["start r", "start w"]


def test_readers_of_another_part_are_not_waited_for():
    drive = begun("a pure,parts=2; r kept a.1; w kept takes:a.0; z kept r w")
    assert drive.finish("a", holding="actor@0") == ["start r", "start w"]


# -- what becomes of the version -------------------------------------------------------------------------------------


def test_a_taker_that_raises_has_used_up_its_version():
    drive = begun("a pure; w kept,retries=1 takes:a; z kept w")
    drive.finish("a", holding="actor")
    assert drive.raises("w") == ["+failed w 1", "wait w 1"]
    assert drive.elapse("w") == ["start a"]
    assert drive.finish("a", holding="actor") == ["start w"]


def test_a_taker_of_a_saved_version_is_tried_again_with_what_was_saved():
    drive = begun("a kept; w kept takes:a; z kept w")
    drive.complete("a", holding="actor")
    assert drive.lose(attempts="w") == ["start w"]


def test_a_chain_of_versions_is_made_again_from_the_last_one_that_was_saved():
    drive = begun("a kept; b pure takes:a; c pure takes:b; d pure takes:c; z kept takes:d")
    drive.complete("a", holding="actor")
    for node in "bcd":
        drive.finish(node, holding="actor")
    assert drive.lose(attempts="z") == ["start b"]
    assert drive.finish("b", holding="actor") == ["start c"]
    assert drive.finish("c", holding="actor") == ["start d"]
    assert drive.finish("d", holding="actor") == ["start z"]


def test_a_reader_that_has_to_run_again_after_its_version_was_taken_has_the_maker_run_again():
    drive = begun("a pure; r pure a; w kept takes:a; z kept r w")
    drive.finish("a", holding="actor")
    drive.finish("r")
    assert drive.lose("r") == ["start a"]
    assert drive.finish("a", holding="actor") == ["start r"]


def test_if_the_maker_is_not_deterministic_what_was_written_goes_with_it():
    drive = begun("a loose; r loose a; w loose takes:a; z kept r w")
    drive.finish("a", holding="actor")
    drive.finish("r")
    drive.finish("w", holding="actor")
    assert sorted(drive.lose("r", attempts="z")) == ["drop a", "drop r", "drop w", "start a"]


def test_nothing_is_made_again_for_a_version_that_something_irrevocable_was_built_on():
    """The later version is saved, and what was done with it cannot be taken back: the lost one is nobody's any more."""
    drive = begun("a pure; b kept takes:a; n default b; z kept n")
    drive.finish("a", holding="actor")
    drive.complete("b", holding="actor")
    assert drive.complete("n") == ["save n", "start z", "+saved n", "release b"]
    assert drive.play().status == "succeeded"


def test_an_undo_finds_a_version_that_was_taken_by_having_it_made_again():
    drive = begun("a pure; u undoable,retries=1 takes:a; z kept u")
    assert drive.finish("a", small=False, holding="actor") == ["+begun u", "start! u"]
    assert drive.raises("u") == ["+failed u 1", "start a privately"]
    assert drive.finish_rebuilding("a") == ["undo u"]


def test_a_run_that_is_loaded_has_the_versions_that_were_saved():
    drive = begun("a kept; b pure takes:a; z kept takes:b")
    drive.complete("a", holding="actor")
    drive.finish("b", holding="actor")
    assert drive.reload().begin() == ["start b"]


# -- the check -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a loose; v kept takes:a; w kept takes:a; z kept v w",
        "a loose; w kept takes:a; r kept a w; z kept r",
        "a pure; b pure; v kept takes:a b; w kept takes:b a; z kept v w",
    ],
)
def test_a_graph_whose_tasks_stand_in_each_others_way_is_refused(text):
    with pytest.raises(UnsafeGraph, match="checkpoint=True on a"):
        check(graph(text))
    check(graph(text.replace("a loose", "a kept").replace("a pure", "a kept")))


def test_what_could_be_made_again_may_be_taken_twice():
    drive = begun("a pure; v kept takes:a; w kept takes:a; z kept v w")
    check(drive.graph)
    assert drive.finish("a", holding="actor") == ["start v", "start a"]
    assert "start w" in drive.finish("a", holding="actor")


@pytest.mark.parametrize("seed", range(4))
def test_the_check_agrees_with_the_definition(seed):
    source = random.Random(seed)
    verdicts = set()
    for _ in range(100):
        whole = random_graph(source, nodes=source.randint(2, 9))
        nodes = [
            msgspec.structs.replace(
                node,
                takes=tuple(
                    (edge, mask) for edge, (_, mask) in enumerate(node.edges) if mask and source.random() < 0.5
                ),
            )
            for node in whole.nodes
        ]
        whole = Graph(nodes, whole.sink)
        blocked = definitions.blocked(shape_of(whole))
        verdicts.add(bool(blocked))
        if blocked:
            with pytest.raises(UnsafeGraph):
                check(whole)
        else:
            check(whole)
    assert verdicts == {True, False}


# -- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", [RefPart(1, ("a", 1), actor=True), RefPart(3, actor=True)])
def test_a_version_is_made_by_who_returns_it_in_one_part(ref):
    drive = begun("a kept; b kept,parts=2 a; z kept b")
    drive.complete("a", holding="actor")
    with pytest.raises(IllegalEvent, match="version of an actor"):
        drive.tell(events.Finished("b", drive.running["b"], refs=(ref,)))


def test_nobody_takes_what_it_does_not_read():
    node = graph("a pure; b kept a").nodes
    with pytest.raises(InvalidGraph, match="takes what it does not read"):
        Graph([node[0], msgspec.structs.replace(node[1], takes=((0, 2),))])


def test_who_takes_one_part_reads_the_other_like_anybody():
    drive = begun("a pure,parts=2; r kept takes:a.0 a.1; w kept takes:a.1; z kept r w")
    assert drive.finish("a", holding="actor@0 actor@1") == ["start r"]
    assert drive.finish("r") == ["save r", "start w"]


def test_a_taker_that_is_run_for_an_undo_waits_for_readers_that_run():
    drive = begun("a kept; t pure takes:a; u undoable,retries=1 t; k kept; r kept a k; z kept u r")
    drive.complete("a", holding="actor")
    drive.finish("t", small=False)
    drive.lose("t")
    assert "start r" in drive.finish("k")
    assert drive.raises("u") == ["+failed u 1"]
    assert drive.finish("r") == ["save r", "start t privately"]
