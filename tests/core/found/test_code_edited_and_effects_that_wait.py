"""Found by reading: effects that wait for a task whose code was edited, and forks that were joined long ago."""

import pytest

from onceflow.core.model import events
from onceflow.errors import BrokenPromise
from tests.core.building import Drive
from tests.tools.simulation.notation import graph


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
    assert not drive.run.aside
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


@pytest.mark.parametrize("effect", ["default", "writer"])
def test_who_waits_below_an_unsaved_task_does_not_wait_for_the_rest_of_the_run(effect):
    """`w` may be a wait for an event, which `n` brings about."""
    drive = Drive(graph(f"x pure; c kept x; w kept; d pure after:x; n {effect} d; z kept c n w"))
    drive.begin()
    drive.finish("x")
    drive.complete("c")
    loaded = drive.reload(_before_begun(drive), changed=["x"])
    assert "start x" in loaded.begin()


def test_what_has_begun_and_only_waits_for_edited_code_is_repeated_when_its_delay_is_over():
    """RunStuck when the delay was over"""
    drive = Drive(graph("x pure; c kept x; n default,retries=1 after:x; z kept c n"))
    drive.begin()
    drive.finish("x")
    drive.complete("c")
    drive.raises("n")
    loaded = drive.reload(changed=["x"])
    assert loaded.begin() == ["wait n 1"]
    assert loaded.elapse("n") == ["start! n"]
    assert loaded.play().status == "succeeded"
    assert "x" not in loaded.attempts


def test_what_has_begun_is_repeated_also_where_it_waits_for_edited_code_directly():
    """Resuming was refused."""
    drive = Drive(graph("x pure; n default after:x; z kept n"))
    drive.begin()
    drive.finish("x")
    loaded = drive.reload(changed=["x"])
    assert loaded.begin() == ["start! n"]
    assert loaded.play().status == "succeeded"


def test_an_effect_that_is_durable_without_a_save_is_not_asked_for_again():
    """Resuming was refused: `m` may start by the *done* record of `d`, and does not wait for `x`."""
    drive = Drive(
        graph(
            "x pure; c kept x; n default c; d undoable,unsaved after:x; k kept; m undoable after:d k; q kept after:x k;"
            "z kept n m q"
        )
    )
    drive.begin()
    drive.finish("x")
    drive.complete("c")
    drive.finish("d")
    drive.complete("n")
    loaded = drive.reload(changed=["x"])
    assert loaded.begin() == ["start k"]
    assert loaded.play().status == "succeeded"


def test_nor_is_it_taken_back():
    drive = Drive(
        graph("x pure; d undoable,unsaved after:x; k kept; m undoable after:d k; q kept after:x k; z kept m q")
    )
    drive.begin()
    drive.finish("x", "d")
    loaded = drive.reload(changed=["x"])
    assert loaded.begin() == ["start k"]
    assert loaded.play().status == "succeeded"


def test_a_graph_that_waits_for_what_was_edited_is_safe_because_that_runs_by_the_new_code():
    """It was refused, again and again."""
    drive = Drive(graph("x pure; c kept x; e kept c; z kept after:x e"))
    drive.begin()
    drive.finish("x")
    drive.complete("c")
    loaded = drive.reload(changed=["x"])
    loaded.begin()
    loaded.finish("e", graph=graph("n default"))
    assert loaded.play().status == "succeeded"
    assert loaded.attempts["x"]


def test_what_was_undone_and_only_waits_for_edited_code_has_it_run_while_others_run():
    drive = Drive(graph("x pure; u undoable after:x; w kept; z kept u w"))
    drive.begin()
    drive.finish("x")
    loaded = drive.reload(changed=["x"])
    assert loaded.begin() == ["+recovering u x", "undo u"]
    assert loaded.undone("u")[-2:] == ["start x", "start w"]


def test_edited_code_does_not_run_for_what_waits_for_a_save_only():
    drive = Drive(graph("x pure; s kept x; c kept after:x; n default c; z kept n s"))
    drive.begin()
    drive.complete("x", "s")
    loaded = drive.reload(changed=["x"])
    assert loaded.begin() == ["start c"]
    assert loaded.complete("c") == ["save c", "+saved c", "release x", "+begun n", "start! n"]


def test_a_promise_that_an_effect_would_break_in_a_graph_that_is_to_be_tried_again_is_noticed_when_the_run_is_loaded():
    """`n` needs `x` by the new code when the delay is over, and `m` was built on what the old one gave."""
    drive = Drive(graph("e kept; z kept e"))
    drive.begin()
    drive.complete("e", graph=graph("x pure; c kept x; m default c; k kept; n default after:x k; t kept m n"))
    drive.finish("e/x")
    drive.complete("e/c", "e/m")
    assert drive.ends("e/k", 1, again=True) == ["+again e", "wait e 1"]
    with pytest.raises(BrokenPromise):
        drive.reload(changed=["e/x"]).begin()


def test_an_effect_that_has_been_had_waits_for_nothing():
    drive = Drive(graph("x pure; u undoable after:x; k kept; q kept after:x k; z kept u q"))
    drive.begin()
    drive.complete("x", "u")
    assert drive.reload(changed=["x"]).begin() == ["start k"]


def test_what_is_settled_breaks_no_promise_and_never_runs_by_the_new_code():
    """It is not saved, but what has read it is. (It is remembered, because an undo of `u` would read it.)"""
    drive = Drive(graph("a pure,saved; s kept a; n default s; u undoable a; z kept n u"))
    drive.begin()
    drive.finish("a", small=False)
    drive.complete("s", "u")
    loaded = drive.reload(changed=["a"])
    assert loaded.begin() == ["start! n"]
    assert loaded.play().status == "succeeded"
    assert "a" not in loaded.attempts


def test_nor_does_it_in_a_run_that_is_stuck():
    """`n` waits for `q`, which was safe only thanks to what a handler gave for `p` (test_ending_stuck_corners)."""
    drive = Drive(graph("e pure,saved; s kept e; u undoable e; a loose; p pure a; q kept a; c kept p q; z kept s u c"))
    drive.begin()
    drive.finish("e", small=False)
    drive.complete("s", "u")
    drive = drive.reload(changed=["e"])
    drive.begin()
    drive.finish("a")
    drive.handle("p")
    drive.complete("q", graph=graph("n default"))
    drive.lose("p")
    assert "stuck q/n: waits for q" in drive.finish("p")


def _before_begun(drive):
    return next((at for at, record in enumerate(drive.journal) if type(record).__name__ == "Begun"), None)
