"""Refs in the simulation: what attempts return, what is behind it, and every loss of every object, not at random."""

from random import Random

import pytest

from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Node
from onceflow.core.model.refs import RefPart
from tests.tools.simulation import Simulation, shapes
from tests.tools.simulation.attempts import Attempt, Values
from tests.tools.simulation.referring import Referring
from tests.tools.simulation.shapes import node


def attempt(inputs=None, versions=None, parts=1):
    task = Node(id="b", task="b", options=Options(effect="none", deterministic=True), parts=parts)
    return Attempt("b", 1, "run", task, inputs or {}, versions or {})


def test_behind_a_ref_that_came_in_is_what_was_there_before():
    reading = attempt({("a", 0): 7, ("a", 1): 8})
    reading.refs = {1: RefPart(1), 2: RefPart(1, ("a", 1))}
    value, made, passed_on = Values().compute(reading)
    assert len({value, made, passed_on}) == 3
    assert passed_on == 8


def test_refs_come_from_what_was_read_and_bring_along_what_is_behind_them():
    given = attempt()
    given.refs = {1: RefPart(1), 2: RefPart(0)}
    reading = attempt({("a", 0): 7, ("a", 1): 8}, {"a": given}, parts=2)
    seen = set()
    for seed in range(200):
        refs = Referring(Random(seed)).pick(reading)
        origins = [ref.origin for ref in refs if ref.origin is not None]
        assert set(origins) <= {("a", 0), ("a", 1)}
        assert len(set(origins)) == len(origins)
        assert all(0 < ref.holders < 4 for ref in refs)
        if ("a", 0) in origins:
            assert ("a", 1) in origins
        seen.add((len(refs) - len(origins), len(origins)))
    assert {(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1), (2, 2)} <= seen


def relay():
    """A ref that is made above may be passed on twice, and is read below something irrevocable and beside it."""
    return shapes.graph(
        node("m", deterministic=True),
        node("r", "m", checkpoint=True),
        node("s", "r", deterministic=True),
        node("n", "s", effect="irrevocable", checkpoint=True),
        node("w", "m", "s", checkpoint=True),
        node("z", "n", "w"),
    )


@pytest.mark.parametrize("seed", range(5))
def test_every_loss_of_an_object_at_every_step_of_a_schedule_is_survived(seed):
    whole = calm(seed)
    while whole.step():
        pass
    for steps in range(1, whole.steps):
        simulation = at(seed, steps)
        for lost in objects(simulation):
            simulation = at(seed, steps)
            if simulation.driver.over is None:
                simulation.driver.lose(objects(simulation)[lost], [])
            play_on(simulation)
        simulation = at(seed, steps)
        simulation.crash()
        simulation.driver.checker.after_step(simulation.driver)
        play_on(simulation)


def calm(seed):
    simulation = Simulation(relay(), Random(seed), faults=0)
    simulation.begin()
    return simulation


def at(seed, steps):
    simulation = calm(seed)
    for _ in range(steps):
        simulation.step()
    return simulation


def objects(simulation):
    """The objects in memory → the parts that share them."""
    found = {}
    for id, row in simulation.driver.rows.items():
        for part in range(row.memory.bit_length()):
            if row.memory >> part & 1:
                found.setdefault(simulation.driver.made_as(id, part), []).append((id, part))
    return found


def play_on(simulation):
    while simulation.step():
        pass
    assert simulation.driver.run.status == "succeeded"
