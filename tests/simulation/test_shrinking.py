"""Hypothesis makes the graphs and the schedules here, so that a failure comes as small as it can be."""

import pytest
from hypothesis import HealthCheck, given, settings

from onceflow.testing.simulation import play_graph
from onceflow.testing.simulation.strategies import graphs, schedules

# The shortest schedule is long by hypothesis' standards: several choices for every step.
LONG = [HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large]


@settings(max_examples=500, suppress_health_check=LONG)
@given(graphs(), schedules())
def test_no_schedule_breaks_the_law(graph, random):
    play_graph(graph, random)


@pytest.mark.soak
@settings(max_examples=20_000, suppress_health_check=LONG)
@given(graphs(largest=8), schedules())
def test_no_schedule_of_many_breaks_the_law(graph, random):
    play_graph(graph, random)
