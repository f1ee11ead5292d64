"""Undos (design 2.5, 2.6): what they wait for, what they see, and what happens when they fail."""

import pytest

from onceflow.core.model import commands, events
from onceflow.core.rules import recovery
from onceflow.core.run import Run
from tests.core.building import Drive, begun, graph

# -- what they see ---------------------------------------------------------------------------------------------------


def test_the_undo_of_a_finished_attempt_sees_its_output():
    drive = begun("a loose; s kept a; u undoable s; k kept; z kept a u k", "a", "s")
    attempt = drive.running["u"]
    drive.finish("u")
    drive.lose("a")
    assert drive.commands[-1] == commands.Undo("u", drive.undos["u"], finished=attempt)


def test_the_undo_of_a_finished_attempt_whose_output_was_released_unsaved_sees_none():
    drive = begun("u undoable,unsaved; k kept u; f kept k", "u", "k", on_failure="undo")
    assert commands.Release("u") in drive.commands
    drive.raises("f", permanent=True)
    assert drive.commands[-1] == commands.Undo("u", drive.undos["u"], finished=None)


def test_the_undo_of_a_finished_attempt_whose_output_is_lost_sees_none():
    drive = begun("a loose; s kept a; u undoable s; k kept; z kept a u k", "a", "s")
    drive.finish("u")
    drive.lose("a", "u")
    assert drive.commands[-1] == commands.Undo("u", drive.undos["u"], finished=None)


def test_an_undo_waits_for_the_journal():
    assert commands.Undo.durable


def test_every_undo_changes_the_number_of_undos_that_keys_are_made_of():
    drive = begun("u undoable; z kept u")
    for undos in (1, 2, 3):
        drive.lose(attempts="u")
        drive.end("u")
        assert drive.run.undos.get("u", 0) == undos - 1
        drive.undone("u")
        assert drive.run.undos["u"] == undos


def test_the_attempt_after_an_undo_has_its_own_begun_record():
    drive = begun("a pure; u undoable a; z kept u", "a")
    drive.lose(attempts="u")
    drive.end("u")
    assert drive.undone("u") == ["+undone u", "+begun u carrying a.0", "start! u"]


# -- zombies ---------------------------------------------------------------------------------------------------------


def test_an_undo_waits_for_the_end_of_every_earlier_attempt():
    """1. An attempt is lost and undone; the undo is lost too, but has not ended.
    2. A second undo waits for the end of the first."""
    drive = begun("u undoable; z kept u")
    drive.lose(attempts="u")
    drive.end("u")
    assert drive.lose(attempts="u") == []
    assert drive.end("u") == ["undo u"]


def test_a_late_report_proves_the_end_of_an_attempt():
    drive = begun("u undoable; z kept u")
    attempt = drive.running["u"]
    drive.lose(attempts="u")
    assert drive.tell(events.Finished("u", attempt)) == ["undo u"]


def test_a_lost_undo_that_reports_after_all_is_late_but_proves_its_end():
    drive = begun("u undoable; z kept u")
    drive.lose(attempts="u")
    drive.end("u")
    undo = drive.undos["u"]
    drive.lose(attempts="u")
    assert drive.tell(events.Undone("u", undo)) == ["undo u"], "undos are idempotent; the lost one does not count"
    assert drive.undone("u") == ["+undone u", "+begun u", "start! u"]


def test_an_attempt_of_an_irrevocable_task_does_not_wait_for_the_end_of_a_lost_one():
    drive = begun("n default; z kept n")
    assert drive.lose(attempts="n") == ["start! n"]
    assert drive.lose(attempts="n") == ["start! n"]
    assert drive.end("n", "n") == []


def test_a_forgotten_zombie_of_another_node_does_not_hold_an_undo_back():
    drive = begun("a pure; u undoable; z kept a u")
    drive.lose(attempts="a")
    drive.lose(attempts="u")
    assert drive.end("u") == ["undo u"]


def test_a_duplicate_undone_is_late():
    drive = begun("u undoable; z kept u")
    drive.lose(attempts="u")
    drive.end("u")
    undo = drive.undos["u"]
    drive.undone("u")
    assert drive.tell(events.Undone("u", undo)) == []
    assert drive.tell(events.UndoFailed("u", undo)) == []
    assert drive.tell(events.Ended("u", undo)) == []
    assert drive.states() == {"u": "running", "z": "waiting"}


# -- inputs ----------------------------------------------------------------------------------------------------------


def test_an_undo_finds_small_inputs_in_the_begun_record():
    drive = begun("a pure; u undoable a; k kept; z kept u k", "a")
    assert drive.lose("a", attempts="u") == ["start a"], "the next attempt will need it"
    assert drive.end("u") == ["undo u"], "the undo does not"


def test_a_large_lost_input_is_rebuilt_privately_before_the_undo():
    """1. `p` is large, so the begun record of `u` does not carry it. Both outputs are lost.
    2. The undo has to see `p`, which runs once more for the undo only: its next attempt has to wait for the undo."""
    drive = begun("a kept; p pure a; u undoable p; k kept; z kept u k", "a")
    drive.finish("p", small=False)
    drive.finish("u")
    assert drive.lose("p", "u") == ["+recovering u", "start p privately"]
    assert drive.finish_rebuilding("p") == ["undo u"]
    assert drive.undone("u") == ["+undone u", "release p privately", "+dropped u", "drop u", "start p"]
    assert drive.finish("p") == ["+begun u carrying p.0", "start! u"]


def test_an_undo_may_read_what_its_tasks_next_attempt_made_again():
    drive = begun("p pure; u undoable p; z kept u")
    drive.finish("p", small=False)
    assert drive.lose("p", attempts="u") == ["start p"]
    assert drive.finish("p", small=False) == []
    assert drive.end("u") == ["undo u"]


def test_what_a_rebuilt_input_was_made_from_is_rebuilt_first():
    drive = begun("a kept; p pure a; q pure p; u undoable q; k kept; z kept u k", "a")
    drive.finish("p")
    drive.finish("q", small=False)
    drive.finish("u")
    assert drive.lose("p", "q", "u")[:2] == ["+recovering u", "start p privately"]
    assert drive.finish_rebuilding("p") == ["start q privately"]
    assert drive.finish_rebuilding("q") == ["undo u"]
    answer = drive.undone("u")
    assert sorted(answer[1:3]) == ["release p privately", "release q privately"]
    assert answer[3:] == ["+dropped u", "drop u", "start p"]
    assert drive.play().status == "succeeded"


def test_a_saved_large_input_is_read_from_where_it_is_saved():
    drive = begun("a kept; u undoable a; z kept u")
    drive.finish("a", small=False)
    drive.save("a")
    drive.lose("a", attempts="u")
    assert drive.end("u") == ["undo u"]


def test_a_lost_rebuilding_starts_again():
    drive = begun("p pure; u undoable p; k kept; z kept u k")
    drive.finish("p", small=False)
    drive.finish("u")
    assert drive.lose("p", "u")[:2] == ["+recovering u", "start p privately"]
    assert drive.lose(attempts="p") == ["start p privately"]


def test_a_rebuilt_input_that_is_lost_before_the_undo_starts_is_rebuilt_again():
    drive = begun("p pure; q pure; u undoable p q; k kept; z kept u k")
    drive.finish("p", small=False)
    drive.finish("q", small=False)
    drive.finish("u")
    assert drive.lose("p", "q", "u") == ["+recovering u", "start p privately", "start q privately"]
    drive.finish_rebuilding("p")
    assert drive.lose("p") == ["start p privately"]
    drive.finish_rebuilding("q")
    assert drive.finish_rebuilding("p") == ["undo u"]


def test_a_rebuilding_that_raises_waits_and_is_tried_again():
    drive = begun("p pure; u undoable p; k kept; z kept u k")
    drive.finish("p", small=False)
    drive.finish("u")
    drive.lose("p", "u")
    assert drive.tell(events.Raised("p", drive.rebuilding.pop("p"))) == ["wait p 1"]
    assert drive.elapse("p") == ["start p privately"]


def test_nobody_but_undos_sees_what_was_rebuilt():
    """The consumer `m` of `p` gets its input from an attempt of `p` of its own."""
    drive = begun("p pure; u undoable p; k kept; m kept p k; z kept u m")
    drive.finish("p", small=False)
    drive.finish("u", "k")
    assert drive.states()["m"] == "running"
    drive.lose("p", "u", attempts="m")
    assert drive.running == {}, "nothing else starts during a recovery"
    drive.finish_rebuilding("p")
    assert drive.running == {}
    assert "start p" in drive.undone("u")


# -- undos that fail -------------------------------------------------------------------------------------------------


def failing(times):
    drive = begun("u undoable; k kept; z kept u k")
    drive.lose(attempts="u")
    drive.end("u")
    for _ in range(times):
        answer = drive.undo_fails("u")
        if answer[-1].startswith("wait"):
            drive.elapse("u")
    return drive, answer


def test_an_undo_that_fails_waits_and_is_tried_again():
    drive = begun("u undoable; z kept u")
    drive.lose(attempts="u")
    drive.end("u")
    assert drive.undo_fails("u") == ["wait u 1"]
    assert drive.elapse("u") == ["undo u"]
    assert drive.undo_fails("u") == ["wait u 2"]
    assert drive.elapse("u") == ["undo u"]
    assert drive.undone("u") == ["+undone u", "+begun u", "start! u"]


def test_an_undo_that_keeps_failing_parks_the_run():
    drive, answer = failing(recovery.EFFORT_TRIES)
    assert answer == ["+parked u", "park u"]
    assert drive.status == "parked"


def test_a_person_may_have_a_parked_undo_tried_again():
    drive, _ = failing(recovery.EFFORT_TRIES)
    assert drive.tell(events.RetryUndo("u")) == ["undo u"]
    assert drive.status == "running"
    assert drive.undo_fails("u") == ["wait u 1"], "failures are counted from zero again"
    drive.elapse("u")
    assert drive.undone("u") == ["+undone u", "+begun u", "start! u"]


def test_a_parked_run_still_takes_notice_of_what_runs():
    drive, _ = failing(recovery.EFFORT_TRIES)
    assert drive.complete("k") == ["save k", "+saved k"]


def test_an_elapsed_delay_of_an_older_undo_is_late():
    drive = begun("u undoable; z kept u")
    drive.lose(attempts="u")
    drive.end("u")
    undo = drive.undos["u"]
    drive.undo_fails("u")
    drive.elapse("u")
    assert drive.tell(events.Elapsed("u", undo)) == []


def test_losing_an_undo_that_waits_changes_nothing():
    drive = begun("u undoable; z kept u")
    drive.lose(attempts="u")
    drive.end("u")
    undo = drive.undos["u"]
    drive.undo_fails("u")
    assert drive.tell(events.Lost((), (("u", undo),))) == []
    assert drive.elapse("u") == ["undo u"]


# -- undos and the recovery they belong to ---------------------------------------------------------------------------


def test_a_local_undo_needs_no_recovery_and_stops_nothing_else():
    drive = begun("u undoable; k kept; l pure k; z kept u l")
    drive.lose(attempts="u")
    drive.end("u")
    assert drive.status == "running"
    assert drive.finish("k") == ["save k", "start l"]


def test_a_local_undo_joins_a_recovery_that_takes_its_ancestors_back():
    """1. `u` is lost, ended, and being undone locally; its parent `s` descends from `a`.
    2. `a` is lost: `u` is in R, its undo is the one that already runs.
    3. That undo ends the recovery."""
    drive = begun("a loose; s kept a; u undoable s; k kept; z kept a u k", "a", "s")
    drive.lose(attempts="u")
    drive.end("u")
    assert drive.lose("a") == ["+recovering a s u"]
    answer = drive.undone("u")
    assert answer[:2] == ["+undone u", "+dropped a s u"]
    assert sorted(answer[2:]) == ["drop a", "drop s", "drop u", "start a"]
    assert drive.play().status == "succeeded"


def test_a_lost_undo_in_a_recovery_is_started_again_and_the_order_is_kept():
    drive = begun("a loose; s kept a; u undoable s; v undoable u; k kept; z kept a v k", *"asuv")
    assert drive.lose("a")[1:] == ["undo v with output"]
    assert drive.lose(attempts="v") == []
    assert drive.end("v") == ["undo v with output"]
    assert drive.undone("v") == ["+undone v", "undo u with output"]


def test_an_undoable_member_that_has_not_begun_is_dropped_without_an_undo():
    drive = begun("a loose; s kept a; u undoable s; k kept; z kept a u k", "a")
    drive.finish("s")
    drive.lose("a")
    assert drive.undos == {}
    assert drive.journal == []


@pytest.mark.parametrize("kind", ["undoable", "undoable,deterministic", "undoable,unsaved"])
def test_a_lost_unsaved_output_of_an_undoable_task_is_undone_before_it_is_made_again(kind):
    drive = begun(f"u {kind}; k kept; z kept u k")
    drive.finish("u")
    assert drive.lose("u") == ["+recovering u", "undo u"]
    assert drive.undone("u") == ["+undone u", "+dropped u", "drop u", "+begun u", "start! u"]


def test_a_recovery_waits_for_the_end_of_a_zombie_before_it_undoes_it():
    """1. The first attempt of `u` is lost and does not end; `s`, its parent, is dropped with `a`.
    2. R is journaled at once; the undo waits."""
    drive = begun("a loose; s kept a; u undoable s; k kept; z kept a u k", "a", "s")
    drive.lose(attempts="u")
    assert drive.lose("a") == ["+recovering a s u"]
    assert drive.end("u") == ["undo u"]


def test_after_a_crash_an_undoable_task_waits_until_its_old_attempt_is_known_to_have_ended():
    small = graph("u undoable; z kept u")
    old = Run(small).begin()[-1].attempt
    run = Run.load(small, [], epoch=2, straggling=[("u", old)], validate=True)

    assert run.begin() == []
    assert [type(command) for command in run.handle(events.Ended("u", old))] == [commands.Append, commands.Start]


def rebuilding():
    """A loaded run in which `u` must be undone and its input `a`, which was not carried, is made again twice: for
    whoever runs next, and privately for the undo."""
    drive = Drive(graph("a pure; u undoable a; z kept u"))
    drive.begin()
    drive.finish("a", small=False)
    drive = drive.reload()
    assert drive.begin() == ["start a", "start a privately"]
    return drive


def test_a_private_rebuild_that_nobody_needs_any_more_is_stopped():
    drive = rebuilding()
    assert drive.finish("a", small=False) == ["undo u"]
    assert drive.undone("u") == ["stop a", "+undone u", "+begun u", "start! u"]


def test_a_private_rebuild_that_another_undo_needs_goes_on():
    drive = Drive(graph("a pure; u undoable a; v undoable a; z kept u v"))
    drive.begin()
    drive.finish("a", small=False)
    drive = drive.reload()
    assert drive.begin() == ["start a", "start a privately"]
    assert drive.finish("a", small=False) == ["undo u", "undo v"]
    assert drive.undone("u") == ["+undone u", "+begun u", "start! u"]
    assert drive.undone("v") == ["stop a", "+undone v", "+begun v", "start! v"]


def test_a_private_rebuild_by_edited_code_is_parked_once():
    drive = Drive(graph("a pure; u undoable a; w undoable; z kept u w"))
    drive.begin()
    drive.finish("a", small=False)
    drive = drive.reload(changed=["a"])
    assert drive.begin() == ["+recovering a u", "undo w", "+parked a", "park a"]
    assert drive.undone("w") == ["+undone w"]


def test_a_private_rebuild_that_waits_to_be_retried_needs_no_stop():
    drive = rebuilding()
    drive.tell(events.Raised("a", drive.rebuilding.pop("a")))
    assert drive.finish("a", small=False) == ["undo u"]
    assert drive.undone("u") == ["+undone u", "+begun u", "start! u"]
    assert drive.elapse("a") == []


def test_a_private_rebuild_that_is_parked_needs_no_stop():
    drive = rebuilding()
    for _ in range(recovery.EFFORT_TRIES - 1):
        drive.tell(events.Raised("a", drive.rebuilding.pop("a")))
        drive.elapse("a")
    assert drive.tell(events.Raised("a", drive.rebuilding.pop("a"))) == ["+parked a", "park a"]
    assert drive.finish("a", small=False) == ["undo u"]
    assert drive.undone("u") == ["+undone u", "+begun u", "start! u"]


def test_a_private_rebuild_of_refs_that_the_attempt_did_not_see_is_stopped():
    """`p` breaks its promise: it holds a ref that it did not hold when `u` began."""
    drive = begun("p pure; u undoable p; k kept; z kept u k", "p")
    drive.lose("p", attempts="u")
    drive.finish("p", holding="new")
    assert drive.lose("p") == ["start p"]
    assert drive.end("u") == ["start p privately"]
    assert drive.finish("p", holding="new") == ["undo u"]
    assert "stop p" in drive.undone("u")


def test_private_rebuilds_of_a_whole_chain_are_stopped():
    drive = Drive(graph("a pure; b pure a; u undoable b; z kept u"))
    drive.begin()
    drive.finish("a", small=False)
    drive.finish("b", small=False)
    drive = drive.reload()
    assert drive.begin() == ["start a", "start a privately"]
    assert drive.finish("a", small=False) == ["start b", "start b privately"]
    assert drive.finish("b", small=False) == ["undo u"]
    assert drive.undone("u") == ["stop b", "stop a", "+undone u", "+begun u", "start! u"]
