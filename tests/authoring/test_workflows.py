"""Workflows: functions that build graphs and give them a name."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

from onceflow import check, task, workflow
from onceflow.authoring.graph_builder import build_graph
from onceflow.errors import InvalidOption, NotANode, UnusedNode, WrongArguments
from onceflow.values.snapshot import take


@task
def charge(user: str, cents: int) -> str:
    return f"{user} {cents}"


@task.pure(num_returns=2)
def quote(city: str) -> tuple[int, str]: ...


@workflow
def trip(user: str, city: str = "Rome") -> str:
    """Books."""
    cents, _ = quote.bind(city)
    return charge.bind(user, cents)


@workflow(name="two trips")
def both(user: str) -> str:
    first = trip.bind(user)
    return charge.options(after=[first]).bind(user, 1)


def test_binding_a_workflow_runs_its_function_and_gives_the_node_it_returned() -> None:
    graph = build_graph(trip.bind("ann"))
    assert [node.id for node in graph.nodes] == ["quote", "charge"]


def test_calling_a_workflow_just_calls_its_function() -> None:
    assert repr(trip("ann")) == "<node charge>"
    assert build_graph(trip("ann")).workflow is None


def test_the_graph_remembers_which_workflow_was_bound_with_what() -> None:
    bound = build_graph(trip.bind("ann")).workflow
    assert bound is not None
    assert bound.name == "trip"
    assert bound.arguments == {"user": "ann", "city": "Rome"}
    assert repr(bound) == "<workflow trip(user='ann', city='Rome')>"


def test_a_graph_without_a_workflow_remembers_none() -> None:
    assert build_graph(charge.bind("ann", 1)).workflow is None


def test_workflows_nest_by_binding_one_inside_another() -> None:
    graph = build_graph(both.bind("ann"))
    assert [node.id for node in graph.nodes] == ["quote", "charge", "charge_1"]
    assert graph.workflow is not None
    assert graph.workflow.name == "two trips"


def test_the_outer_workflow_counts_if_both_return_the_same_node() -> None:
    @workflow
    def outer(user: str) -> str:
        return trip.bind(user)

    bound = build_graph(outer.bind("ann")).workflow
    assert bound is not None
    assert bound.name == "outer"


def test_a_workflow_may_return_a_part() -> None:
    @workflow
    def cents(city: str) -> int:
        return quote.bind(city)[0]

    graph = build_graph(cents.bind("Rome"))
    assert graph.workflow is not None
    assert graph.workflow.name == "cents"


def test_a_workflow_has_the_name_and_the_typed_parameters_of_its_function() -> None:
    assert trip.name == "trip"
    assert trip.__doc__ == "Books."
    assert trip.signature == inspect.signature(trip.function)
    assert repr(trip) == "<workflow trip(user: 'str', city: 'str' = 'Rome') -> 'str'>"


def test_arguments_that_do_not_fit_are_a_type_error_with_the_signature() -> None:
    with pytest.raises(TypeError, match=r"trip\.bind\(\): missing .* 'user'; it takes trip\(user: 'str'") as caught:
        trip.bind()  # type: ignore[call-arg]
    assert isinstance(caught.value, WrongArguments)


@pytest.mark.parametrize(("value", "hint"), [(5, "pass what"), (None, "pass what"), (charge, "behind it")])
def test_a_workflow_must_return_a_node(value: Any, hint: str) -> None:
    @workflow
    def broken() -> Any:
        return value

    with pytest.raises(
        TypeError, match=f"return statement of workflow 'broken' needs a node and got .*{hint}"
    ) as caught:
        broken.bind()
    assert isinstance(caught.value, NotANode)


def test_an_async_function_cannot_be_a_workflow() -> None:
    with pytest.raises(InvalidOption, match="workflow 'later': an async function"):

        @workflow
        async def later() -> None: ...


@pytest.mark.parametrize("thing", [3, charge, trip])
def test_only_functions_become_workflows(thing: Any) -> None:
    with pytest.raises(InvalidOption, match="it is made from a function"):
        workflow(thing)


def test_a_workflow_of_a_module_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(trip)) is trip


def test_a_local_workflow_is_pickled_by_value() -> None:
    @workflow(name="local")
    def local(user: str) -> str:
        return trip.bind(user)

    copy = take(local).load()
    assert copy.name == "local"
    assert len(build_graph(copy.bind("ann"))) == 2


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(InvalidOption, match="name must be a text that is not empty"):
        workflow(name="")(trip.function)


def test_a_node_that_leads_nowhere_is_refused_because_it_would_never_run() -> None:
    @workflow
    def forgetful(user: str) -> str:
        charge.options(name="send_mail").bind(user, 0)
        return charge.bind(user, 1)

    with pytest.raises(UnusedNode, match=r"'forgetful' binds send_mail.*after=\[node\]") as raised:
        forgetful.bind("ann")
    assert raised.value.tasks == ("send_mail",)


def test_what_is_read_in_a_container_or_waited_for_leads_to_the_result() -> None:
    @workflow
    def careful(user: str) -> str:
        first = charge.bind(user, 1)
        listed = charge.options(name="listed").bind(user, [quote.bind("Rome")])
        return charge.options(after=[first]).bind(user, {"cents": listed})

    assert len(check(careful.bind("ann")).nodes) == 4


def test_the_result_of_a_nested_workflow_must_be_used_too() -> None:
    @workflow
    def outer(user: str) -> str:
        trip.bind(user)
        return charge.bind(user, 1)

    with pytest.raises(UnusedNode, match="'outer' binds charge"):
        outer.bind("ann")


def test_nodes_made_outside_of_the_workflow_may_stay_unused() -> None:
    outside = quote.bind("Rome")

    @workflow
    def picky(user: str, price: tuple[int, str]) -> str:
        return charge.bind(user, 1)

    picky.bind("ann", outside)
