"""Joining what stands aside: what was settled when it was joined may still be taken back, and then goes what came of
it (design 2.11, 2.8)."""

import pytest

from onceflow.core.model import events, records
from onceflow.core.rules import starting
from onceflow.errors import IllegalEvent
from tests.core.building import Drive, graph

FORK = graph("b undoable; c kept,aside b; j kept", sink="j")
"""A child with an undoable effect, and a node that joins it."""


def join(drive, node, *children):
    """It is given what these children gave."""
    return drive.tell(events.Finished(node, drive.running.pop(node), joined=children))


def forked(text="e kept; z kept e", **settings):
    """The child has come to its end."""
    drive = Drive(graph(text), **settings)
    drive.begin()
    drive.complete("e", graph=FORK)
    drive.complete("e/b", "e/c")
    return drive


def joined(text="e kept; z kept e", **settings):
    drive = forked(text, **settings)
    join(drive, "e/j", "e/c")
    drive.save("e/j")
    return drive


def after_a_crash(drive):
    again = drive.reload()
    again.begin()
    return again


def test_who_reads_a_join_starts_when_the_journal_knows_what_was_joined():
    drive = forked()
    assert join(drive, "e/j", "e/c") == ["save e/j"]
    assert "start z" in drive.save("e/j")
    assert drive.journal[-1] == records.Saved("e/j", 0, drive.attempts["e/j"][0], joined=("e/c",))


@pytest.mark.parametrize("crash", [False, True])
def test_a_saga_takes_back_a_join_with_what_was_joined(crash):
    drive = joined(on_failure="undo")
    if crash:
        drive = after_a_crash(drive)
    assert "+recovering e/b e/c e/j z" in drive.raises("z", permanent=True)
    drive.undone("e/b")
    assert drive.status == "undone"


@pytest.mark.parametrize("crash", [False, True])
def test_so_it_does_if_somebody_cancels_the_run_with_undo(crash):
    drive = joined()
    if crash:
        drive = after_a_crash(drive)
    drive.cancel(undo=True)
    answer = drive.end("z")
    assert [s for s in answer if s.startswith("+recovering")] == ["+recovering e/b e/c e/j"]


def test_what_was_undone_is_joined_anew():
    # given a saga that has been undone, and is resumed
    drive = joined(on_failure="undo")
    drive.raises("z", permanent=True)
    drive.undone("e/b")
    drive = after_a_crash(drive)
    drive.tell(events.Resume())
    # when the child has come to its end again
    drive.complete("e/b", "e/c")
    join(drive, "e/j", "e/c")
    drive.save("e/j")
    # then all is well
    drive.complete("z")
    assert drive.status == "succeeded"


@pytest.mark.parametrize("crash", [False, True])
def test_what_is_irrevocable_below_a_join_stands_on_what_was_joined(crash):
    # given something irrevocable that has begun below the join
    drive = joined("e kept; n default e; z kept n", on_failure="undo")
    drive.complete("n")
    if crash:
        drive = after_a_crash(drive)
    # when the run fails
    answer = drive.raises("z", permanent=True)
    # then the child's effect stays
    assert answer[-1] == "finish failed failed=z kept=e/b"


def test_nothing_irrevocable_begins_below_a_join_that_a_crash_could_forget():
    # given a graph that is not saved yet, and a join in it
    drive = Drive(graph("d kept; e kept d; n default e"), on_failure="undo")
    drive.begin()
    drive.complete("d", graph=graph("b undoable; c kept,aside b; s kept", sink="s"))
    drive.complete("d/b", "d/c", "d/s")
    drive.finish("e", graph=graph("j kept; k kept j"))
    # when it has joined, then nothing goes on before the journal knows of both
    assert join(drive, "e/j", "d/c") == []
    assert drive.save("e") == ["+saved e as graph", "save e/j", "release d/s"]
    assert "start e/k" in drive.save("e/j")


def test_a_join_that_was_lost_joins_anew():
    drive = forked()
    join(drive, "e/j", "e/c")
    assert "start e/j" in drive.lose("e/j")
    join(drive, "e/j", "e/c")
    drive.save("e/j")
    drive.complete("z")
    assert drive.status == "succeeded"


def test_a_transaction_takes_back_a_join_in_it_and_not_what_was_joined_there():
    # given a child outside of a transaction, which was joined in it
    drive = Drive(graph("d kept; e kept,transaction d; z kept e"))
    drive.begin()
    drive.complete("d", graph=graph("b undoable; c kept,aside b; s kept", sink="s"))
    drive.complete("d/b", "d/c", "d/s")
    drive.complete("e", graph=graph("u undoable; j kept u; k kept j"))
    drive.complete("e/u")
    join(drive, "e/j", "d/c")
    drive.save("e/j")
    # when something below the join fails, and the transaction is tried again
    answer = drive.ends("e/k", 1, again=True)
    # then the join goes, the child does not, and may be joined anew
    assert "+recovering e/j e/u" in answer
    drive.undone("e/u")
    drive.elapse("e")
    drive.complete("e/u")
    join(drive, "e/j", "d/c")
    drive.save("e/j")
    assert drive.journal[-1].joined == ("d/c",)
    drive.complete("e/k", "z")
    assert drive.status == "succeeded"


def test_what_a_child_gave_that_is_not_settled_does_not_count():
    # given a child that is saved, but may still change with what it has read
    drive = Drive(graph("e kept; o kept; z kept e o"))
    drive.begin()
    drive.complete("e", graph=graph("b loose; k kept; c kept,aside b; d kept,aside b k; s kept", sink="s"))
    drive.complete("e/b", "e/c")
    assert not starting.may_join(drive.run, "e/c")
    # then who was given it starts again
    assert join(drive, "o", "e/c") == ["start o"]
    # until everything that reads that is saved as well
    drive.complete("e/k", "e/d")
    assert starting.may_join(drive.run, "e/c")
    assert join(drive, "o", "e/c") == ["save o"]


@pytest.mark.parametrize("crash", [False, True])
def test_a_graph_that_ends_early_has_joined_what_was_joined_in_it(crash):
    # given a child, and a graph in which it was joined and something failed then
    drive = Drive(graph("d kept; e kept d; z kept e"), on_failure="undo")
    drive.begin()
    drive.complete("d", graph=graph("b undoable; c kept,aside b; s kept", sink="s"))
    drive.complete("d/b", "d/c", "d/s")
    drive.complete("e", graph=graph("j kept; k kept j; s kept k"))
    join(drive, "e/j", "d/c")
    drive.save("e/j")
    # when a handler says what the graph is to end with
    drive.ends("e/k", 1, failed=-1)
    drive.save("e/s")
    if crash:
        drive = after_a_crash(drive)
    # then that goes with the child
    answer = drive.raises("z", permanent=True)
    (recovering,) = [s for s in answer if s.startswith("+recovering")]
    assert recovering.split()[1:] == ["d/b", "d/c", "e/j", "e/k", "e/s", "z"]


def test_so_it_has_if_the_journal_did_not_know_the_graph():
    drive = Drive(graph("d kept; e kept d; z kept e"), on_failure="undo")
    drive.begin()
    drive.complete("d", graph=graph("b undoable; c kept,aside b; s kept", sink="s"))
    drive.complete("d/b", "d/c", "d/s")
    drive.complete("e", graph=graph("f kept; s kept f"))
    drive.finish("e/f", graph=graph("j kept; x kept; k kept j x"))
    join(drive, "e/f/j", "d/c")
    # when the graph ends before it is saved
    drive.ends("e/f/x", 1, failed=-1)
    # then what is given for it has joined the child
    drive.save("e/s")
    assert drive.journal[-1].joined == ("d/c",)


def test_a_child_that_everybody_has_joined_for_good_is_forgotten():
    drive = joined("e kept; n default e; z kept n")
    drive.complete("n")
    assert "e/c" not in drive.run.rows


def test_a_node_is_part_of_a_child_if_the_child_waits_for_it():
    drive = Drive(graph("e kept"))
    drive.begin()
    drive.complete("e", graph=graph("f kept; c kept,aside f; s kept", sink="s"))
    drive.complete("e/f", graph=graph("j kept; k kept j"))
    assert starting.is_part_of(drive.run, "e/f/j", "e/c")
    assert not starting.is_part_of(drive.run, "e/s", "e/c")


@pytest.mark.parametrize("kind", ["pure", "loose", "default", "writer"])
def test_only_waits_join(kind):
    drive = Drive(graph(f"e kept; z {kind} e; y kept z"))
    drive.begin()
    drive.complete("e", graph=graph("c kept,aside; s kept", sink="s"))
    drive.complete("e/c", "e/s")
    with pytest.raises(IllegalEvent, match="cannot join"):
        join(drive, "z", "e/c")
