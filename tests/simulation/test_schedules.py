"""The state machine under many random graphs and schedules. Each seed is one graph and one schedule of it.

Blocks of seeds are separate tests so that several processes can share them.
"""

from dataclasses import replace
from random import Random

import pytest

from onceflow.core.model import commands, events, records
from tests.tools.simulation import Caught, Settings, Simulation, play, simulate_many
from tests.tools.simulation.scenarios import random_graph

BLOCK = 1_000
SETS = {
    "plain": Settings(refs=False),
    "refs": Settings(),
    "actors": Settings(actors=True),
    "queues": Settings(queues=True),
    "forks": Settings(forks=True),
    "all": Settings(actors=True, queues=True, forks=True),
    "mixed": Settings(mixed=True),
}


@pytest.mark.parametrize("block", range(2))
@pytest.mark.parametrize("options", SETS)
def test_no_schedule_breaks_the_law(options, block):
    simulate_many(range(block * BLOCK, (block + 1) * BLOCK), SETS[options])


@pytest.mark.parametrize("options", SETS)
def test_every_incremental_state_agrees_with_its_definition(options):
    simulate_many(range(100_000, 100_600), replace(SETS[options], validate=True))


def test_a_seed_always_plays_the_same_schedule():
    assert [play(seed) for seed in range(20)] == [play(seed) for seed in range(20)]


def test_several_processes_play_what_one_would():
    assert simulate_many(range(600), jobs=2) == simulate_many(range(600))


@pytest.fixture(scope="module")
def stories():
    told, outcomes = set(), []
    for seed in range(1_500):
        random = Random(seed)
        simulation = Simulation(random_graph(random, queues=seed % 5 == 0), random)
        outcomes.append(simulation.run())
        for _, what in simulation.driver.story.entries:
            told.add(type(what))
            if isinstance(what, commands.Append):
                told.add(type(what.record))
    return told, outcomes


def test_schedules_are_rich(stories):
    """Every event that a driver can send, every command and every record occurs, and every way to end. (Runs that are
    stuck are too rare: `tests/core/found` has some.)"""
    told, outcomes = stories
    assert _all(events.Event, but={events.Given}) <= told
    assert _all(commands.Command, but={commands.Need, commands.Stuck}) <= told
    assert _all(records.Record) <= told
    assert {outcome.status for outcome in outcomes} == {"succeeded", "failed", "undone", "cancelled"}
    assert max(outcome.epochs for outcome in outcomes) > 4


@pytest.fixture(scope="module")
def stories_of_refs():
    """What tasks of some schedules returned, and what the run did when something was lost."""
    finished, regained = [], 0
    for seed in range(600):
        random = Random(seed)
        simulation = Simulation(random_graph(random, relays=True), random)
        simulation.run()
        told = [what for _, what in simulation.driver.story.entries]
        finished += [what for what in told if isinstance(what, events.Finished) and what.refs]
        regained += any(row.shared for row in simulation.driver.rows.values())
    return finished, regained


def test_schedules_are_rich_in_refs(stories_of_refs):
    """Refs are made, passed on, and passed on again; inputs are passed as refs; some are in one of two parts only, some
    in a graph, some go on in a nested graph; and some are found again where they came from."""
    finished, regained = stories_of_refs
    passed = {(event.node, number): ref for event in finished for number, ref in enumerate(event.refs, 1) if ref.origin}
    assert any(ref.origin is None for event in finished for ref in event.refs)
    assert any(ref.origin[1] == 0 for ref in passed.values())
    assert any(ref.origin in passed and passed[ref.origin].origin in passed for ref in passed.values())
    assert {0b01, 0b10, 0b11} <= {ref.holders for event in finished for ref in event.refs}
    assert any(event.graph is not None for event in finished)
    assert any("/" in node and "/" not in ref.origin[0] for (node, _), ref in passed.items())
    assert any("/" in ref.origin[0] and "/" not in node for (node, _), ref in passed.items())
    assert regained > 20


def _all(union, but=frozenset()):
    return set(union.__args__) - but


def test_what_is_caught_comes_with_its_story():
    with pytest.raises(Caught) as caught:
        simulate_many(range(50_000), Settings(rule="cut"))
    text = str(caught.value)
    assert f"python -m tests.tools.simulation --seed {caught.value.seed} --rule cut" in text
    assert "begin" in text
    assert caught.value.reason in text
    with pytest.raises(Caught, match="replay"):
        play(caught.value.seed, Settings(rule="cut"))
