"""Found by reading `core`: refs, rebuilding, trust and recovery."""

import pytest

from onceflow.core.model import events
from onceflow.core.model.records import Trusted
from onceflow.errors import BrokenPromise
from tests.core.building import Drive
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_a_saved_actor_in_a_graph_that_has_ended_is_still_there_after_a_taker_was_rebuilt_for_an_undo():
    """private L/p#… is rebuilt privately, but is not repeatable"""
    play_script(
        graph(
            "n loose; w kept; k kept n w; L kept n; z kept L k",
            returning={"L": [graph("p kept; q pure takes:p; u2 undoable p; u undoable q u2; y kept u; v kept y")]},
        ),
        """
        finish n
        finish L
        save L.0
        finish L/p holding actor large
        save L/p.0
        save L/p.1
        finish L/u2
        save L/u2.0
        finish L/q large
        finish L/u
        save L/u.0
        expire L/y at 1
        save L/v.0
        lose L/q.0
        cancel with undo
        """,
    )


def _after_an_edit():
    """`p` is edited after it was started, runs by its new code, and `i`, which cannot be taken back, begins on it."""
    drive = Drive(graph("p pure; i default p; s kept i"))
    drive.begin()
    drive = drive.reload(changed=["p"])
    drive.begin()
    drive.finish("p")
    return drive


def test_a_run_whose_code_was_edited_can_be_loaded_more_than_once():
    """BrokenPromise: 'i' is irrevocable and has begun, but 'p', which it builds on, would have to run again"""
    assert _after_an_edit().reload(changed=["p"]).begin() == ["start p"]


def test_code_that_was_edited_and_restored_is_not_what_the_task_ran_by():
    with pytest.raises(BrokenPromise, match="'p', which it builds on"):
        _after_an_edit().reload().begin()


def test_what_was_saved_by_other_code_and_dropped_has_run_by_the_present_code():
    drive = Drive(graph("n loose; w kept; p pure,saved n; k kept n w; i default p k"))
    drive.begin()
    drive.finish("n")
    drive.finish("p")
    drive.save("p")
    drive = drive.reload(changed=["p"])
    drive.begin()
    drive.finish("w")
    drive.finish("n")
    drive.finish("p")
    assert [record for record in drive.journal if isinstance(record, Trusted)] == [Trusted("p", "edited")]


def test_a_promise_that_only_what_waits_for_its_delay_would_break_is_noticed_when_the_run_is_loaded():
    """`d` needs `p` again, by other code, when its delay is over, and `n` was built on what `p` gave."""
    drive = Drive(graph("p pure; c kept p; n default c; d kept,retries=2 p; s kept n d"))
    drive.begin()
    drive.finish("p", "c")
    drive.save("c")
    drive.raises("d")
    with pytest.raises(BrokenPromise):
        drive.reload(changed=["p"]).begin()
    assert "+cancelled" in drive.reload(changed=["p"], asleep=True).cancel()


def test_an_undo_is_not_given_what_edited_code_makes():
    drive = Drive(graph("p pure; u undoable p; d kept p; s kept u d"))
    drive.begin()
    drive.finish("p", small=False)
    drive.complete("u")
    edited = drive.reload(changed=["p"])
    assert "start p privately" not in edited.begin()
    assert edited.status == "parked"

    still_edited = edited.reload(changed=["p"])
    still_edited.begin()
    still_edited.tell(events.RetryUndo("p"))
    assert still_edited.status == "parked"

    restored = edited.reload()
    restored.begin()
    assert "start p privately" in restored.tell(events.RetryUndo("p"))
    restored.finish_rebuilding("p")
    assert restored.play().status == "succeeded"


def test_a_broken_promise_does_not_keep_a_run_from_being_cancelled():
    drive = Drive(graph("p pure; c kept p; n default c; d kept p; s kept n d"))
    drive.begin()
    drive.finish("p")
    drive.complete("c")
    drive.cancel()
    drive = drive.reload(changed=["p"])
    drive.begin()
    assert drive.status == "cancelled"


def test_a_promise_may_be_broken_that_nobody_asks_after():
    """What is done does not read `p` again, and `k` only waits for it. `n` had begun, and is repeated."""
    drive = Drive(graph("p pure; c kept p; n default c; k kept after:p; s kept n k"))
    drive.begin()
    drive.finish("p")
    drive.complete("c")
    assert drive.reload(changed=["p"]).begin() == ["start k", "start! n"]


def test_a_promise_that_restored_code_breaks_is_noticed_when_the_run_is_loaded():
    """`p` ran by code that was edited, and is restored: `n` was built on what it gave, and `d` needs it later."""
    drive = Drive(graph("p pure; c kept p; n default c; d kept,retries=2 p; s kept n d"))
    drive.begin()
    drive = drive.reload(changed=["p"])
    drive.begin()
    drive.finish("p", "c")
    drive.save("c")
    drive.raises("d")
    with pytest.raises(BrokenPromise):
        drive.reload().begin()


@pytest.mark.parametrize("tasks", ["s kept after:x; n default after:x s", "s kept x; n undoable after:x s"])
def test_who_only_waits_for_a_task_waits_until_it_has_run_by_the_new_code(tasks):
    """stuck n: waits for x s"""
    drive = Drive(graph(f"x pure; {tasks}; z kept n"))
    drive.begin()
    drive.finish("x")
    drive.finish("s")
    journal = len(drive.journal)
    drive.save("s")
    loaded = drive.reload(journal + 1, changed=["x"])
    assert "start x" in loaded.begin()
    assert loaded.play().status == "succeeded"
