"""Hypothesis makes the graphs and the schedules here, so that a failure comes as small as it can be."""

import pytest
from hypothesis import given, settings

from onceflow.testing.simulation import play_graph
from onceflow.testing.simulation.strategies import graphs, schedules


@settings(max_examples=500)
@given(graphs(), schedules())
def test_no_schedule_breaks_the_law(graph, random):
    play_graph(graph, random)


@pytest.mark.soak
@settings(max_examples=20_000)
@given(graphs(largest=8), schedules())
def test_no_schedule_of_many_breaks_the_law(graph, random):
    play_graph(graph, random)
