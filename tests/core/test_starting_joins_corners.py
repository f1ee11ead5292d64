"""Corners of joining (design 2.11): what is forgotten, who may join what, and what a graph has joined that ends."""

from onceflow.core.model import events
from onceflow.core.rules import starting
from tests.core.building import Drive, graph

FORK = graph("b undoable; c kept,aside b; s kept", sink="s")
PLAIN_FORK = graph("c kept,aside; s kept", sink="s")


def join(drive, node, *children):
    """It is given what these children gave."""
    return drive.tell(events.Finished(node, drive.running.pop(node), joined=children))


def forked(text, fork=FORK, **settings):
    """`d` has returned a graph with a child, and all of that has come to its end."""
    drive = Drive(graph(text), **settings)
    drive.begin()
    drive.complete("d", graph=fork)
    drive.complete(*(f"d/{node.id}" for node in fork.nodes))
    return drive


# -- who may join ----------------------------------------------------------------------------------------------------


def test_a_child_that_is_forgotten_may_be_joined_and_nobody_is_part_of_it():
    drive = forked("d kept; j kept d; k kept j; z kept k", PLAIN_FORK)
    join(drive, "j", "d/c")
    drive.save("j")
    assert "d/c" not in drive.run.rows
    assert starting.may_join(drive.run, "d/c")
    assert not starting.is_part_of(drive.run, "k", "d/c")


def test_a_child_may_be_joined_before_its_graph_has_its_result():
    drive = Drive(graph("d kept; o kept; z kept d o"))
    drive.begin()
    drive.complete("d", graph=PLAIN_FORK)
    drive.complete("d/c")
    assert starting.may_join(drive.run, "d/c")


# -- what is joined --------------------------------------------------------------------------------------------------


def test_a_graph_that_ends_early_has_not_joined_what_is_forgotten():
    drive = forked("d kept; e kept d; z kept e", PLAIN_FORK)
    drive.complete("e", graph=graph("j kept; k kept j; s kept k"))
    join(drive, "e/j", "d/c")
    drive.save("e/j")
    assert "d/c" not in drive.run.rows
    drive.ends("e/k", 1, failed=-1)
    drive.save("e/s")
    assert drive.journal[-1].joined == ()
    assert drive.play().status == "succeeded"


def test_a_graph_that_ends_early_has_not_joined_what_was_joined_outside_of_it():
    drive = forked("d kept; j kept d; e kept d; z kept e j")
    join(drive, "j", "d/c")
    drive.save("j")
    drive.complete("e", graph=graph("k kept; s kept k"))
    drive.ends("e/k", 1, failed=-1)
    drive.save("e/s")
    assert drive.journal[-1].joined == ()


# -- the result of a graph that ends is a writer ---------------------------------------------------------------------


def test_who_reads_a_writer_that_an_outcome_with_a_join_is_given_for_waits_for_one_save():
    drive = forked("d kept; e kept d; z kept e")
    drive.complete("e", graph=graph("j kept; k kept j; s writer k"))
    join(drive, "e/j", "d/c")
    drive.save("e/j")
    drive.ends("e/k", 1, failed=-1)
    assert "start! z" in drive.save("e/s")


def test_who_reads_such_a_writer_still_waits_for_it_if_its_outcome_is_forgotten():
    """The graph around ends before the outcome of the inner one is saved."""
    drive = forked("d kept; e kept d; z kept e")
    drive.complete("e", graph=graph("f kept,guarding; x default; t kept f x"))
    drive.complete("e/f", graph=graph("j kept; k kept j; s writer k"))
    join(drive, "e/f/j", "d/c")
    drive.save("e/f/j")
    drive.ends("e/f/k", 2, failed=-1)
    drive.ends("e/x", 1, failed=-1)
    assert drive.run.rows["e/f/s"].joined == ()
    assert drive.run.rows["e/t"].uncommitted == 1
    drive.save("e/t")
    assert drive.play().status == "succeeded"


# -- what a transaction would take back ------------------------------------------------------------------------------


def in_transaction(nested):
    drive = Drive(graph("e kept,transaction; n default e"))
    drive.begin()
    drive.complete("e", graph=graph(nested))
    return drive


def test_what_comes_of_something_irrevocable_is_not_taken_back_with_its_transaction():
    drive = in_transaction("i default; a kept i; c kept a")
    drive.complete("e/i", "e/a")
    assert not starting.may_be_taken_back(drive.run, "e/a")


def test_what_comes_of_something_that_was_undone_is_not_taken_back_with_its_transaction():
    drive = in_transaction("u undoable; a kept u; c kept a")
    drive.handle("e/u")
    assert starting.may_be_taken_back(drive.run, "e/u")
    drive.undone("e/u")
    drive.save("e/u")
    drive.complete("e/a")
    assert not starting.may_be_taken_back(drive.run, "e/a")


def test_what_something_irrevocable_stands_on_is_not_taken_back_with_its_transaction():
    drive = in_transaction("u undoable; i default u; a kept i; c kept a")
    drive.finish("e/u")
    assert starting.may_be_taken_back(drive.run, "e/u")
    drive.save("e/u")
    assert starting.may_be_taken_back(drive.run, "e/u"), "e/i may turn out never to have started"
    drive.finish("e/i")
    assert not starting.may_be_taken_back(drive.run, "e/u")


# -- what was abandoned ----------------------------------------------------------------------------------------------


def test_who_reads_a_join_of_what_was_abandoned_starts_when_what_was_written_there_is_durable():
    # given a graph that has ended, with a child in it that has come to its end
    drive = Drive(graph("e kept; n default e"), on_failure="undo")
    drive.begin()
    drive.complete("e", graph=graph("f kept,guarding; j kept f; m kept j; a kept f; c kept a m"))
    drive.complete("e/f", graph=graph("u undoable; k kept,aside u; x kept; y kept x", sink="y"))
    drive.complete("e/f/u", "e/f/k")
    drive.ends("e/f/x", 2, failed=-1)
    drive.save("e/f/y")
    # when the child is abandoned, because a saga takes it back, and the run is resumed
    drive.raises("e/a", permanent=True)
    assert "+recovering e/f/k e/f/u" in drive.end("e/j")
    drive.undone("e/f/u")
    assert drive.status == "undone"
    again = drive.reload()
    again.begin()
    again.tell(events.Resume())
    # then it may be joined like any that was abandoned when its graph ended
    join(again, "e/j", "e/f/k")
    assert "start! e/m" in again.save("e/j")


def test_what_is_abandoned_after_the_outcome_of_its_graph_is_forgotten_has_joined_nothing():
    # given a saga that takes back a child in a graph that has ended, and is stuck
    drive = Drive(graph("e kept; n default e; z kept n"), on_failure="undo")
    drive.begin()
    drive.complete("e", graph=graph("u undoable; k kept,aside u; x kept; y kept x", sink="y"))
    drive.complete("e/u", "e/k")
    drive.ends("e/x", 1, failed=-1)
    drive.save("e/y")
    drive.complete("n")
    assert "+recovering e/k e/u" in drive.raises("z")
    for _ in range(4):
        drive.undo_fails("e/u")
        drive.elapse("e/u")
    assert "park e/u" in drive.undo_fails("e/u")
    # when the run is resumed
    again = drive.reload()
    again.begin()
    again.tell(events.Resume())
    assert "e/y" not in again.run.rows
    again.undone("e/u")
    # then the child is abandoned, and reads nothing new
    assert again.run.rows["e/k"].abandoned
    assert again.run.rows["e/k"].joined == ()
    assert again.play().status == "succeeded"


def test_what_is_read_anyway_is_not_joined_as_well():
    drive = Drive(graph("a kept; j kept a; z kept j"))
    drive.begin()
    drive.complete("a")
    join(drive, "j", "a")
    assert [parent.id for parent, _ in drive.run.rows["j"].parents] == ["a"]
