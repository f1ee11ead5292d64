"""The five shapes of design 2.3: each has a task that must wait although a weaker rule would let it start."""

from random import Random

import pytest

from onceflow.core.checks.check import check
from onceflow.core.model import commands, events
from onceflow.core.run import Run
from onceflow.errors import UnsafeGraph
from tests.tools.simulation import Simulation, play_graph, shapes


def drive(graph, last):
    """Runs a graph without any failure, but finishes `last` only when nothing else is left to do. Yields after each
    event what the run has been told to start so far, and whether `last` has finished."""
    run = Run(graph)
    started, todo = [], list(run.begin())
    while todo:
        command = next((c for c in todo if not (isinstance(c, commands.Start) and c.node == last)), todo[0])
        todo.remove(command)
        match command:
            case commands.Start():
                started.append(command.node)
                todo += run.handle(events.Finished(command.node, command.attempt))
            case commands.Save():
                todo += run.handle(events.Saved(command.node, command.part, command.attempt))
        yield started, last in started


@pytest.mark.parametrize("shape", shapes.WAITING)
def test_a_task_waits_although_a_weaker_rule_would_let_it_start(shape):
    given = shape()
    for started, done in drive(given.graph, given.until):
        assert done or given.waiting not in started
    assert given.waiting in started


@pytest.mark.parametrize("shape", shapes.UNSAFE)
def test_a_task_that_would_wait_for_ever_is_refused_before_the_run(shape):
    with pytest.raises(UnsafeGraph):
        check(shape())


def test_two_tasks_that_wait_for_each_other_are_both_named():
    with pytest.raises(UnsafeGraph) as refused:
        check(shapes.mutual_wait())
    assert {"n1", "n2"} <= set(refused.value.blocked)


@pytest.mark.parametrize("shape", shapes.WAITING)
def test_many_schedules_of_a_shape_obey_the_law(shape):
    graph = shape().graph
    for seed in range(600):
        play_graph(graph, Random(seed))


def test_many_sagas_keep_what_something_irrevocable_stands_on():
    graph = shapes.kept_neighbour()
    for seed in range(1_500):
        play_graph(graph, Random(seed))


@pytest.mark.parametrize("shape", shapes.WAITING)
@pytest.mark.parametrize("seed", range(3))
def test_every_single_loss_at_every_step_of_a_schedule_is_survived(shape, seed):
    """Not at random: after each step of a calm schedule once each output in memory is lost, once all of them, and once
    the engine."""
    graph = shape().graph
    whole = calm(graph, seed)
    while whole.step():
        pass
    for steps in range(1, whole.steps):
        for loss in range(len(graph) + 2):
            simulation = calm(graph, seed)
            for _ in range(steps):
                simulation.step()
            lose(simulation, loss)
            while simulation.step():
                pass
            assert simulation.driver.run.status == "succeeded"


def calm(graph, seed):
    simulation = Simulation(graph, Random(seed), faults=0)
    simulation.begin()
    return simulation


def lose(simulation, loss):
    driver = simulation.driver
    in_memory = [(id, 0) for id, row in driver.rows.items() if row.memory]
    nodes = driver.graph.nodes
    if driver.over is not None or loss > len(nodes):
        simulation.crash()
    elif loss == len(nodes):
        driver.lose(in_memory, [attempt for attempt in driver.active if attempt.state == "running"])
    else:
        driver.lose([part for part in in_memory if part[0] == nodes[loss].id], [])
    driver.checker.after_step(driver)
