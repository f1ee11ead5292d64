"""Hypothesis makes the graphs and the schedules here, so that a failure comes as small as it can be."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.tools.simulation import Caught, Settings, play_graph, simulate_many
from tests.tools.simulation.bulk import simulation_of
from tests.tools.simulation.notation import graph, write
from tests.tools.simulation.script import Recorder, play_script
from tests.tools.simulation.shrinking import kind_of, record, shrink, what_breaks
from tests.tools.simulation.strategies import graphs, schedules

# The shortest schedule is long by hypothesis' standards: several choices for every step.
LONG = [HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large]


@settings(max_examples=500, suppress_health_check=LONG)
@given(graphs(), schedules())
def test_no_schedule_breaks_the_law(graph, random):
    play_graph(graph, random)


def test_what_was_found_becomes_a_small_test_that_finds_it_again():
    settings = Settings(rule="cut")
    with pytest.raises(Caught) as caught:
        simulate_many(range(50_000), settings)
    find = record(caught.value.seed, settings)
    small = shrink(find)
    assert kind_of(small.reason) == kind_of(caught.value.reason)
    assert what_breaks(small) == small.reason
    assert len(small.script) <= len(find.script)
    assert len(small.graph.nodes) <= len(find.graph.nodes)
    assert small.as_test("cut").startswith("def test_cut():")


def test_the_text_of_a_test_makes_the_same_graph():
    for seed in range(300):
        made = simulation_of(seed, Settings(mixed=True)).driver.graph
        assert eval(write(made), {"graph": graph}).digest == made.digest  # our own text


def test_a_script_plays_what_was_recorded():
    """The steps of a whole schedule, written down and played again, come to the same end."""
    same = 0
    for seed in range(200):
        simulation = simulation_of(seed, Settings(mixed=True), Recorder)
        outcome = simulation.run()
        driver = simulation.driver
        same += play_script(driver.graph, driver.script, on_failure=driver.on_failure) == outcome.status
    assert same > 190  # events that arrive a second time are not written down
