"""Runs rebuilt from their journal (design 2.5, 2.6): what they do first, how they go on, and when they refuse to."""

import pytest

from onceflow.core.model import events, records
from onceflow.core.rules import recovery
from onceflow.core.run import Run
from onceflow.errors import BrokenPromise
from tests.core.building import Drive, begun, graph

DEEP = "a loose; u undoable; s kept a; v undoable s u; w undoable v; k kept; l pure k; z kept a w l"


# -- what the first answer is ----------------------------------------------------------------------------------------


def test_an_empty_journal_is_a_new_run():
    drive = begun("a pure; n default; z kept a n")
    assert drive.reload(0).begin() == ["start a", "+begun n", "start! n"]


def test_saved_nodes_do_not_run_again():
    drive = begun("a kept; b pure a; c kept b; z kept c", "a", "b", "c")
    assert drive.reload().begin() == ["start z"]


def test_an_unsaved_pure_node_runs_again_only_if_somebody_needs_it():
    drive = begun("a pure; b kept a; k kept; z kept a b k", "a", "b")
    assert sorted(drive.reload().begin()) == ["start a", "start k"]
    drive = begun("a pure; b kept a; k kept; z kept b k", "a", "b")
    assert drive.reload().begin() == ["start k"]


def test_a_begun_irrevocable_task_is_repeated_with_the_same_begun_record():
    drive = begun("a kept; n default a; z kept n", "a")
    assert drive.reload().begin() == ["start! n"]


def test_a_begun_undoable_task_is_undone_before_it_is_repeated():
    drive = begun("a kept; u undoable a; z kept u", "a")
    again = drive.reload()
    assert again.begin() == ["undo u"]
    assert again.undone("u") == ["+undone u", "+begun u", "start! u"], "what is saved need not be carried"


def test_an_undo_after_a_crash_finds_small_inputs_in_the_begun_record_and_large_ones_are_rebuilt():
    drive = begun("a pure; u undoable a; z kept u", "a")
    assert set(drive.reload().begin()) == {"undo u", "start a"}
    drive = begun("a pure; u undoable a; z kept u")
    drive.finish("a", small=False)
    again = drive.reload()
    assert set(again.begin()) == {"start a", "start a privately"}
    assert again.finish_rebuilding("a") == ["undo u"]
    assert again.play().status == "succeeded"


def test_a_saved_descendant_of_a_lost_nondeterministic_node_is_dropped_if_that_is_needed_again():
    drive = begun("a loose; s kept a; k kept; z kept a s k", "a", "s")
    answer = drive.reload().begin()
    assert answer[:2] == ["+recovering a s", "+dropped a s"]
    assert sorted(answer[2:]) == ["drop a", "drop s", "start a", "start k"]


def test_a_saved_descendant_stays_if_nobody_needs_the_lost_node_again():
    drive = begun("a loose; s kept a; k kept; z kept s k", "a", "s")
    again = drive.reload()
    assert again.begin() == ["start k"]
    assert {"a", "s"} <= again.settled


def test_a_partly_saved_output_is_made_again():
    drive = begun("a kept,parts=2; z kept a")
    drive.finish("a")
    drive.save("a.1")
    assert drive.reload().begin() == ["+recovering a", "+dropped a", "drop a", "start a"]


def test_attempts_of_a_loaded_run_carry_its_epoch_and_older_ones_are_late():
    drive = begun("a pure; n default; z kept a n")
    again = drive.reload()
    again.begin()
    for node in ("a", "n"):
        old = drive.running[node]
        assert again.running[node] > old
        assert again.tell(events.Finished(node, old)) == []
        assert again.tell(events.Raised(node, old, permanent=True)) == []
        assert again.tell(events.Saved(node, 0, old)) == []
        assert again.tell(events.Ended(node, old)) == []
    assert again.states() == {"a": "running", "n": "running", "z": "waiting"}


# -- in the middle of things -----------------------------------------------------------------------------------------


def test_a_recovery_goes_on_where_it_was():
    drive = begun(DEEP, "a", "u", "s", "v", "w")
    drive.lose("a")
    drive.undone("w")
    again = drive.reload()
    assert again.begin() == ["undo v with output"]
    assert again.status == "undoing"
    answer = again.undone("v")
    assert answer[:2] == ["+undone v", "+dropped a s v w"]
    assert {"start a", "start k"} <= set(answer)


def test_a_recovery_of_which_only_the_drop_is_missing_drops_at_once():
    drive = begun(DEEP, "a", "u", "s", "v", "w")
    drive.lose("a")
    drive.undone("w")
    drive.undone("v")
    dropped = next(n for n, record in enumerate(drive.journal) if isinstance(record, records.Dropped))
    assert drive.reload(dropped).begin()[0] == "+dropped a s v w"


def test_a_saga_goes_on_where_it_was():
    drive = begun("u undoable; v undoable u; f kept v; z kept f", "u", "v", on_failure="undo")
    drive.raises("f")
    drive.undone("v")
    again = drive.reload()
    assert again.begin() == ["undo u with output"]
    assert again.undone("u")[-1] == "finish undone failed=f"


def test_a_saga_whose_failure_is_all_that_is_known_undoes_everything():
    drive = begun("u undoable; v undoable; f kept v; z kept u f", "v", on_failure="undo")
    drive.raises("f")
    again = drive.reload()
    assert again.begin() == ["undo u"]
    again.undone("u")
    assert again.undone("v")[-1] == "finish undone failed=f"


def test_a_cancelled_run_starts_nothing_and_reports_what_may_have_happened():
    drive = begun("n default; k kept; z kept n k")
    drive.cancel()
    assert drive.reload().begin() == ["+finished cancelled", "finish cancelled uncertain=n"]


def test_a_failed_run_that_had_not_said_so_says_it():
    drive = begun("k kept; f kept; z kept k f")
    drive.raises("f")
    assert drive.reload().begin() == ["+finished failed", "finish failed failed=f"]


def test_a_backoff_goes_on_with_the_count_of_failures():
    drive = begun("a kept,retries=2; z kept a")
    drive.raises("a")
    drive.elapse("a")
    drive.raises("a")
    again = drive.reload()
    assert again.begin() == ["wait a 2"]
    assert again.elapse("a") == ["start a"]
    assert again.raises("a")[0] == "+failed a 3 final"


def test_a_backoff_of_an_undoable_task_begins_after_its_undo():
    drive = begun("u undoable,retries=1; z kept u")
    drive.raises("u")
    again = drive.reload()
    assert again.begin() == ["undo u"]
    assert again.undone("u") == ["+undone u", "wait u 1"]
    assert again.elapse("u") == ["+begun u", "start! u"]


def test_undos_wait_for_attempts_that_still_straggle():
    drive = begun("u undoable; z kept u")
    again = drive.reload(straggling={"u": drive.running["u"]})
    assert again.begin() == []
    assert again.end("u") == ["undo u"]


def test_a_straggler_of_another_kind_holds_nothing_back():
    drive = begun("a pure; n default; z kept a n")
    assert set(drive.reload(straggling=dict(drive.running)).begin()) == {"start a", "start! n"}


# -- resuming --------------------------------------------------------------------------------------------------------


def test_a_loaded_run_that_is_over_does_nothing_until_it_is_resumed():
    drive = begun("k kept; f kept; z kept k f", "k")
    drive.raises("f")
    again = drive.reload()
    assert again.begin() == []
    assert again.status == "failed"
    assert again.tell(events.Resume()) == ["+resumed", "start f"]
    assert again.play().status == "succeeded"


def test_resuming_counts_failures_from_zero_again():
    drive = begun("f kept,retries=1; z kept f")
    drive.raises("f")
    drive.elapse("f")
    drive.raises("f")
    again = drive.reload()
    again.begin()
    assert again.tell(events.Resume()) == ["+resumed", "start f"]
    assert again.raises("f") == ["+failed f 1", "wait f 1"]


def test_an_undone_run_starts_its_undone_tasks_afresh():
    drive = begun("u undoable; t kept; f kept u t; z kept f", "u", "t", on_failure="undo")
    drive.raises("f")
    drive.undone("u")
    again = drive.reload()
    again.begin()
    assert again.tell(events.Resume()) == ["+resumed", "+begun u", "start! u"]
    assert again.run.undos["u"] == 1
    assert again.play().status == "succeeded"


def test_a_cancelled_run_may_be_resumed():
    drive = begun("a kept; n default a; z kept n", "a")
    drive.cancel()
    drive.complete("n")
    again = drive.reload()
    again.begin()
    assert again.tell(events.Resume()) == ["+resumed", "start z"]


def parked():
    drive = begun("u undoable; k kept; z kept u k")
    drive.lose(attempts="u")
    drive.end("u")
    for _ in range(recovery.EFFORT_TRIES):
        drive.undo_fails("u")
        if drive.waits:
            drive.elapse("u")
    assert drive.status == "parked"
    again = drive.reload()
    assert again.begin() == []
    assert again.status == "parked"
    return again


def test_a_parked_run_stays_parked_until_it_is_resumed():
    drive = parked()
    assert sorted(drive.tell(events.Resume())) == ["+resumed", "start k", "undo u"]
    assert drive.play().status == "succeeded"


def test_a_parked_run_goes_on_when_its_undo_is_to_be_tried_again():
    drive = parked()
    assert sorted(drive.tell(events.RetryUndo("u"))) == ["start k", "undo u"]
    assert drive.play().status == "succeeded"


def test_a_parked_run_that_is_loaded_may_be_cancelled():
    drive = parked()
    assert "+cancelled" in drive.cancel()
    assert drive.play().status == "cancelled"


def test_a_failed_run_that_parked_and_is_loaded_goes_on_with_its_undo_when_it_is_cancelled():
    # given
    drive = begun("u undoable; f kept u; z kept f", "u", on_failure="undo")
    drive.raises("f")
    while drive.undos:
        drive.undo_fails("u")
        if drive.waits:
            drive.elapse("u")
    again = drive.reload()
    again.begin()
    assert again.status == "parked"
    # then
    assert again.cancel() == ["undo u with output"]
    assert again.undone("u")[-1] == "finish undone failed=f"


def test_a_resumed_run_can_be_loaded_again():
    drive = begun("k kept; f kept; z kept k f", "k")
    drive.raises("f")
    again = drive.reload()
    again.begin()
    again.tell(events.Resume())
    third = again.reload()
    assert third.begin() == ["start f"]
    assert third.run.epoch == 3


# -- changed code ----------------------------------------------------------------------------------------------------


def test_an_unsaved_node_whose_code_changed_counts_as_nondeterministic():
    drive = begun("a pure; s kept a; k kept; z kept a s k", "a", "s")
    assert sorted(drive.reload().begin()) == ["start a", "start k"]
    answer = drive.reload(changed=["a"]).begin()
    assert answer[:2] == ["+recovering a s", "+dropped a s"]


def test_a_saved_node_whose_code_changed_stays_as_it_is():
    drive = begun("a kept; s kept a; k kept; z kept a s k", "a", "s")
    assert drive.reload(changed=["a", "s"]).begin() == ["start k"]


def test_changed_code_that_nobody_needs_again_does_no_harm():
    drive = begun("a pure; n default a; k kept; z kept n k", "a", "n")
    assert drive.reload(changed=["a"]).begin() == ["start k"]


def test_changed_code_below_which_something_irrevocable_has_begun_is_refused():
    drive = begun("a pure; n default a; z kept n", "a")
    again = drive.reload(changed=["a"])
    with pytest.raises(BrokenPromise) as caught:
        again.begin()
    assert (caught.value.node, caught.value.cause) == ("n", "a")


def test_a_loaded_run_is_refused_nothing_by_a_journal_of_its_own_making():
    """Records of nodes that a crash forgot, because the graph they are in was not saved, are passed over."""
    drive = begun("e kept,retries=1; z kept e")
    drive.finish("e", graph=graph("x kept,retries=1; y pure x"))
    drive.raises("e/x")
    run = Run.load(drive.graph, drive.journal, epoch=2, validate=True)
    assert [command.node for command in run.begin()] == ["e"]


def test_an_attempt_after_an_undo_waits_for_an_undo_that_still_straggles():
    """1. `u` is lost and undone; the undo is recorded, and the engine crashes.
    2. Another undo of it, from before, is not known to have ended: it could take back what a new attempt does."""
    drive = begun("u undoable; z kept u")
    drive.lose(attempts="u")
    drive.end("u")
    undo = drive.undos["u"]
    drive.undone("u")
    again = drive.reload(2, straggling={"u": undo})
    assert again.begin() == []
    assert again.end("u") == ["+begun u", "start! u"]


def test_changed_code_below_which_something_irrevocable_is_done_is_refused():
    drive = Drive(graph("a pure; n default a; m kept a; z kept n m"))
    drive.begin()
    drive.complete("a", "n")
    with pytest.raises(BrokenPromise) as refused:
        drive.reload(changed=["a"]).begin()
    assert (refused.value.node, refused.value.cause) == ("n", "a")


def test_a_member_of_an_open_recovery_does_not_wait_for_its_retry():
    drive = begun("b loose; s kept b; u undoable,retries=1 s; m kept; y pure b m; z kept u y", "b", "s")
    drive.raises("u")
    drive.undone("u")
    assert "+recovering b s u" in drive.lose("b")
    recovering = next(n for n, record in enumerate(drive.journal) if isinstance(record, records.Recovering))
    assert "wait u 1" not in drive.reload(recovering + 1).begin()


def test_nobody_waits_for_a_retry_in_a_run_that_is_being_stopped():
    drive = begun("a kept,retries=1; c default; z kept a c")
    drive.raises("a")
    drive.cancel()
    assert drive.reload().begin() == ["+finished cancelled", "finish cancelled uncertain=c"]
