"""Found by reading: what a handler gave in a graph that a crash took, effects that had begun before it, and what was
abandoned before it was saved."""

import pytest

from onceflow.errors import BrokenPromise
from tests.core.building import Drive
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script

PAIR = graph("x pure; y pure x")


@pytest.mark.parametrize(
    ("made", "script"),
    [
        (
            graph("e pure; s kept e; n default after:e s; z kept n", returning={"e": [PAIR]}),
            "finish e / answer e/x / finish e/y / finish s / save s.0 / commit / crash",
        ),
        (
            graph(
                "e pure,saved; z kept e",
                returning={"e": [graph("i pure; s kept i; n default after:i s; k kept n", returning={"i": [PAIR]})]},
            ),
            (
                "finish e / finish e/i / answer e/i/x / save e.0 / finish e/i/y / finish e/s / save e/s.0 / commit / "
                "crash"
            ),
        ),
    ],
    ids=["the task itself is known", "it is known when the graph around it is saved"],
)
@pytest.mark.parametrize("validate", [True, False])
def test_a_task_in_whose_graph_a_handler_answered_is_still_to_be_saved_after_a_crash(made, script, validate):
    """stuck n: waits for e, which counted as nondeterministic, and was not to be saved any more."""
    assert play_script(made, script.replace(" / ", "\n"), validate=validate) == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
def test_a_task_whose_graph_is_saved_is_trusted_whatever_was_handled_in_the_graph(validate):
    """`e/x` has run after all, and the ref in `e` is lost. The recovery took `s` as well, which nothing required."""
    made = graph("e pure; s kept e; f kept after:e s; z kept s f", returning={"e": [PAIR]})
    script = (
        "finish e holding new / answer e/x / save e.0 / lose e/x.0 / finish e/x / finish e/y / finish s / save s.0 / "
        "commit / crash"
    )
    assert play_script(made, script.replace(" / ", "\n"), validate=validate) == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
def test_what_reads_an_abandoned_output_that_was_lost_before_it_was_saved_is_stood_on(validate):
    """`n` stands on `e/w`, which nobody can make again, hence on `e/c` and `e/u`: but `e/u` was undone."""
    inner = graph("w writer,deterministic; u undoable; c kept,aside w u; k kept; s kept w k")
    script = (
        "finish e / save e.0 / finish e/u / save e/u.0 / finish e/w / answer e/k for 1 / lose e/w.0 / save e/s.0 / "
        "finish n / fail z for good"
    )
    made = graph("e kept; n default e; z kept n", returning={"e": [inner]})
    assert play_script(made, script.replace(" / ", "\n"), on_failure="undo", validate=validate) == "failed"


def test_a_promise_that_only_what_is_about_to_be_dropped_would_break_is_noticed_when_the_run_is_loaded():
    """BrokenPromise only when T/u was undone: then T/d, which is dropped with it, needs T/p again."""
    drive = Drive(graph("T kept,transaction; z kept T"))
    drive.begin()
    inner = graph("p pure; c kept p; n default c; u undoable; d kept p u; k kept; f kept n d; s kept f k")
    drive.complete("T", graph=inner)
    drive.finish("T/p")
    drive.complete("T/c", "T/n", "T/u", "T/d")
    assert "+recovering T/d T/u" in drive.ends("T/f", 1, again=True)
    with pytest.raises(BrokenPromise):
        drive.reload(changed=["T/p"]).begin()
    assert drive.reload().begin() == ["undo T/u with output"]


def test_a_promise_that_only_what_is_to_be_saved_in_a_graph_that_waits_would_break_is_noticed_when_the_run_is_loaded():
    """BrokenPromise only when the delay of the graph was over: then e/p runs again because it was lost before it was
    saved."""
    drive = Drive(graph("e kept; z kept e"))
    drive.begin()
    inner = graph("p pure,saved; c kept p; n default c; w kept; k kept after:p w; f kept; s kept n k f")
    drive.complete("e", graph=inner)
    drive.finish("e/p")
    drive.complete("e/c", "e/n")
    assert "+again e" in drive.ends("e/f", 1, again=True)
    with pytest.raises(BrokenPromise):
        drive.reload(changed=["e/p"]).begin()
    assert drive.reload().begin() == ["wait e 1"]


@pytest.mark.parametrize("is_raised", [True, False])
def test_what_has_begun_is_repeated_although_what_it_builds_on_was_edited_and_is_not_settled(is_raised):
    """stuck n: waits for c, which is settled with p, which is settled when k is saved, which waits for n."""
    drive = Drive(graph("p pure; c kept p; n default,retries=1 c; k kept after:p n; z kept k"))
    drive.begin()
    drive.finish("p")
    drive.complete("c")
    if is_raised:
        drive.raises("n")
    loaded = drive.reload(changed=["p"])
    assert loaded.begin() == ["wait n 1" if is_raised else "start! n"]
    assert loaded.play().status == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
def test_a_task_need_not_be_saved_after_a_crash_if_what_was_handled_in_its_graph_was_dropped(validate):
    """the recovery takes ('e', 's'), which nothing requires: `e/w` is nondeterministic, so `e` was not trusted again"""
    made = graph(
        "e pure; s kept e; f kept after:e s; z kept s f", returning={"e": [graph("x pure; w loose; y pure x w")]}
    )
    script = (
        "finish e / answer e/x / lose e/x.0 / finish e/w / finish e/x / finish e/y / finish s / save s.0 / commit / "
        "crash"
    )
    assert play_script(made, script.replace(" / ", "\n"), validate=validate) == "succeeded"
