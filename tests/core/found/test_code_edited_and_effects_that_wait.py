"""Found by reading: effects that wait for a task whose code was edited, and forks that were joined long ago."""

import pytest

from onceflow.core import events
from onceflow.errors import BrokenPromise
from onceflow.testing.simulation.notation import graph
from tests.core.building import Drive


def test_a_long_chain_does_not_remember_the_forks_that_were_joined():
    """Each row that ever stood aside was kept until the run's sink was settled."""
    drive = Drive(graph("s kept; z kept s"))
    drive.begin()
    prefix = "s"
    node = "s"
    for turn in range(2, 6):
        drive.complete(node, graph=graph("c kept,aside; j kept; s kept j", sink="s"))
        drive.complete(f"{prefix}/c")
        join = f"{prefix}/j"
        drive.tell(events.Finished(join, drive.running.pop(join), joined=(f"{prefix}/c",)))
        drive.save(join)
        node, prefix = f"{prefix}/s", f"s~{turn}"
    assert not drive.run._aside
    assert drive.play().status == "succeeded"


CIRCLES = {
    "it waits for whom it is settled with": (
        "x pure; w kept; d kept x; n default d w; q kept after:x n; z kept q",
        "x d",
    ),
    "through one that is not saved": (
        "x pure; w kept; d kept x; n default d w; p pure after:x; q kept p n; z kept q",
        "x d",
    ),
    "below one that is not saved": ("x pure; c kept x; w kept; d pure after:x w; n default d; z kept c n", "x c"),
    "an undoable one": ("x pure; d pure x; w kept; c kept d; u undoable after:d w; z kept u c", "x d c"),
}


@pytest.mark.parametrize("name", CIRCLES)
def test_what_keeps_effects_waiting_runs_by_the_new_code(name):
    """stuck n: waits for d"""
    tasks, done = CIRCLES[name]
    drive = Drive(graph(tasks))
    drive.begin()
    drive.complete(*done.split())
    loaded = drive.reload(changed=["x"])
    loaded.begin()
    assert loaded.play().status == "succeeded"


@pytest.mark.parametrize("effect", ["undoable", "writer"])
def test_what_waits_for_its_delay_and_then_for_a_task_has_it_run_by_the_new_code(effect):
    """stuck n: waits for x"""
    drive = Drive(graph(f"x pure; c kept x; n {effect},retries=1 after:x; z kept c n"))
    drive.begin()
    drive.finish("x")
    drive.complete("c")
    drive.raises("n")
    if effect == "undoable":
        drive.undone("n")
    loaded = drive.reload(changed=["x"])
    loaded.begin()
    assert loaded.play().status == "succeeded"


def test_who_waits_below_an_unsaved_task_does_not_wait_for_the_rest_of_the_run():
    """`w` may be a wait for an event, which `n` brings about."""
    drive = Drive(graph("x pure; c kept x; w kept; d pure after:x; n default d; z kept c n w"))
    drive.begin()
    drive.finish("x")
    drive.complete("c")
    loaded = drive.reload(_before_begun(drive), changed=["x"])
    assert "start x" in loaded.begin()


def test_a_promise_that_only_what_waits_for_its_delay_and_reads_nothing_would_break_is_noticed_when_the_run_is_loaded():
    """RunStuck when the delay was over"""
    drive = Drive(graph("x pure; c kept x; n default,retries=1 after:x; z kept c n"))
    drive.begin()
    drive.finish("x")
    drive.complete("c")
    drive.raises("n")
    with pytest.raises(BrokenPromise):
        drive.reload(changed=["x"]).begin()


def _before_begun(drive):
    return next((at for at, record in enumerate(drive.journal) if type(record).__name__ == "Begun"), None)
