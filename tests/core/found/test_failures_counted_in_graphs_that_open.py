"""Delays and counts of failures: what a crash, or a result that is quicker than the end of its graph, leaves of them.

Written by hand, from the text of the law.
"""

from onceflow.core.model import commands
from onceflow.core.model.graph import Graph
from onceflow.core.run import Run
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import Player
from tests.tools.simulation.story import Story

NESTED = graph(
    "d kept; z kept d",
    returning={"d": [graph("i kept; k kept i", returning={"i": [graph("x kept,retries=2; y kept x")]})]},
)


class Played(Player):
    """Plays a script as far as it goes, and no further."""

    def __init__(self, told: Graph, script: str) -> None:
        super().__init__(Driver(told, Run, "keep", True, Checker(), Story()))
        self.driver.begin()
        for line in script.strip().splitlines():
            self._step(line)

    def starts_of(self, node: str) -> int:
        told = [what for kind, what in self.driver.story.entries if kind == "command"]
        return sum(isinstance(what, commands.Start) and what.node == node for what in told)


def test_a_graph_that_waits_to_be_tried_again_waits_after_a_crash_also_if_one_around_it_was_tried_again_before():
    script = """
        finish d
        save d.0
        finish d/i
        save d/i.0
        answer d/i/x for 1 again
        elapse d
        answer d/i/x for 2 again
        commit
        crash
        elapse d
        """
    before = Played(NESTED, script).starts_of("d/i/x")
    assert Played(NESTED, script + "elapse d/i").starts_of("d/i/x") == before + 1


def test_failures_in_a_graph_that_was_tried_again_are_counted_after_a_crash():
    played = Played(
        NESTED,
        """
        finish d
        save d.0
        finish d/i
        save d/i.0
        answer d/i/x for 1 again
        elapse d
        fail d/i/x
        elapse d/i/x
        fail d/i/x
        commit
        crash
        elapse d
        elapse d/i/x
        fail d/i/x
        """,
    )
    assert played.driver.appended.failed == {"d/i/x"}


def test_failures_of_a_graph_are_counted_from_zero_when_one_around_it_is_tried_again():
    for crash in ("", "commit\ncrash\nelapse d"):
        played = Played(
            NESTED,
            f"""
            finish d
            save d.0
            finish d/i
            save d/i.0
            answer d/i/x for 2 again
            elapse d/i
            answer d/i/x for 1 again
            elapse d
            {crash}
            answer d/i/x for 2 again
            """,
        )
        assert played.driver.run.rows["d/i/x"].scope.failures == 1


def test_what_stands_aside_waits_for_its_delay_if_the_result_was_quicker_than_the_end_of_its_graph():
    inner = graph(
        "f kept; fork kept,aside f; v kept,retries=1; fork2 kept,aside v; y default",
        sink="y",
        returning={"f": [graph("x kept; x2 kept x")]},
    )
    played = Played(
        graph("d kept; z kept d", returning={"d": [inner]}),
        """
        finish d
        save d.0
        finish d/f
        save d/f.0
        land d/y
        fail d/v
        answer d/f/x for 2 again
        expire d/y at 1
        finish d/y!late
        """,
    )
    assert played.starts_of("d/v") == played.starts_of("d/f/x") == 1
    assert played.driver.run.rows["d/v"].failures == 1
    for line in ("elapse d/v", "elapse d/f"):
        played._step(line)
    assert played.starts_of("d/v") == played.starts_of("d/f/x") == 2
