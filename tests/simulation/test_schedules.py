"""The state machine under many random graphs and schedules. Each seed is one graph and one schedule of it.

Blocks of seeds are separate tests so that several processes can share them.
"""

from random import Random

import pytest

from onceflow.core import commands, events, records
from onceflow.testing.simulation import Caught, Settings, Simulation, play, simulate_many
from onceflow.testing.simulation.scenarios import random_graph

BLOCK = 2_500
LONG_BLOCK = 12_500


@pytest.mark.parametrize("block", range(8))
def test_no_schedule_breaks_the_law(block):
    simulate_many(range(block * BLOCK, (block + 1) * BLOCK))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(16))
def test_no_schedule_of_many_breaks_the_law(block):
    simulate_many(range(1_000_000 + block * LONG_BLOCK, 1_000_000 + (block + 1) * LONG_BLOCK))


@pytest.mark.parametrize("block", range(2))
def test_every_incremental_state_agrees_with_its_definition(block):
    simulate_many(range(100_000 + block * 750, 100_000 + (block + 1) * 750), Settings(validate=True))


def test_a_seed_always_plays_the_same_schedule():
    assert [play(seed) for seed in range(20)] == [play(seed) for seed in range(20)]


def test_several_processes_play_what_one_would():
    assert simulate_many(range(600), jobs=2) == simulate_many(range(600))


@pytest.fixture(scope="module")
def stories():
    told, outcomes = set(), []
    for seed in range(1_500):
        random = Random(seed)
        simulation = Simulation(random_graph(random), random)
        outcomes.append(simulation.run())
        for _, what in simulation.driver.story.entries:
            told.add(type(what))
            if isinstance(what, commands.Append):
                told.add(type(what.record))
    return told, outcomes


def test_schedules_are_rich(stories):
    """Every event that a driver can send, every command and every record occurs, and every way to end."""
    told, outcomes = stories
    assert _all(events.Event, but={events.Given}) <= told
    assert _all(commands.Command, but={commands.Need}) <= told
    assert _all(records.Record) <= told
    assert {outcome.status for outcome in outcomes} == {"succeeded", "failed", "undone", "cancelled"}
    assert max(outcome.epochs for outcome in outcomes) > 4


def _all(union, but=frozenset()):
    return set(union.__args__) - but


def test_what_is_caught_comes_with_its_story():
    with pytest.raises(Caught) as caught:
        simulate_many(range(50_000), Settings(rule="cut"))
    text = str(caught.value)
    assert f"python -m onceflow.testing.simulation --seed {caught.value.seed} --rule cut" in text
    assert "begin" in text
    assert caught.value.reason in text
    with pytest.raises(Caught, match="replay"):
        play(caught.value.seed, Settings(rule="cut"))
