"""Runs over a part of a graph, in corners: what is given twice, what shares with it, what is settled because of it."""

from onceflow.core.model import events
from tests.core.building import Drive, graph


def partial(text, members, *given):
    drive = Drive(graph(text), members=members.split())
    drive.begin()
    for node in given:
        drive.tell(events.Given(node))
    return drive


# -- what is given -----------------------------------------------------------------------------------------------------


def test_what_is_called_quiet_twice_counts_once():
    drive = partial("a kept; b kept; n default a b; z kept n", "n", "a", "b")
    drive.tell(events.Given("a", quiet=True))
    assert drive.tell(events.Given("a", quiet=True)) == []
    assert drive.tell(events.Given("b", quiet=True)) == ["+begun n", "start! n"]


def test_what_is_called_reproducible_twice_counts_once():
    drive = partial("a kept; b kept; u undoable a b; z kept u", "u", "a", "b")
    drive.tell(events.Given("a", reproducible=True))
    assert drive.tell(events.Given("a", reproducible=True)) == []
    assert drive.tell(events.Given("b", reproducible=True))[-1] == "start! u"


def test_what_passed_a_given_output_on_has_it_again_when_it_is_given_again():
    drive = partial("a kept; b pure a; k kept; c kept b k; z kept c", "b k c", "a")
    drive.finish("b", holding="a")
    drive.tell(events.Given("a", available=False))
    assert drive.lose("b.1") == ["need a"]
    drive.complete("k")
    assert drive.tell(events.Given("a")) == ["start c"]


def test_what_is_read_outside_writes_no_done_record():
    drive = partial("a default,unsaved; b kept after:a; x kept a; z kept b x", "a b")
    assert drive.finish("a") == ["start b"]


# -- what is settled ---------------------------------------------------------------------------------------------------


def test_what_is_given_is_not_settled_by_members_that_read_it():
    drive = partial("a loose; s kept a; n default s; z kept n", "s n", "a")
    drive.complete("s")
    assert not drive.run.rows["s"].settled
    assert drive.tell(events.Given("a", quiet=True))[-2:] == ["+begun n", "start! n"]


def test_a_repeatable_task_outside_keeps_members_waiting_until_it_is_called_quiet():
    drive = partial("l loose; p pure l; s kept p; n default s; z kept n", "s n", "p")
    drive.complete("s")
    assert not drive.run.rows["s"].settled
    assert drive.tell(events.Given("p", quiet=True))[-2:] == ["+begun n", "start! n"]


def test_members_that_waited_for_a_task_outside_are_settled_together_when_it_is_called_quiet():
    """`s` and `l` need each other, and both need `f`."""
    drive = partial("k loose; f pure k; l loose f; s kept l f; n default s; z kept n", "l s n", "f")
    drive.finish("l")
    drive.complete("s")
    assert drive.tell(events.Given("f", quiet=True))[-2:] == ["+begun n", "start! n"]


def test_so_they_are_if_the_task_outside_is_nondeterministic():
    drive = partial("f loose; l loose f; s kept l f; n default s; z kept n", "l s n", "f")
    drive.finish("l")
    drive.complete("s")
    assert drive.tell(events.Given("f", quiet=True))[-2:] == ["+begun n", "start! n"]


def test_nobody_in_a_part_can_answer_for_a_graph_whose_result_is_elsewhere():
    drive = partial("a kept; b kept a; c kept; z kept b c", "a b c")
    assert drive.ends("a", 0) == ["+failed a 1 final", "stop c"]
    assert drive.end("c")[-1] == "finish failed failed=a"


# -- the check of graphs that members return ---------------------------------------------------------------------------


def test_what_is_outside_is_not_judged_with_a_graph_that_a_member_returns():
    drive = partial("l loose; e kept l; n default l; z kept e n", "e n", "l")
    assert drive.finish("e", graph=graph("x kept; y kept x"))[0] == "save e"


def test_the_last_members_of_a_part_are_judged_with_a_graph_that_another_returns():
    """`p` reads `e`, which is not saved: no record says that `e` is done, and `n` would wait for ever."""
    drive = partial("e default,unsaved; n default after:e; z kept n", "e n")
    assert drive.finish("e", graph=graph("p pure"))[0] == "refuse e UnsafeGraph"
