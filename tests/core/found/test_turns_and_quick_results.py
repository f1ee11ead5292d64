"""Found by thinking: turns, queues, transactions in tail position, and what is let go."""

import pytest

from onceflow.core.model import events
from onceflow.core.run import Run
from onceflow.errors import IllegalEvent
from tests.core.building import Drive
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import Player, play_script
from tests.tools.simulation.story import Story


def test_a_sink_that_takes_turns_itself_and_returns_a_graph_gives_back_the_turn_it_stands_for():
    """nothing is left to do, but the run is running: e is in flight until its result is there, which is g's, and g is
    in flight itself until that of h is there."""
    inner = graph("g kept,turn=1,limit=1", returning={"g": [graph("h kept")]})
    loop = graph("e kept,turn=1,limit=1; f kept,turn=2; s kept e f", returning={"e": [inner]})
    play_script(graph("L kept; z kept L", returning={"L": [loop]}), "finish L")
    play_script(graph("L kept; z kept L", returning={"L": [loop]}), "finish L\nsave L.0\nfinish L/e\nsave L/e.0\ncrash")


def test_all_is_undone_if_that_is_asked_for_while_a_transaction_is_taken_back():
    """Finish(status='failed', kept=('u0',)), but the effects that stay are ()"""
    steps = """
        finish u0
        save u0.0
        finish t
        save t.0
        finish t/u
        save t/u.0
        fail t/x for good
        cancel with undo
        """
    told = graph("u0 undoable; t kept,transaction u0; z kept t", returning={"t": [graph("u undoable; x kept u")]})
    assert play_script(told, steps) == "undone"
    assert play_script(told, f"{steps}\ncommit\ncrash") == "undone"
    assert play_script(told, f"{steps}\nundone t/u!undo\ncommit\ncrash") == "undone"


def test_a_result_that_was_quicker_than_the_end_of_its_graph_counts_also_if_it_is_lost_before_all_has_ended():
    """The judge does not see this one: what is given instead of the result is an outcome like any other."""
    told = graph("a kept; z kept a", returning={"a": [graph("n default; s default; fork0 kept,aside n", sink="s")]})
    driver = Driver(told, Run, "keep", True, Checker(True), Story())
    steps = """
        finish a
        save a.0
        land a/n
        land a/s
        expire a/s at 1
        finish a/s!late
        carry out start z
        lose a/s.0 running z
        finish a/n!late
        """
    Player(driver).play(steps.strip().splitlines())
    version = driver.rows["a/s"].version
    assert version is not None
    assert not version.handled


def test_what_would_be_the_result_of_a_graph_whose_time_is_over_returns_another_one_instead():
    """the recovery takes ('a~2/s',), which nothing requires: that was the judge's mistake, who took it for a result."""
    inner = graph("s default,deterministic", returning={"s": [graph("s kept")]})
    play_script(
        graph("a kept; z kept a", returning={"a": [graph("s kept", returning={"s": [inner]})]}),
        """
        finish a
        save a.0
        finish a/s
        save a/s.0
        expire a~2/s at 1
        finish a~2/s!late
        """,
    )


def test_nobody_can_try_a_whole_run_again():
    """IllegalEvent: there is no node '' in this run (when the delay was over)"""
    drive = Drive(graph("a kept; z kept a"))
    drive.begin()
    with pytest.raises(IllegalEvent):
        drive.tell(events.Ends("a", drive.running["a"], 0, 0, again=True))
    drive.finish("a")


def test_what_opens_into_more_and_runs_again_does_not_let_two_others_open_at_once():
    """b, which opens, runs again while a opens; when b is done, a still opens, and c has to wait (2.10)."""
    loop = graph("b pure,turn=0,opens,limit=3; a kept,turn=1,opens; c kept,turn=2,opens; r kept b; s kept a c r")
    drive = Drive(graph("l kept; z kept l"))
    drive.begin()
    drive.finish("l", graph=loop)
    drive.finish("l/b")
    assert drive.running.keys() == {"l/a", "l/r"}
    attempts = (("l/r", drive.running.pop("l/r")),)
    drive.tell(events.Lost((("l/b", 0),), attempts))
    assert drive.running.keys() == {"l/a", "l/b"}
    drive.finish("l/b")
    assert drive.running.keys() == {"l/a", "l/r"}
    drive.finish("l/a")
    assert drive.running.keys() == {"l/c", "l/r"}


def test_what_has_joined_others_and_is_not_saved_when_its_graph_ends_holds_nobody_up():
    """a~2/s: uncommitted is kept as 1, by definition it is 0"""
    deep = graph("s kept; fork0 kept,aside", sink="s", returning={"s": [graph("s kept")]})
    inner = graph("u kept; s kept u", returning={"u": [deep]})
    play_script(
        graph("a kept; z kept a", returning={"a": [graph("s kept", returning={"s": [inner]})]}),
        """
        finish a
        save a.0
        finish a/s
        save a/s.0
        finish a~2/u
        save a~2/u.0
        finish a~2/u/fork0
        save a~2/u/fork0.0
        finish a~2/u/s
        finish a~2/u~2/s joining a~2/u/fork0
        expire a~2/u/s at 1
        """,
    )


def test_what_was_joined_by_something_that_is_dropped_is_forgotten_all_the_same():
    """Nobody reads a/fork0 any more when a~2/fork0, which had joined it, is lost and joins nobody the second time."""
    inner = graph("s kept; fork0 kept,aside", sink="s")
    told = graph("s kept; fork0 kept,aside", sink="s", returning={"s": [inner]})
    driver = Driver(graph("a kept; z kept a", returning={"a": [told]}), Run, "keep", True, Checker(True), Story())
    steps = """
        finish a
        save a.0
        finish a/s
        finish a/fork0
        save a/fork0.0
        save a/s.0
        finish a~2/fork0 joining a/fork0
        finish a~2/s joining a/fork0
        save a~2/s.0
        lose a~2/fork0.0
        """
    Player(driver).play(steps.strip().splitlines())
    assert "Release(node='a/fork0'" in driver.story.text()


@pytest.mark.parametrize("again", ["", " again"])
def test_what_was_to_end_in_a_graph_whose_time_is_over_ends_also_if_that_has_its_result_first(again):
    """run a/c/x starts in a graph that a handler has answered for"""
    inner = graph("u undoable; v default; x kept u; y kept v x")
    told = graph("c kept,transaction; s default; fork0 kept,aside c", sink="s", returning={"c": [inner]})
    play_script(
        graph("a kept; z kept a", returning={"a": [told]}),
        f"""
        finish a
        save a.0
        finish a/c
        save a/c.0
        finish a/c/u
        save a/c/u.0
        land a/c/v
        land a/s
        answer a/c/x for 2{again}
        expire a/s at 1
        finish a/s!late
        finish a/c/v!late
        """,
    )


@pytest.mark.parametrize("validate", [True, False])
def test_chunks_do_not_share_what_a_returned_graph_makes_change(validate):
    """nothing is left to do, but the run is running"""
    loop = graph(
        "e pure; c1 kept,turn=1,limit=1 e; c2 kept,turn=2 e; s kept c1 c2",
        returning={"e": [graph("x loose")], "c1": [graph("n default")]},
    )
    status = play_script(
        graph("L kept; z kept L", returning={"L": [loop]}), "finish L\nsave L.0\nfinish L/e", validate=validate
    )
    assert status == "failed"


def test_they_may_share_the_result_of_a_graph_that_is_saved():
    loop = graph(
        "e kept; c1 kept,turn=1,limit=1 e; c2 kept,turn=2 e; s kept c1 c2",
        returning={"e": [graph("y kept,turn=1,limit=1; x loose y")], "c1": [graph("n default")]},
    )
    assert (
        play_script(graph("L kept; z kept L", returning={"L": [loop]}), "finish L\nsave L.0\nfinish L/e") == "succeeded"
    )
