"""The test of the test: start rules that look right are caught, by what follows from them and not by the letter."""

from random import Random

import pytest

from tests.tools.simulation import Caught, Settings, Violation, play_graph, shapes, simulate_many
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script
from tests.tools.simulation.wrong_rules import ForgetfulRun, ReopeningRun

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
    with pytest.raises(Caught, match=r"was computed from|has begun"):
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


def test_what_is_saved_of_a_writer_must_not_count_without_what_it_wrote():
    with pytest.raises(Caught):
        simulate_many(range(ENOUGH), Settings(rule="torn"))


def test_a_graph_in_which_something_stands_aside_must_not_begin_before_it_is_saved():
    forking = graph("d kept; h kept d", returning={"d": [graph("a kept; fork kept,aside", sink="a")]})
    script = """
        finish d
        finish d/a
        finish h
        save h.0
        commit
        crash
        """
    assert play_script(forking, script) == "succeeded"
    with pytest.raises(Violation, match=r"not quiet|is not done"):
        play_script(forking, script, run_class=ForgetfulRun, validate=False, letter=False)


def test_what_is_about_to_end_must_stay_closed_when_a_graph_around_it_opens():
    inner = graph("d kept; e kept d", returning={"d": [graph("a kept; b kept; c kept a b")]})
    nested = graph("b kept; c kept b", returning={"b": [inner]})
    script = """
        finish b
        save b.0
        finish b/d
        save b/d.0
        answer b/d/b for 1 again
        expire b/d/a at 2
        elapse b
        """
    assert play_script(nested, script) == "succeeded"
    with pytest.raises(Violation, match="a handler has answered for"):
        play_script(nested, script, run_class=ReopeningRun, validate=False)
