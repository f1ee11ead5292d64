"""Found by thinking: what a load concludes from records that outlive what they were about."""

import pytest

from onceflow.core.model import events
from onceflow.core.rules.recovery import EFFORT_TRIES
from onceflow.core.run import Run
from tests.core.building import Drive
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import Player, play_script
from tests.tools.simulation.story import Story


def test_a_graph_whose_handled_member_was_dropped_is_trusted_again():
    """BrokenPromise: the journal was told not to trust e, because of what a handler gave in its graph; that is gone."""
    play_script(
        graph("e pure; n default e", returning={"e": [graph("x pure; s pure x")]}),
        """
        finish e
        answer e/x
        lose e/x.0
        finish e/x
        finish e/s
        land n
        commit
        crash
        """,
    )


CANCELLED_LATE = """
    finish u
    save u.0
    finish t
    save t.0
    finish t/v
    save t/v.0
    fail t/f for good
    {}
    cancel with undo
    {}
"""


@pytest.mark.parametrize("crash", ["", "commit\ncrash"])
def test_who_cancels_while_a_transaction_is_taken_back_has_the_rest_undone_as_well(crash):
    """The run said that it keeps u, on which nothing stands."""
    status = play_script(
        graph("u undoable; t kept,transaction; z kept u t", returning={"t": [graph("v undoable; f kept v")]}),
        CANCELLED_LATE.format(crash, crash),
    )
    assert status == "undone"


def test_a_run_that_waited_for_a_person_and_went_on_does_not_wait_after_a_crash():
    """It was p that could not be made again for the undo of u, and nothing said that this was over."""
    before = Drive(graph("p pure; u undoable p; z kept u"))
    before.begin()
    before.finish("p", small=False)
    drive = before.reload()
    drive.begin()
    for _ in range(EFFORT_TRIES - 1):
        drive.tell(events.Raised("p", drive.rebuilding.pop("p")))
        drive.elapse("p")
    drive.tell(events.Raised("p", drive.rebuilding.pop("p")))
    assert drive.status == drive.reload().status == "parked"
    drive.tell(events.RetryUndo("p"))
    drive.finish_rebuilding("p")
    drive.undone("u")
    assert drive.status == drive.reload().status == "running"


def test_failures_of_graphs_are_counted_from_zero_when_a_run_is_resumed():
    """As those of tasks are; and nothing waits for the delay of a failure that is past."""
    drive = Drive(graph("a kept; z kept a"))
    drive.begin()
    drive.complete("a", graph=graph("x kept; y kept x"))
    drive.ends("a/x", 1, again=True)
    drive.elapse("a")
    drive.raises("a/x", permanent=True)
    assert drive.status == "failed"
    again = drive.reload()
    again.begin()
    again.tell(events.Resume())
    assert again.running.keys() == {"a/x"}
    assert again.run.rows["a/x"].scope.failures == 0
    assert not again.waits


def test_a_transaction_in_a_chain_is_taken_back_though_a_crash_took_the_graph_in_which_something_failed():
    """The innermost graph that is known is that of the transaction, not the first one of the chain."""
    inner = graph("u undoable; t kept u", returning={"t": [graph("x kept")]})
    driver = Driver(
        graph("a kept; z kept a", returning={"a": [graph("s kept,transaction", returning={"s": [inner]})]}),
        Run,
        "keep",
        True,
        Checker(),
        Story(),
    )
    steps = """
        finish a
        save a.0
        finish a/s
        save a/s.0
        finish a~2/u
        save a~2/u.0
        finish a~2/t
        fail a~3/x for good
        commit
        crash
    """
    assert Player(driver).play(steps.strip().splitlines()) == "failed"
    assert not driver.world.undoable


def test_an_effect_whose_graph_a_crash_took_writes_no_done_record_any_more():
    """nothing is left to do, but the run is running: `b/c/b` waited for `b/a`, which `b/d` waits for as well. Because
    others only wait for `b/a`, the check took it to be recorded as done."""
    inner = graph(
        "a undoable,unsaved; b kept,parts=2 after:a; c kept b; d kept after:a c; e kept d",
        returning={"a": [graph("b loose")], "c": [graph("b default")]},
    )
    play_script(
        graph("b kept; c kept b", returning={"b": [inner]}),
        """
        finish b
        save b.0
        finish b/a
        finish b/a/b
        finish b/b
        save b/b.1
        commit
        crash
        """,
    )


def test_who_only_waits_for_an_effect_that_others_read_does_not_count_as_a_reader():
    """Refuse(node='d/a/child0', error=UnsafeGraph(...)), but the law allows that graph: `d/a/b` takes what is in
    `d/a/a`, which `d/a/child0` only waits for."""
    forking = graph(
        "a undoable,unsaved; b kept takes:a; c kept b; child0 kept after:a b; fork0 kept,aside child0; "
        "child1 default b; fork1 kept,aside child1",
        sink="c",
        returning={"child0": [graph("b kept")]},
    )
    around = graph("a kept; e kept a", returning={"a": [forking]})
    play_script(graph("d kept; h kept d", returning={"d": [around]}), "")
