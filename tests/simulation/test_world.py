"""The world outside notices what must not happen to it."""

import pytest

from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Node
from tests.tools.simulation import Violation
from tests.tools.simulation.attempts import Attempt, Values
from tests.tools.simulation.world import World


def attempt(effect, number=1, inputs=(), kind="run", deterministic=False):
    task = Node(id="a", task="a", options=Options(effect=effect, deterministic=deterministic), parts=2)
    return Attempt("a", number, kind, task, dict(inputs), {})


READ = {("p", 0): 7}
READ_OTHERWISE = {("p", 0): 8}


def test_an_irrevocable_effect_may_come_twice_with_the_same_inputs():
    world = World()
    world.apply(attempt("irrevocable", 1, READ))
    world.apply(attempt("irrevocable", 2, READ))
    assert world.has_effect_of("a")


def test_an_irrevocable_effect_must_not_come_with_other_inputs():
    world = World()
    world.apply(attempt("irrevocable", 1, READ))
    with pytest.raises(Violation, match="has happened with inputs"):
        world.apply(attempt("irrevocable", 2, READ_OTHERWISE))


def test_an_undoable_effect_must_not_come_twice():
    world = World()
    world.apply(attempt("undoable", 1))
    with pytest.raises(Violation, match="is added to"):
        world.apply(attempt("undoable", 2))


def test_an_undo_takes_an_effect_back():
    world = World()
    world.apply(attempt("undoable", 1, READ))
    world.take_back(attempt("undoable", 2, READ, kind="undo"))
    assert not world.has_effect_of("a")
    world.apply(attempt("undoable", 3, READ_OTHERWISE))


def test_an_undo_without_effect_is_harmless():
    World().take_back(attempt("undoable", 1, kind="undo"))


def test_an_undo_must_see_the_inputs_of_what_it_takes_back():
    world = World()
    world.apply(attempt("undoable", 1, READ))
    with pytest.raises(Violation, match="takes back"):
        world.take_back(attempt("undoable", 2, READ_OTHERWISE, kind="undo"))


def test_values_are_equal_exactly_if_they_are_bound_to_be():
    values = Values()
    sure = [values.compute(attempt("none", number, READ, deterministic=True)) for number in (1, 2)]
    assert sure[0] == sure[1]
    assert len(set(sure[0])) == 2
    assert sure[0] != values.compute(attempt("none", 3, READ_OTHERWISE, deterministic=True))
    assert values.compute(attempt("none", 1, READ)) != values.compute(attempt("none", 2, READ))
