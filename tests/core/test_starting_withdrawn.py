"""Irrevocable attempts that have begun and that no worker has started (design 2.3): they are withdrawn when the run, or
their graph, comes to its end, and then nothing stands on what they read."""

import pytest

from onceflow.core.model import commands, events
from tests.core.building import begun, graph
from tests.tools.simulation.script import play_script


def never_started(drive, node):
    """The answer to a `withdraw`."""
    return drive.tell(events.Ended(node, drive.running.pop(node), started=False))


def test_what_was_withdrawn_has_not_begun_and_keeps_no_effect():
    drive = begun("u undoable; n default u; z kept n", "u")
    assert drive.cancel(undo=True) == ["+cancelled with undo", "withdraw n"]
    assert never_started(drive, "n") == ["+withdrawn n", "+recovering u", "undo u with output"]
    assert drive.undone("u")[-1] == "finish cancelled"


def test_what_has_started_when_it_is_withdrawn_comes_to_its_end_and_keeps_what_it_stands_on():
    drive = begun("u undoable; n default u; z kept n", "u")
    drive.cancel(undo=True)
    drive.finish("n")
    assert drive.save("n")[-1] == "finish cancelled kept=u"


def test_what_ended_without_a_word_may_have_started():
    drive = begun("u undoable; n default u; z kept n", "u")
    drive.cancel(undo=True)
    assert drive.tell(events.Ended("n", drive.running["n"]))[-1] == "finish cancelled kept=u uncertain=n"


def test_a_failure_withdraws_what_has_not_started():
    drive = begun("u undoable; n default u; f kept; z kept n f", "u", on_failure="undo")
    assert drive.raises("f", permanent=True) == ["+failed f 1 final", "withdraw n"]
    assert never_started(drive, "n")[0] == "+withdrawn n"
    assert drive.undone("u")[-1] == "finish undone failed=f"


def test_a_second_attempt_is_withdrawn_as_well_and_its_task_stays_begun():
    drive = begun("u undoable; n default,retries=1 u; z kept n", "u")
    drive.raises("n")
    assert drive.elapse("n") == ["start! n"]
    assert drive.cancel(undo=True) == ["+cancelled with undo", "withdraw n"]
    assert never_started(drive, "n")[-1] == "finish cancelled kept=u uncertain=n"


def test_so_is_one_after_a_crash_before_which_another_may_have_started():
    drive = begun("u undoable; n default u; z kept n", "u").reload()
    drive.begin()
    assert drive.cancel(undo=True) == ["+cancelled with undo", "withdraw n"]
    assert never_started(drive, "n")[-1] == "finish cancelled kept=u uncertain=n"


def test_what_has_no_effect_is_stopped_and_not_withdrawn_when_its_graph_ends():
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("k kept; m kept; n default; c kept n k m"))
    answer = drive.ends("e/k", 1)
    assert "stop e/m" in answer
    assert "withdraw e/n" in answer
    assert "withdraw e/m" not in answer


def test_what_was_withdrawn_has_not_begun_after_a_crash_either():
    drive = begun("u undoable; n default u; k kept; z kept n k", "u")
    drive.cancel(undo=True)
    never_started(drive, "n")
    again = drive.reload()
    again.begin()
    assert not again.run.rows["n"].begun
    assert again.undone("u")[-1] == "finish cancelled"


def test_a_resumed_run_starts_what_was_withdrawn():
    drive = begun("n default; z kept n")
    drive.cancel()
    assert never_started(drive, "n") == ["+withdrawn n", "+finished cancelled", "finish cancelled"]
    again = drive.reload()
    again.begin()
    assert again.tell(events.Resume()) == ["+resumed", "+begun n", "start! n"]


def test_an_event_that_comes_twice_withdraws_once():
    drive = begun("n default; k kept; z kept n k")
    attempt = drive.running["n"]
    drive.cancel()
    assert never_started(drive, "n") == ["+withdrawn n"]
    assert drive.tell(events.Ended("n", attempt, started=False)) == []


@pytest.mark.parametrize("then", ["again", ""])
def test_what_has_not_started_in_a_graph_that_a_handler_answers_for_is_withdrawn(then):
    """A transaction takes the room back although the charge was about to start."""
    trip = graph("u undoable; n default u; f kept; s kept n f")
    play_script(
        graph("t kept,transaction; z kept t", returning={"t": [trip]}),
        f"""
        finish t
        save t.0
        finish t/u
        save t/u.0
        answer t/f for 1 {then}
        withdraw t/n
        undone t/u!undo
        """,
    )


def test_what_counts_as_having_raised_before_it_started_has_not_begun():
    drive = begun("u undoable; n default u; z kept n", "u", on_failure="undo")
    answer = drive.tell(events.Raised("n", drive.running.pop("n"), permanent=True, started=False))
    assert answer == ["+withdrawn n", "+failed n 1 final", "+recovering n u", "undo u with output"]
    assert drive.undone("u")[-1].startswith("finish undone")


def test_what_waits_to_be_admitted_again_is_not_withdrawn_when_the_run_is_cancelled():
    drive = begun("n default,asks; z kept n")
    drive.admit("n")
    assert "ask n" in drive.lose(attempts="n")
    assert drive.cancel() == ["+cancelled"]


def test_what_waits_to_be_admitted_again_is_not_withdrawn_when_its_graph_ends():
    drive = begun("e kept; z kept e")
    drive.complete("e", graph=graph("n default,asks; k kept; c kept n k"))
    drive.admit("e/n")
    assert "ask e/n" in drive.lose(attempts="e/n")
    assert "give e/c" in drive.ends("e/k", 1)
    assert not [command for command in drive.commands if isinstance(command, commands.Withdraw)]
