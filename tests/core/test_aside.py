"""Nodes that stand aside: forked fibers, from which nothing leads to the sink (design 2.11)."""

import pytest

from onceflow.core.checks.check import check
from onceflow.core.model import commands, events
from onceflow.errors import InvalidGraph, UnsafeGraph
from tests.core.building import Drive, graph
from tests.tools.simulation.script import play_script
from tests.tools.simulation.structure import structure_of

FORK = "c kept,aside; s kept"


def begun(text="e kept"):
    drive = Drive(graph(text))
    drive.begin()
    drive.finish("e", graph=graph(FORK, sink="s"))
    drive.save("e")
    return drive


def test_what_stands_aside_starts_with_its_graph_and_holds_nobody_up():
    drive = Drive(graph("e kept; z kept e"))
    drive.begin()
    assert drive.finish("e", graph=graph(FORK, sink="s")) == ["save e"]
    assert drive.save("e") == ["+saved e as graph", "start e/c", "start e/s"]
    assert drive.finish("e/s") == ["save e/s", "start z"]


def test_its_graph_begins_when_the_journal_has_it_whatever_becomes_of_the_refs_in_it():
    drive = Drive(graph("e kept"))
    drive.begin()
    drive.finish("e", graph=graph(FORK, sink="s"), holding="new")
    assert drive.save("e") == ["+saved e as graph with 1 refs", "save e.1", "start e/c", "start e/s"]


def test_a_run_ends_after_all_that_stands_aside():
    drive = begun()
    drive.finish("e/s")
    assert drive.save("e/s") == ["+saved e/s"]
    drive.finish("e/c")
    assert drive.save("e/c")[-1] == "finish succeeded"


def test_so_it_does_if_what_stands_aside_reads_a_graph():
    drive = Drive(graph("e kept"))
    drive.begin()
    drive.complete("e", graph=graph("b kept; c kept,aside b; s kept", sink="s"))
    drive.complete("e/b", graph=graph("x kept"))
    assert "finish succeeded" not in drive.complete("e/s")
    drive.complete("e/b/x")
    assert drive.complete("e/c")[-1] == "finish succeeded"


def test_what_stands_aside_returns_no_graph_itself():
    drive = begun()
    assert drive.finish("e/c", graph=graph("x kept"))[:2] == ["refuse e/c InvalidGraph", "+failed e/c 1 final"]


def test_it_is_dropped_with_the_task_that_returned_it():
    # given a task that is not saved yet, and what it returned is lost
    drive = Drive(graph("e kept"))
    drive.begin()
    drive.finish("e", graph=graph(FORK, sink="s"))
    drive.tell(events.Lost((("e", 0),)))
    # when it returns something else
    drive.finish("e", graph=graph("s kept"))
    drive.save("e")
    drive.finish("e/s")
    # then nobody waits for what it had returned before
    assert drive.save("e/s")[-1] == "finish succeeded"


def test_what_stands_aside_has_to_be_saved():
    with pytest.raises(InvalidGraph, match="must be saved"):
        graph("c loose,aside; s loose", sink="s")


@pytest.mark.parametrize("kind", ["undoable", "default", "writer"])
def test_what_stands_aside_has_no_effect(kind):
    with pytest.raises(InvalidGraph, match="neither have an effect nor write"):
        graph(f"c {kind},aside; s loose", sink="s")


def test_what_leads_nowhere_and_does_not_stand_aside_is_refused():
    with pytest.raises(InvalidGraph, match="nothing leads from 'c'"):
        graph("c kept; s kept", sink="s")


def test_a_graph_is_checked_together_with_what_stands_aside_and_reads_it():
    # given something that reads an undoable task, which comes after what a task without a save returns
    drive = Drive(graph("e loose,saved"))
    drive.begin()
    drive.complete("e", graph=graph("b pure; s kept; u undoable after:b; f kept,aside u", sink="s"))
    # when that returns a graph which could be different the next time
    answer = drive.finish("e/b", graph=graph("x loose"))
    # then it is refused
    assert "+failed e/b 1 final" in answer


# -- the check: what stands aside is joined before the graph has its result --------------------------------------------


@pytest.mark.parametrize(
    ("around", "nested"),
    [
        ("n loose; e kept n; g kept e n", FORK),
        ("n loose; e kept n; g default e n", FORK),
        ("n loose; e pure,saved n; g kept e n", "c pure,saved,aside; s pure"),
        ("n undoable,unsaved; e kept n; g kept e n", FORK),
        ("e kept; g kept e", "x loose; c kept,aside x; s kept x"),
    ],
)
def test_what_stands_aside_must_not_wait_for_what_comes_after_the_result(around, nested):
    drive = Drive(graph(around))
    drive.begin()
    for node in around.split("; ")[:-2]:
        drive.complete(node.split()[0])
    answer = drive.finish("e", graph=graph(nested, sink="s"))
    assert answer[0] == "refuse e UnsafeGraph"
    assert "+failed e 1 final" in answer


@pytest.mark.parametrize(
    ("around", "nested"),
    [
        ("n loose; e kept n; g kept e", FORK),
        ("n kept; e kept n; g kept e n", FORK),
        ("n pure; e kept n; g kept e n", FORK),
        ("e kept; g kept e", "x loose; c kept,aside x; s kept"),
        ("e kept; g kept e", "x loose; y kept x; c kept,aside x; s kept y"),
    ],
)
def test_what_stands_aside_may_wait_for_others(around, nested):
    drive = Drive(graph(around))
    drive.begin()
    for node in around.split("; ")[:-2]:
        drive.complete(node.split()[0])
    answer = drive.finish("e", graph=graph(nested, sink="s"))
    assert not any(said.startswith("refuse") for said in answer)


def test_the_message_says_what_was_forked_and_what_to_save():
    with pytest.raises(UnsafeGraph) as caught:
        check(graph("x loose; c kept,aside x; s kept x", sink="s"))
    assert caught.value.proposals == {"s (join)": ("x",)}
    assert "c was forked, and cannot be joined while x might have to run again." in str(caught.value)
    assert "s reads x too, and would still be waiting." in str(caught.value)


def test_neither_may_a_graph_make_it_wait_that_is_returned_later():
    # given something that stands aside and shares what it reads with the sink
    drive = Drive(graph("e kept"))
    drive.begin()
    drive.complete("e", graph=graph("x pure; c kept,aside x; s kept x", sink="s"))
    # when that turns out to be a graph whose result may change until the sink is saved
    answer = drive.finish("e/x", graph=graph("a loose"))
    # then it is refused, as the sink would wait for what stands aside
    assert answer[0] == "refuse e/x UnsafeGraph"


def test_but_it_may_once_the_result_is_there():
    drive = Drive(graph("e kept"))
    drive.begin()
    drive.complete("e", graph=graph("x pure; c kept,aside x; s kept", sink="s"))
    drive.complete("e/s")
    assert "refuse e/x UnsafeGraph" not in drive.finish("e/x", graph=graph("a loose"))


def test_what_stands_aside_is_not_the_sink():
    with pytest.raises(InvalidGraph, match="cannot stand aside"):
        graph("a kept; s kept,aside a", sink="s")


# -- the check: nothing stands aside in a transaction ------------------------------------------------------------------


def refusing(graphs, forker, text="t kept,transaction; z kept t"):
    """What is said when this task forks, after these graphs were returned. The judge has to agree."""
    drive = Drive(graph(text))
    drive.begin()
    for expander, nested in graphs.items():
        drive.complete(expander, graph=graph(nested))
    fork = graph(FORK, sink="s")
    answer = drive.finish(forker, graph=fork)
    returned = {expander: graph(nested) for expander, nested in graphs.items()}
    accepted = structure_of(drive.graph, returned).accepts(forker, fork, list(returned), [])
    said = [str(command.error) for command in drive.commands if isinstance(command, commands.Refuse)]
    assert accepted == (not said)
    return "".join(said), answer


@pytest.mark.parametrize(
    ("graphs", "forker", "transaction"),
    [
        ({}, "t", "t"),
        ({"t": "a kept; y kept a"}, "t/a", "t"),
        ({"t": "a kept; y kept a", "t/a": "b kept; x kept b"}, "t/a/b", "t"),
        ({"t": "a kept,transaction; y kept a", "t/a": "b kept; x kept b"}, "t/a/b", "t/a"),
    ],
)
def test_nothing_stands_aside_in_a_transaction_however_deep(graphs, forker, transaction):
    said, answer = refusing(graphs, forker)
    assert answer[:2] == [f"refuse {forker} InvalidGraph", f"+failed {forker} 1 final"]
    fork = f"'{forker}' forks 'c'"
    assert said.startswith(f"{fork} in the transaction '{transaction}', ")
    assert "Await it there" in said


def test_what_is_in_the_place_of_the_result_of_a_transaction_is_in_it():
    said, _ = refusing({"t": "y kept"}, "t/y")
    assert "in the transaction 't'" in said


@pytest.mark.parametrize("graphs", [{}, {"d": "t kept,transaction; y kept t", "d/t": "x kept"}])
def test_a_fork_may_stand_beside_a_transaction(graphs):
    said, answer = refusing(graphs, "e", "d kept; e kept; z kept d e")
    assert said == ""
    assert "save e" in answer


def test_what_stands_aside_may_come_of_a_transaction():
    status = play_script(
        graph(
            "e kept; z kept e",
            returning={
                "e": [
                    graph(
                        "t kept,transaction; c kept,aside t; s kept",
                        sink="s",
                        returning={"t": [graph("u undoable; y kept u")]},
                    )
                ]
            },
        ),
        "",
    )
    assert status == "succeeded"
