"""How a run ends without success (design 2.8): retries, failure, sagas, cancelling."""

import pytest

from onceflow.core.model import events
from tests.core.building import begun

# -- retries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pure", "kept", "loose"])
def test_an_attempt_that_raised_is_tried_again_after_its_delay(kind):
    drive = begun(f"a {kind},retries=2; z kept a")
    assert drive.raises("a") == ["+failed a 1", "wait a 1"]
    assert drive.states()["a"] == "backoff"
    assert drive.elapse("a") == ["start a"]
    assert drive.raises("a") == ["+failed a 2", "wait a 2"]
    assert drive.elapse("a") == ["start a"]
    assert drive.raises("a") == ["+failed a 3 final", "+finished failed", "finish failed failed=a"]


def test_success_after_a_retry_counts_failures_from_zero_again():
    drive = begun("a pure,retries=1; k kept; z kept a k")
    drive.raises("a")
    drive.elapse("a")
    drive.finish("a")
    drive.lose("a")
    assert drive.raises("a") == ["+failed a 1", "wait a 1"]


def test_a_permanent_failure_is_not_retried():
    drive = begun("a pure,retries=5; z kept a")
    assert drive.raises("a", permanent=True)[0] == "+failed a 1 final"
    assert drive.status == "failed"


def test_a_raised_irrevocable_attempt_is_retried_with_the_same_begun_record():
    drive = begun("a kept; n default,retries=1 a; z kept n", "a")
    assert drive.raises("n") == ["+failed n 1", "wait n 1"]
    assert drive.elapse("n") == ["start! n"]


def test_a_raised_undoable_attempt_is_undone_before_its_delay_begins():
    drive = begun("a kept; u undoable,retries=1 a; z kept u", "a")
    assert drive.raises("u") == ["+failed u 1", "undo u"]
    assert drive.undone("u") == ["+undone u", "wait u 1"]
    assert drive.elapse("u") == ["+begun u carrying a.0", "start! u"]


def test_a_lost_attempt_does_not_count_as_a_failure():
    drive = begun("a pure; z kept a")
    for _ in range(5):
        assert drive.lose(attempts="a") == ["start a"]


def test_a_retry_waits_for_an_input_that_was_lost_meanwhile():
    drive = begun("a pure; b kept,retries=1 a; z pure b", "a")
    drive.raises("b")
    assert drive.lose("a") == []
    assert drive.elapse("b") == ["start a"]
    assert drive.finish("a") == ["start b"]


def test_a_delay_whose_task_was_dropped_is_late():
    """1. `b` waits for its retry; its input `a` (nondeterministic) is lost and needed by `c`: `b` is dropped.
    2. The delay is over: `b` waits for its new input, not for the delay."""
    drive = begun("a loose; b kept,retries=1 a; k kept; c kept a k; z pure b c", "a")
    drive.raises("b")
    assert sorted(drive.lose("a")) == ["drop a", "drop b", "start a"]
    assert drive.elapse("b") == []
    assert drive.finish("a") == ["start b"]


def test_a_raise_that_is_told_twice_counts_once():
    drive = begun("a pure,retries=1; z kept a")
    event = events.Raised("a", drive.running["a"])
    drive.raises("a")
    assert drive.tell(event) == []
    assert drive.states()["a"] == "backoff"


# -- failure ---------------------------------------------------------------------------------------------------------


def test_when_the_run_fails_attempts_without_effect_are_stopped_and_effectful_ones_may_finish():
    drive = begun("a pure; b kept; u undoable; n default; f default; z kept a b u n f")
    assert drive.raises("f") == ["+failed f 1 final", "stop a", "stop b", "withdraw n"]
    assert drive.status == "stopping"
    assert drive.end("a", "b") == []
    assert drive.complete("u", "n") == [
        "save u", "+saved u", "save n", "+saved n", "+finished failed", "finish failed failed=f uncertain=f"
    ]  # fmt: skip
    assert drive.status == "failed"


def test_nothing_new_starts_while_a_run_stops():
    drive = begun("n default; m default; p pure n; f kept; z kept m p f")
    drive.raises("f")
    assert drive.finish("n") == ["save n"]
    assert drive.save("n") == ["+saved n"]
    assert drive.running.keys() == {"m"}


def test_what_raises_while_the_run_stops_is_not_tried_again_but_named():
    drive = begun("n default,retries=1; m default; f kept; z kept n m f")
    drive.raises("f")
    drive.raises("m")
    answer = drive.raises("n")
    assert answer[0] in ("+failed n 1", "+failed n 1 final")
    assert not drive.running
    assert drive.play().status == "failed"


def test_a_failed_undoable_attempt_is_undone_before_the_run_says_that_it_failed():
    drive = begun("u undoable; z kept u")
    assert drive.raises("u") == ["+failed u 1 final", "undo u"]
    assert drive.undone("u") == ["+undone u", "+finished failed", "finish failed failed=u"]


def test_a_failed_run_says_so_only_when_every_stopped_attempt_has_ended():
    drive = begun("a pure; f kept; z kept a f")
    drive.raises("f")
    assert drive.status == "stopping"
    assert drive.end("a") == ["+finished failed", "finish failed failed=f"]


def test_a_failed_run_waits_for_pending_saves():
    drive = begun("n default; f kept; z kept n f")
    drive.finish("n")
    drive.raises("f")
    assert drive.status == "stopping"
    assert drive.save("n") == ["+saved n", "+finished failed", "finish failed failed=f"]


def test_several_failures_are_all_named():
    drive = begun("m default; n default; z kept m n")
    drive.raises("m")
    assert drive.raises("n")[-1] == "finish failed failed=m,n uncertain=m,n"


def test_a_loss_while_the_run_stops_starts_nothing():
    drive = begun("a pure; n default; f kept; z kept a n f", "a")
    drive.raises("f")
    assert drive.lose("a") == []
    drive.complete("n")
    assert drive.status == "failed"


# -- sagas -----------------------------------------------------------------------------------------------------------


def test_a_failed_saga_undoes_its_finished_undoable_tasks_in_reverse_order():
    drive = begun("u undoable; v undoable u; f kept v; z kept f", "u", "v", on_failure="undo")
    answer = drive.raises("f")
    assert answer[0] == "+failed f 1 final"
    assert answer[-1] == "undo v with output"
    assert drive.undone("v") == ["+undone v", "undo u with output"]
    answer = drive.undone("u")
    assert answer[0] == "+undone u"
    assert sorted(answer[2:-2]) in (["drop f", "drop u", "drop v"], ["drop u", "drop v"])
    assert answer[-2:] == ["+finished undone", "finish undone failed=f"]


def test_an_effect_above_a_begun_irrevocable_task_is_kept_and_named():
    text = "u undoable; n default u; v undoable; w undoable n; f kept v; z kept n w f"
    drive = begun(text, "u", "v", "n", "w", on_failure="undo")
    assert sorted(drive.raises("f"))[-2:] == ["undo v with output", "undo w with output"]
    drive.undone("v")
    assert drive.undone("w")[-1] == "finish failed failed=f kept=u"


def test_a_saga_drops_the_descendants_of_what_it_undoes():
    drive = begun("u undoable; s kept u; t kept; f kept s t; z kept f", "u", "t", "s", on_failure="undo")
    drive.raises("f")
    answer = drive.undone("u")
    dropped = {command.removeprefix("drop ") for command in answer if command.startswith("drop ")}
    assert {"u", "s"} <= dropped
    assert "t" not in dropped


def test_a_saga_ends_and_undoes_undoable_attempts_that_run():
    drive = begun("u undoable; f kept; z kept u f", on_failure="undo")
    assert drive.raises("f") == ["+failed f 1 final", "stop u"]
    assert drive.end("u") == ["undo u"]
    assert drive.undone("u") == ["+undone u", "+finished undone", "finish undone failed=f"]


def test_a_saga_waits_for_irrevocable_attempts_before_it_decides_what_to_undo():
    drive = begun("u undoable; n default u; f kept; z kept n f", "u", on_failure="undo")
    assert drive.raises("f") == ["+failed f 1 final", "withdraw n"]
    assert drive.finish("n") == ["save n"]
    assert drive.save("n") == ["+saved n", "release u", "+finished failed", "finish failed failed=f kept=u"]


def test_an_irrevocable_attempt_that_failed_has_begun_all_the_same():
    drive = begun("u undoable; n default u; z kept n", "u", on_failure="undo")
    assert drive.raises("n")[-1] == "finish failed failed=n kept=u uncertain=n"


def test_what_an_irrevocable_task_stands_on_is_more_than_its_ancestors():
    """1. `b` (nondeterministic, not saved) is read by `f` and `g`, both saved. `n` (irrevocable) stands below `f`.
    2. The undoable `u` stands above `g`. Undoing it would drop `g`, a later resume would run `b` again, under `n`.
    3. So `u` is kept."""
    text = "b loose; u undoable; f kept b; g kept b u; n default f; x kept g n; z kept x"
    drive = begun(text, "b", "u", "f", "g", "n", on_failure="undo")
    assert drive.raises("x") == ["+failed x 1 final", "+finished failed", "finish failed failed=x kept=u"]


def test_what_is_reproducible_may_be_read_again_so_its_other_readers_are_not_stood_on():
    text = "b pure; u undoable; f kept b; g kept b u; n default f; x kept g n; z kept x"
    drive = begun(text, "b", "u", "f", "g", "n", on_failure="undo")
    assert drive.raises("x")[-1] == "undo u with output"
    assert drive.undone("u")[-1] == "finish undone failed=x"


def test_a_saga_of_nothing_is_undone_at_once():
    drive = begun("a kept; z kept a", "a", on_failure="undo")
    assert drive.raises("z") == ["+failed z 1 final", "+finished undone", "finish undone failed=z"]


def test_an_undo_that_keeps_failing_parks_a_saga():
    drive = begun("u undoable; f kept u; z kept f", "u", on_failure="undo")
    drive.raises("f")
    while drive.undos:
        drive.undo_fails("u")
        if drive.waits:
            drive.elapse("u")
    assert drive.status == "parked"
    assert drive.tell(events.RetryUndo("u")) == ["undo u with output"]
    assert drive.undone("u")[-1] == "finish undone failed=f"


# -- cancelling ------------------------------------------------------------------------------------------------------


def test_cancelling_a_run_in_which_nothing_runs_ends_it_at_once():
    drive = begun("a kept,retries=1; z kept a")
    drive.raises("a")
    assert drive.cancel() == ["+cancelled", "+finished cancelled", "finish cancelled"]


def test_cancelling_stops_attempts_without_effect_and_says_cancelled_when_all_have_ended():
    drive = begun("a pure; b kept; z kept a b")
    assert drive.cancel() == ["+cancelled", "stop a", "stop b"]
    assert drive.end("a") == []
    assert drive.status == "stopping"
    assert drive.end("b") == ["+finished cancelled", "finish cancelled"]
    assert drive.status == "cancelled"


def test_cancelling_ends_and_undoes_unfinished_undoable_attempts_and_keeps_finished_ones():
    drive = begun("u undoable; v undoable; z kept u v", "u")
    assert drive.cancel() == ["+cancelled", "stop v"]
    assert drive.end("v") == ["undo v"]
    assert drive.undone("v") == ["+undone v", "+finished cancelled", "finish cancelled"]


def test_cancelling_with_undo_takes_finished_ones_back_too():
    drive = begun("u undoable; v undoable; k kept; z kept u v k", "u", "v")
    assert drive.cancel(undo=True) == ["+cancelled with undo", "stop k"]
    answer = drive.end("k")
    assert answer[0] == "+recovering u v"
    assert sorted(answer[1:]) == ["undo u with output", "undo v with output"]
    drive.undone("v")
    assert drive.undone("u")[-2:] == ["+finished cancelled", "finish cancelled"]


def test_cancelling_with_undo_keeps_what_has_something_irrevocable_below():
    drive = begun("u undoable; n default u; v undoable; k kept; z kept n v k", "u", "v", "n")
    drive.cancel(undo=True)
    drive.end("k")
    assert drive.undone("v")[-1] == "finish cancelled kept=u"


def test_begun_irrevocable_attempts_are_given_time_to_finish():
    drive = begun("n default; z kept n")
    assert drive.cancel() == ["+cancelled", "withdraw n"]
    assert drive.finish("n") == ["save n"]
    assert drive.save("n") == ["+saved n", "+finished cancelled", "finish cancelled"]


def test_when_that_time_is_over_they_are_ended_and_reported_as_uncertain():
    drive = begun("m default; n default; z kept m n", "m")
    drive.cancel()
    assert drive.tell(events.GiveUp()) == ["stop n"]
    assert drive.status == "stopping"
    assert drive.end("n") == ["+finished cancelled", "finish cancelled uncertain=n"]


def test_an_irrevocable_attempt_that_finishes_after_the_time_is_over_is_certain():
    drive = begun("n default; z kept n")
    attempt = drive.running["n"]
    drive.cancel()
    drive.tell(events.GiveUp())
    assert drive.tell(events.Finished("n", attempt)) == ["save n"]
    assert drive.save("n") == ["+saved n", "+finished cancelled", "finish cancelled"]


def test_giving_up_twice_stops_an_attempt_once():
    drive = begun("n default; z kept n")
    drive.cancel()
    assert drive.tell(events.GiveUp()) == ["stop n"]
    assert drive.tell(events.GiveUp()) == []


def test_cancelling_twice_is_cancelling_once_but_an_undo_may_still_be_asked_for():
    drive = begun("u undoable; n default; z kept u n", "u")
    assert drive.cancel() == ["+cancelled", "withdraw n"]
    assert drive.cancel() == []
    assert drive.cancel(undo=True) == ["+cancelled with undo", "withdraw n"]
    assert drive.cancel(undo=True) == []
    drive.complete("n")
    assert drive.undone("u")[-1] == "finish cancelled"


def test_a_lost_irrevocable_attempt_of_a_cancelled_run_does_not_start_again():
    drive = begun("n default; z kept n")
    drive.cancel()
    assert drive.lose(attempts="n") == []
    assert drive.end("n") == ["+finished cancelled", "finish cancelled uncertain=n"]


def test_cancelling_a_run_that_is_over_changes_nothing():
    drive = begun("a kept", "a")
    assert drive.status == "succeeded"
    assert drive.cancel(undo=True) == []
    assert drive.tell(events.GiveUp()) == []


def test_a_recovery_is_finished_before_a_cancelled_run_ends():
    drive = begun("a loose; s kept a; u undoable s; k kept; z kept a u k", "a", "s", "u")
    drive.lose("a")
    assert drive.cancel() == ["+cancelled", "stop k"]
    drive.end("k")
    answer = drive.undone("u")
    assert answer[:2] == ["+undone u", "+dropped a s u"]
    assert answer[-2:] == ["+finished cancelled", "finish cancelled"]
    assert drive.running == {}


def test_a_failure_during_a_recovery_ends_the_run_after_the_recovery():
    drive = begun("a loose; s kept a; u undoable s; f kept; z kept a u f", "a", "s", "u")
    drive.lose("a")
    assert drive.raises("f") == ["+failed f 1 final"]
    answer = drive.undone("u")
    assert answer[:2] == ["+undone u", "+dropped a s u"]
    assert answer[-2:] == ["+finished failed", "finish failed failed=f"]
    assert drive.running == {}


def test_a_save_that_can_never_succeed_makes_a_saga_undo():
    drive = begun("u undoable; s kept u; z kept s", "u", on_failure="undo")
    drive.finish("s")
    assert drive.save_fails("s", permanent=True)[-1] in ("stop z", "undo u with output")
    assert drive.play().status == "undone"
    assert drive.run.undos["u"] == 1


def test_a_cancelled_run_with_a_parked_undo_waits_for_a_person():
    drive = begun("u undoable; k kept; z kept u k")
    drive.cancel()
    drive.end("k", "u")
    while drive.undos:
        drive.undo_fails("u")
        if drive.waits:
            drive.elapse("u")
    assert drive.status == "parked"
    drive.tell(events.RetryUndo("u"))
    assert drive.undone("u") == ["+undone u", "+finished cancelled", "finish cancelled"]


def test_an_undoable_attempt_that_is_stopped_but_finishes_first_is_undone_all_the_same():
    """1. The run is cancelled and the attempt of `u` is told to stop.
    2. It was quicker: its report is late, but proves its end."""
    drive = begun("u undoable; z kept u")
    attempt = drive.running["u"]
    assert drive.cancel() == ["+cancelled", "stop u"]
    assert drive.tell(events.Finished("u", attempt)) == ["undo u"]
    assert drive.undone("u") == ["+undone u", "+finished cancelled", "finish cancelled"]


def test_what_reads_an_unsaved_source_through_a_repeatable_task_is_kept_too():
    """`n` stands on `b`, which cannot be made again. `g` read it through `c`; dropping `g` would need `b` again."""
    tasks = "b loose; c pure b; u undoable; f kept c; g kept c u; n default f; x kept g n; z kept x"
    drive = begun(tasks, on_failure="undo")
    drive.complete("b", "c", "u", "f", "g", "n")
    answer = drive.raises("x")
    assert answer[-1] == "finish failed failed=x kept=u"
    assert "undo u" not in answer
