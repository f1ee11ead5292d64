"""Found by reading: a graph is accepted because of what a handler gave, and that is dropped before it is settled."""

import pytest

from onceflow.core.rules import ending, outputs, starting
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script
from tests.tools.simulation.world import Violation

LATER = {"q": [None, graph("n default")]}
"""What `q` returns when it runs for the second time, or if the script says so: something irrevocable."""


@pytest.mark.parametrize(
    ("made", "script"),
    [
        (
            graph("a loose; p pure a; q kept a; c kept p q", returning=LATER),
            "finish a / answer p / finish q as 1 / save q.0 / lose p.0 / finish p",
        ),
        (
            graph("a loose; b loose; p pure a b; w kept b; q kept a; c kept p q w", returning=LATER),
            (
                "finish a / finish b / answer p / save p.0 / finish q as 1 / save q.0 / lose b.0 running w / "
                "finish b / finish p"
            ),
        ),
        (
            graph(
                "a loose; b loose; e pure,guarding a b; w kept b; q kept a; c kept e q w",
                returning={"e": [graph("x pure; y pure x"), None], **LATER},
            ),
            (
                "finish a / finish b / finish e / answer e/x for 1 / save e.0 / save e/y.0 / finish q as 1 / "
                "save q.0 / lose b.0 running w / finish b / finish e as 1"
            ),
        ),
        (
            graph(
                "t kept,transaction; z kept t",
                returning={
                    "t": [
                        graph(
                            "u undoable; a loose; p pure a u; s kept a; q kept s; k kept; c kept p q k", returning=LATER
                        )
                    ]
                },
            ),
            (
                "finish t / save t.0 / finish t/u / save t/u.0 / finish t/a / answer t/p / save t/p.0 / finish t/s / "
                "save t/s.0 / finish t/q as 1 / answer t/k for 1 again / undone t/u!undo / elapse t"
            ),
        ),
    ],
)
@pytest.mark.parametrize("validate", [True, False])
def test_a_run_that_can_never_go_on_fails(made, script, validate):
    status = play_script(made, script.replace(" / ", "\n"), validate=validate)
    assert status == "failed"


def test_a_run_is_not_said_to_be_stuck_while_something_may_start(monkeypatch):
    """The judge notices."""
    monkeypatch.setattr(ending, "is_stuck", lambda run: not run.saving)
    with pytest.raises(Violation, match="something is under way"):
        play_script(graph("a kept; b kept a"), "fail a again")
    monkeypatch.setattr(starting, "may_begin", lambda row: False)
    with pytest.raises(Violation, match=r"but \['b'\] may start"):
        play_script(graph("a kept; b default a"), "")


def test_a_run_whose_graph_is_safe_is_not_said_to_be_stuck(monkeypatch):
    """The judge notices, also if nothing may start by the letter."""
    monkeypatch.setattr(outputs, "ask_to_save", lambda run, row: None)
    with pytest.raises(Violation, match="the graph is safe"):
        play_script(graph("a kept; b default a; c kept b"), "")


@pytest.mark.parametrize(
    "script",
    [
        "finish a / finish b / finish e / answer e/x for 1 / save e.0 / save e/y.0 / finish q as 1 / lose b.0",
        "finish a holding new / finish b / finish e holding new new large / answer e/x for 1 / finish q as 1",
    ],
)
def test_whether_a_graph_is_accepted_that_a_given_outcome_makes_safe_is_left_open(script):
    """there is no node e/x; Save(node='q', …), but that is not in memory (errors of the judge)"""
    made = graph(
        "a loose; b loose; e pure,guarding a b; w kept b; q kept a; c kept e q w",
        returning={"e": [graph("x pure; y pure x"), None], **LATER},
    )
    assert play_script(made, script.replace(" / ", "\n")) in ("failed", "succeeded")
