"""From nodes to graphs: structure, ids, edges, and the arguments that arrive."""

from __future__ import annotations

import dataclasses
import pickle
from collections import OrderedDict, deque
from typing import Any

import pytest

from onceflow import UnsafeGraph, check, task
from onceflow.authoring.graph_builder import WorkflowGraph, build_graph
from onceflow.core.model.graph import Node
from onceflow.errors import NotANode


@task
def make(number: int) -> Any: ...


@task
def join(*values: Any, **named: Any) -> Any: ...


@task(num_returns=3)
def split(text: str) -> Any: ...


@dataclasses.dataclass
class Order:
    item: Any
    extras: list[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    item: Any


class Plain:
    def __init__(self, item: Any) -> None:
        self.item = item


def edges(graph: WorkflowGraph) -> dict[str, list[tuple[str, int]]]:
    return {node.id: [(graph.nodes[parent].id, mask) for parent, mask in node.edges] for node in graph.nodes}


def filled(node: Node) -> Any:
    """The arguments of a node, with (edge, part) in the place of every output."""
    return node.call.arguments(node.call.slots)


def test_a_single_node_is_a_graph() -> None:
    (node,) = build_graph(make.bind(1)).nodes
    assert (node.id, node.task, node.edges, node.parts) == ("make", "make", (), 1)
    assert node.call.function is make.function
    assert filled(node) == ((1,), {})


def test_parents_come_first_in_the_order_of_the_arguments() -> None:
    a, b = make.options(name="a").bind(1), make.options(name="b").bind(2)
    assert [node.id for node in build_graph(join.bind(b, x=a)).nodes] == ["b", "a", "join"]


def test_ids_number_tasks_of_the_same_name() -> None:
    graph = build_graph(join.bind(make.bind(1), make.bind(2), join.bind(make.bind(3))))
    assert [node.id for node in graph.nodes] == ["make", "make_1", "make_2", "join", "join_1"]


def test_a_node_used_twice_is_one_node() -> None:
    node = make.bind(1)
    graph = build_graph(join.bind(node, [node], again=join.bind(node)))
    assert [n.id for n in graph.nodes] == ["make", "join", "join_1"]
    assert edges(graph)["join_1"] == [("make", 1), ("join", 1)]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda node: node,
        lambda node: [node],
        lambda node: (1, (node,)),
        lambda node: {"key": [node]},
        lambda node: {node: 1},
        lambda node: {node},
        lambda node: frozenset([node]),
        lambda node: deque([node]),
        lambda node: OrderedDict(a=node),
        lambda node: Order(node, [node]),
        lambda node: Frozen(node),
        lambda node: Plain([Plain(node)]),
        lambda node: [[[[[[[[node]]]]]]]],
        lambda node: lambda: node,
    ],
)
def test_a_node_may_stand_anywhere_in_the_arguments(wrap: Any) -> None:
    graph = build_graph(join.bind(wrap(make.bind(1))))
    assert edges(graph) == {"make": [], "join": [("make", 1)]}
    assert graph.nodes[1].call.slots == ((0, None),)


def test_values_arrive_where_the_nodes_stood() -> None:
    a, b = make.bind(1), make.bind(2)
    node = build_graph(join.bind(Order(a, [b, 3]), {"x": (a,)}, y=b)).nodes[-1]
    assert node.call.slots == ((0, None), (1, None))
    args, kwargs = node.call.arguments(["A", "B"])
    assert args == (Order("A", ["B", 3]), {"x": ("A",)})
    assert kwargs == {"y": "B"}


def test_values_arrive_in_plain_arguments() -> None:
    a, b = make.bind(1), make.bind(2)
    node = build_graph(join.bind(7, a, b, x="y", z=a)).nodes[-1]
    assert node.call.arguments(["A", "B"]) == ((7, "A", "B"), {"x": "y", "z": "A"})


def test_values_take_the_place_of_nodes_in_sets_and_keys() -> None:
    a, b = make.bind(1), make.bind(2)
    node = build_graph(join.bind({a, b, 3}, {a: b})).nodes[-1]
    assert filled(node)[0][0] == {(0, None), (1, None), 3}
    assert filled(node)[0][1] == {(0, None): (1, None)}


def test_parts_make_one_edge_with_a_mask() -> None:
    node = split.bind("a b c")
    graph = build_graph(join.bind(node[2], [node[0]]))
    assert edges(graph)["join"] == [("split", 0b101)]
    assert graph.nodes[0].parts == 3
    assert graph.nodes[1].call.slots == ((0, 2), (0, 0))


def test_the_whole_output_reads_every_part() -> None:
    node = split.bind("a b c")
    graph = build_graph(join.bind(node, node[1]))
    assert edges(graph)["join"] == [("split", 0b111)]
    assert graph.nodes[1].call.slots == ((0, None), (0, 1))


def test_a_part_can_be_the_result() -> None:
    graph = build_graph(split.bind("a b c")[1])
    assert edges(graph) == {"split": [], "pick": [("split", 0b010)]}
    assert graph.nodes[1].options.effect == "none"
    pick = graph.nodes[1].call
    args, kwargs = pick.arguments(["B"])
    assert pick.function(*args, **kwargs) == "B"


def test_after_is_an_edge_that_reads_nothing() -> None:
    a, b = make.bind(1), split.bind("")
    graph = build_graph(join.options(after=[a, b[1]]).bind(0))
    assert edges(graph)["join"] == [("make", 0), ("split", 0)]
    assert graph.nodes[2].call.slots == ()


def test_after_a_parent_that_is_read_anyway_changes_nothing() -> None:
    a = make.bind(1)
    assert edges(build_graph(join.options(after=[a]).bind(a)))["join"] == [("make", 1)]


def test_after_stays_when_other_options_are_added() -> None:
    a = make.bind(1)
    graph = build_graph(join.options(after=[a]).options(checkpoint=False).bind())
    assert edges(graph)["join"] == [("make", 0)]


def test_after_takes_nodes_only() -> None:
    with pytest.raises(NotANode, match=r"the option after of task 'join' needs a node and got .*behind it"):
        join.options(after=[make])


def test_options_reach_the_graph() -> None:
    (node,) = build_graph(make.options(checkpoint=False, retry=2).bind(1)).nodes
    assert node.options == make.options(checkpoint=False, retry=2).core_options
    assert node.call.retry.count == 2
    assert not node.call.is_async


def test_a_built_graph_holds_on_to_no_handles() -> None:
    a = make.bind(1)
    graph = build_graph(join.options(after=[a]).bind([a], x=a))
    copies = pickle.loads(pickle.dumps([node.call for node in graph.nodes]))
    assert copies[1].arguments(["A"]) == ((["A"],), {"x": "A"})
    assert copies[1].task.function is join.function


@pytest.mark.parametrize("thing", [3, None, make, [make.bind(1)]])
def test_only_nodes_have_graphs(thing: object) -> None:
    with pytest.raises(NotANode, match="a graph needs a node"):
        build_graph(thing)


def test_a_chain_of_100_000_nodes_can_be_built_and_let_go() -> None:
    node = make.bind(0)
    for _ in range(99_999):
        node = join.bind(node)
    graph = build_graph(node)
    assert len(graph) == 100_000
    assert graph.nodes[-1].edges == ((99_998, 1),)
    del node, graph


def test_a_wide_graph_can_be_built() -> None:
    graph = build_graph(join.bind([make.bind(number) for number in range(10_000)]))
    assert len(graph.nodes[-1].edges) == 10_000


def test_a_safe_graph_passes_the_check() -> None:
    check(join.bind(make.bind(1)))


def test_an_unsafe_graph_does_not_pass_the_check() -> None:
    with pytest.raises(UnsafeGraph) as caught:
        check(join.bind(make.options(checkpoint=False).bind(1)))
    assert caught.value.blocked == ("join",)


def test_the_check_needs_a_node() -> None:
    with pytest.raises(NotANode):
        check(make)
