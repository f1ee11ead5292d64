"""Nodes are not values: what they allow and what they refuse."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from onceflow import OnceflowError, task
from onceflow.errors import NoAttributeYet, NoSuchPart, NoValueYet


@task
def price(item: str) -> Any: ...


@task(num_returns=3)
def split(text: str) -> Any: ...


USES: list[Callable[[Any], object]] = [
    bool,
    lambda node: not node,
    lambda node: node and 1,
    len,
    list,
    int,
    float,
    complex,
    bytes,
    math.sqrt,
    abs,
    round,
    range,
    lambda node: 1 in node,
    lambda node: node[0],
    lambda node: node["key"],
    lambda node: node < 3,
    lambda node: max(node, 3),
    lambda node: node + 1,
    lambda node: 1 + node,
    lambda node: [1] + node,  # noqa: RUF005
    lambda node: -node,
    lambda node: node @ node,
    lambda node: divmod(node, 2),
    lambda node: 2**node,
    lambda node: f"{node}",
    lambda node: format(node, ">3"),
    lambda node: pickle.dumps(node),
]


@pytest.mark.parametrize("use", USES)
def test_using_a_node_as_a_value_is_a_type_error_that_explains_nodes(use: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="<node price> is a node: its value exists only while a run goes on") as caught:
        use(price.bind("tea"))
    assert isinstance(caught.value, OnceflowError)


def test_a_numpy_array_does_not_swallow_a_node() -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(NoValueYet):
        numpy.zeros(3) + price.bind("tea")


def test_reading_an_attribute_explains_nodes() -> None:
    with pytest.raises(NoAttributeYet, match="cannot read its attribute 'amount': <node price> is a node"):
        price.bind("tea").amount  # noqa: B018
    assert not hasattr(price.bind("tea"), "amount")


def test_setting_an_attribute_is_refused() -> None:
    with pytest.raises(AttributeError):
        price.bind("tea").amount = 3


def test_a_node_is_equal_to_itself_only() -> None:
    node = price.bind("tea")
    assert node == node
    assert node != price.bind("tea")
    assert len({node, node, price.bind("tea")}) == 2


def test_copies_of_a_node_are_the_node() -> None:
    node = price.bind("tea")
    assert copy.copy(node) is node
    assert copy.deepcopy([node])[0] is node


@pytest.mark.parametrize("use", [lambda node: node[0], iter, len])
def test_a_node_with_one_output_says_how_to_get_several(use: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"price\.options\(num_returns=…\)\.bind"):
        use(price.bind("tea"))


def test_a_node_with_several_outputs_can_be_unpacked() -> None:
    node = split.bind("a b c")
    first, *rest = node
    assert [repr(part) for part in (first, *rest)] == ["<node split[0]>", "<node split[1]>", "<node split[2]>"]
    assert len(node) == 3


def test_parts_are_found_by_index_from_both_ends_and_in_slices() -> None:
    node = split.bind("a b c")
    assert node[0] is node[0]
    assert node[-1] is node[2]
    assert node[1:] == (node[1], node[2])


def test_the_number_of_outputs_may_be_given_at_bind() -> None:
    _, second = price.options(num_returns=2).bind("tea")
    assert repr(second) == "<node price[1]>"


def test_a_part_that_does_not_exist_is_an_index_error() -> None:
    with pytest.raises(IndexError, match=r"has 3 parts \(num_returns=3\); there is no \[3\]") as caught:
        split.bind("")[3]
    assert isinstance(caught.value, NoSuchPart)


def test_a_look_up_by_name_belongs_inside_a_task() -> None:
    with pytest.raises(TypeError, match=r"cannot look up 'first' in it.*inside a task") as raised:
        split.bind("")["first"]
    assert "num_returns" not in str(raised.value)


@pytest.mark.parametrize("use", [bool, len, list, lambda part: part[0], lambda part: part + 1])
def test_a_part_is_not_a_value_either(use: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"<node split\[1\]> is a node"):
        use(split.bind("")[1])
