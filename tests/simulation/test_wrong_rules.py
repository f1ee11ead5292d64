"""The test of the test: start rules that look right are caught, by what follows from them and not by the letter."""

from random import Random

import pytest

from onceflow.testing.simulation import Caught, Settings, play_graph, shapes, simulate_many

ENOUGH = 50_000
"""Schedules within which a wrong rule must be caught."""


@pytest.mark.parametrize("rule", ["cut", "consumers"])
def test_a_wrong_rule_is_caught(rule):
    with pytest.raises(Caught, match=r"has begun|is irrevocable|irrevocable .* has happened"):
        simulate_many(range(ENOUGH), Settings(rule=rule))


def test_a_node_whose_refs_are_not_saved_must_not_count_as_saved():
    with pytest.raises(Caught):
        simulate_many(range(ENOUGH), Settings(rule="values"))


def test_who_writes_variables_must_wait_until_nothing_above_can_change():
    with pytest.raises(Caught, match="may still be dropped"):
        simulate_many(range(ENOUGH), Settings(rule="rash"))


def test_who_takes_an_actor_must_wait_for_those_that_read_it():
    with pytest.raises(Caught, match=r"still reads|does not come to an end"):
        simulate_many(range(ENOUGH), Settings(rule="hasty", actors=True))


def test_a_version_that_was_taken_must_not_count_as_there():
    with pytest.raises(Caught, match="not all its inputs are available"):
        simulate_many(range(ENOUGH), Settings(rule="stale", actors=True))


def test_what_a_handler_gave_must_not_count_as_what_the_task_would_give_again():
    with pytest.raises(Caught):
        simulate_many(range(ENOUGH), Settings(rule="trusting"))


@pytest.mark.parametrize("rule", ["greedy", "open"])
def test_a_graph_that_a_handler_answered_for_must_end_as_the_law_says(rule):
    with pytest.raises(Caught):
        simulate_many(range(ENOUGH), Settings(rule=rule))


def test_who_joins_what_stands_aside_must_depend_on_it():
    with pytest.raises(Caught, match="was computed from"):
        simulate_many(range(ENOUGH), Settings(rule="loose", forks=True))


@pytest.mark.parametrize(
    ("rule", "shape"),
    [
        ("cut", shapes.read_again),
        ("cut", shapes.dropped_neighbour),
        ("cut", shapes.undo_under_irrevocable),
        ("consumers", shapes.dropped_neighbour),
    ],
)
def test_the_shapes_of_the_design_show_what_is_wrong(rule, shape):
    with pytest.raises(Caught, match="has begun"):
        play_often(shape().graph, Settings(rule=rule))


def play_often(graph, settings):
    for seed in range(200):
        play_graph(graph, Random(seed), settings)
