"""Outcomes that handlers make (design 2.8)."""

import pytest

from onceflow.core.model import events
from tests.core.building import begun, graph


def test_a_handled_task_is_done_and_saved_whatever_it_declares():
    drive = begun("a pure; b kept a")
    assert drive.handle("a") == ["+handled a", "save a", "start b"]


def test_a_nondeterministic_task_needs_no_record():
    drive = begun("a loose; b kept a")
    assert drive.handle("a") == ["save a", "start b"]


def test_what_cannot_be_taken_back_waits_until_the_outcome_is_saved():
    drive = begun("a pure; n default a")
    assert drive.handle("a") == ["+handled a", "save a"]
    assert drive.save("a") == ["+saved a", "+begun n", "start! n"]


def test_an_undoable_attempt_is_undone_before_its_outcome_counts():
    drive = begun("u undoable; b kept u")
    assert drive.handle("u") == ["undo u"]
    assert drive.undone("u") == ["+undone u", "save u", "start b"]


def test_a_handled_undoable_task_has_nothing_to_take_back():
    drive = begun("u undoable; n default u", on_failure="undo")
    drive.handle("u")
    drive.undone("u")
    drive.save("u")
    assert drive.raises("n")[-1] == "finish undone failed=n uncertain=n"


def test_when_it_runs_again_it_takes_its_readers_with_it():
    drive = begun("a pure; b kept a; c kept a b")
    drive.handle("a")
    drive.finish("b")
    drive.save("b")
    assert drive.lose("a")[:3] == ["stop c", "+recovering a b c", "+dropped a b c"]


def test_after_a_crash_nothing_that_was_built_on_it_counts():
    drive = begun("a pure; b kept a; c kept a b")
    drive.handle("a")
    drive.finish("b")
    drive.save("b")
    again = drive.reload()
    assert "+recovering" in again.begin()[0]


def test_when_a_crash_leaves_nothing_of_it_the_task_is_trusted_as_it_declares():
    drive = begun("a pure; n default a")
    drive.handle("a")
    again = drive.reload()
    assert again.begin() == ["+trusted a", "start a"]
    assert again.finish("a") == ["+begun n", "start! n"]
    last = again.reload()
    assert last.begin() == ["start a"]


def test_a_graph_that_it_returns_then_is_judged_by_what_it_declares():
    drive = begun("a pure; n default a")
    drive.handle("a")
    again = drive.reload()
    again.begin()
    assert again.finish("a", graph=graph("x loose; y pure x"))[0] == "refuse a UnsafeGraph"


def test_nobody_answers_for_a_task_whose_output_counts():
    drive = begun("a pure; b kept a; c kept b; d kept a c")
    drive.finish("a", "b")
    assert drive.lose("a") == ["start a"]
    assert drive.handle("a") == ["+failed a 1 final", "stop c"]


def test_the_graph_around_it_is_saved_after_all():
    drive = begun("e pure; n default e")
    nested = graph("x pure; y pure x")
    assert drive.finish("e", graph=nested) == ["start e/x"]
    assert drive.handle("e/x") == ["+handled e", "save e", "start e/y"]
    assert drive.save("e") == ["+saved e as graph", "+handled e/x", "save e/x"]
    drive.finish("e/y")
    assert drive.save("e/x") == ["+saved e/x", "+begun n", "start! n"]


def test_a_handler_may_ask_for_more_than_the_policy_grants():
    drive = begun("a kept,retries=1; b kept a")
    drive.raises("a")
    drive.elapse("a")
    assert drive.raises("a", again=True) == ["+failed a 2", "wait a 2"]
    drive.elapse("a")
    assert drive.raises("a")[0] == "+failed a 3 final"


def test_a_late_answer_changes_nothing():
    drive = begun("a kept; b kept a")
    attempt = drive.attempts["a"][-1]
    drive.finish("a")
    assert drive.tell(events.Finished("a", attempt, handled=True)) == []


@pytest.mark.parametrize("text", ["a pure; n default a", "u undoable; n default u", "a loose; s kept a; n default s"])
def test_every_prefix_of_the_journal_can_be_loaded(text):
    drive = begun(text)
    drive.handle(next(iter(drive.running)))
    drive.play()
    for records in range(len(drive.journal)):
        again = drive.reload(records)
        again.begin()
        again.play()
        assert again.status == "succeeded"


@pytest.mark.parametrize("small", [True, False])
def test_small_outcomes_are_carried_in_the_record_of_what_reads_them(small):
    drive = begun("a kept; u undoable a")
    drive.tell(events.Finished("a", drive.running.pop("a"), small=small, handled=True))
    assert ("+begun u carrying a.0" in drive.save("a")) == small
