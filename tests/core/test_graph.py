"""Options and what follows from them; graphs, their ids and their digest."""

import msgspec
import pytest

from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Graph, Node, number_ids
from onceflow.errors import InvalidGraph
from tests.core.building import graph
from tests.tools.simulation.notation import KINDS


def node(id, *edges, **more):
    return Node(id=id, task=id, options=Options(), edges=edges, **more)


def invalid(nodes, sink=None):
    with pytest.raises(InvalidGraph) as caught:
        Graph(nodes, sink)
    return str(caught.value)


# -- effects ---------------------------------------------------------------------------------------------------------


def test_the_default_task_is_saved_nondeterministic_and_irrevocable():
    assert Options() == Options(checkpoint=True, deterministic=False, effect="irrevocable", retries=0)


@pytest.mark.parametrize(
    ("effect", "deterministic", "repeatable"),
    [
        ("none", True, True),
        ("none", False, False),
        ("irrevocable", True, True),
        ("irrevocable", False, False),
        ("undoable", True, False),
        ("undoable", False, False),
    ],
)
def test_a_task_is_repeatable_if_it_is_deterministic_and_not_undoable(effect, deterministic, repeatable):
    for checkpoint in (True, False):
        options = Options(effect=effect, deterministic=deterministic, checkpoint=checkpoint)
        assert options.repeatable is repeatable


# -- structure -------------------------------------------------------------------------------------------------------


def test_the_last_node_is_the_sink_unless_another_is_named():
    assert Graph([node("a"), node("b", (0, 1))]).sink == 1
    assert Graph([node("a"), node("b", (0, 1)), node("c", (0, 1), (1, 1))], 2).sink == 2


def test_consumers_are_the_nodes_that_have_an_edge_from_it_control_edges_too():
    assert graph("a pure; b pure a; c pure a after:b; d pure b c").consumers == ((1, 2), (2, 3), (3,), ())


def test_the_index_gives_the_position_of_an_id():
    assert graph("a pure; b pure a").index == {"a": 0, "b": 1}


def test_every_part_is_the_mask_of_all_parts():
    assert [node("a", parts=parts).every_part for parts in (1, 2, 5)] == [0b1, 0b11, 0b11111]


def test_a_graph_with_checkpoints_differs_in_nothing_else():
    before = graph("a pure; u undoable,unsaved a; n default u")
    after = before.with_checkpoints({"u"})
    assert [n.options.checkpoint for n in after.nodes] == [False, True, True]
    assert [msgspec.structs.replace(n, options=None) for n in after.nodes] == [
        msgspec.structs.replace(n, options=None) for n in before.nodes
    ]
    assert (after.sink, len(after)) == (2, 3)


def test_a_graph_needs_a_node():
    assert invalid([]) == "a graph needs at least one node"


@pytest.mark.parametrize("sink", [-1, 1])
def test_the_sink_is_one_of_the_nodes(sink):
    assert "is not one of the 1 nodes" in invalid([node("a")], sink)


def test_ids_are_unique():
    assert invalid([node("a"), node("a", (0, 1))]) == "two nodes have the id 'a'"


def test_a_node_has_at_least_one_part():
    assert invalid([node("a", parts=0)]) == "'a' must have at least one part"


@pytest.mark.parametrize("parent", [0, 1, -1])
def test_parents_come_before_their_consumers(parent):
    assert invalid([node("a", (parent, 1)), node("b", (0, 1))]) == "'a' reads a node that does not come before it"


def test_there_is_one_edge_per_parent():
    assert invalid([node("a", parts=2), node("b", (0, 1), (0, 2))]) == "'b' has two edges from 'a'"


def test_only_parts_that_exist_can_be_read():
    assert invalid([node("a", parts=2), node("b", (0, 0b100))]) == "'b' reads a part that 'a' does not have"


def test_every_node_leads_to_the_sink():
    message = invalid([node("a"), node("b"), node("c"), node("d", (1, 1))])
    assert message == "nothing leads from 'a', 'c' to the sink"


def test_nobody_reads_the_sink():
    assert invalid([node("a"), node("b", (0, 1))], 0).startswith("nothing leads from 'b'")


# -- ids -------------------------------------------------------------------------------------------------------------


def test_the_first_task_of_a_name_has_the_name_and_the_next_are_numbered():
    assert number_ids(["load", "clean", "load", "load"]) == ["load", "clean", "load_1", "load_2"]


def test_a_number_that_is_a_tasks_own_name_is_skipped():
    assert number_ids(["load", "load", "load_1"]) == ["load", "load_2", "load_1"]
    assert number_ids(["load_1", "load", "load", "load_1"]) == ["load_1", "load", "load_2", "load_1_1"]


def test_ids_are_always_unique():
    names = ["a", "a_1", "a", "a_1", "a_1_1", "a", "a_2", "a", "a_2"]
    ids = number_ids(names)
    assert len(set(ids)) == len(names)
    assert all(id == name or id.startswith(f"{name}_") for id, name in zip(ids, names, strict=True))


def test_ids_do_not_depend_on_what_comes_later_with_another_name():
    assert number_ids(["a", "a", "b"])[:2] == number_ids(["a", "a", "c", "c"])[:2]


# -- digest ----------------------------------------------------------------------------------------------------------

BASE = "a pure,parts=2; b kept a.0; c default a.1 b"


def test_equal_graphs_have_equal_digests():
    assert graph(BASE).digest == graph(BASE).digest


@pytest.mark.parametrize(
    "other",
    [
        "a pure,parts=2; b kept a.0; d default a.1 b",
        "a pure,parts=2; b kept a.1; c default a.1 b",
        "a pure,parts=2; b kept after:a; c default a.1 b",
        "a pure,parts=3; b kept a.0; c default a.1 b",
        "a pure,parts=2,saved; b kept a.0; c default a.1 b",
        "a loose,parts=2; b kept a.0; c default a.1 b",
        "a pure,parts=2; b undoable a.0; c default a.1 b",
        "a pure,parts=2; b kept,retries=1 a.0; c default a.1 b",
        "a pure,parts=2; b kept a.0; c default b",
        "a pure,parts=2; b kept a.0; c default a.1 b; d pure c",
    ],
)
def test_structure_options_and_names_are_part_of_the_digest(other):
    assert graph(other).digest != graph(BASE).digest


def test_arguments_are_part_of_the_digest_and_code_is_not():
    [a] = graph("a pure").nodes
    assert Graph([msgspec.structs.replace(a, fingerprint="x")]).digest != Graph([a]).digest
    assert Graph([msgspec.structs.replace(a, task="other")]).digest != Graph([a]).digest
    assert Graph([msgspec.structs.replace(a, call=print)]).digest == Graph([a]).digest


def test_the_kinds_used_in_these_tests_have_the_effects_of_their_names():
    repeatable = {kind for kind, options in KINDS.items() if options.repeatable}
    assert repeatable == {"pure"}
    assert {kind: options.effect for kind, options in KINDS.items() if options.effect != "none"} == {
        "undoable": "undoable",
        "default": "irrevocable",
    }
