"""Found by reading: graphs whose end is taken back, and what others have joined in them."""

import pytest

from onceflow.core.model import records
from onceflow.core.run import Run
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import Player, play_script
from tests.tools.simulation.story import Story

FORK = "r loose; u undoable; g kept r u; c kept,aside r"
FORK_IS_SETTLED = """
    finish t
    save t.0
    finish t/r
    finish t/u
    save t/u.0
    finish t/g
    save t/g.0
    finish t/c
    save t/c.0
"""


def in_a_graph(tasks, ending):
    return graph("t kept; z kept t", returning={"t": [graph(tasks, returning=ending)]})


OUTSIDE = f"{FORK}; e kept; j2 kept; v kept; kk kept; q default j2 kk; y kept g e q v"


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("crash", ["", "commit\ncrash"])
def test_what_was_abandoned_is_settled_with_what_its_graph_has_ended_with(crash, validate):
    """BrokenPromise: t/q is irrevocable and has begun, but t/e/r would have to run again. `f` was settled because `h`,
    which reads `r` as well, was abandoned; but what `e` had ended with is not settled, and when that is taken back,
    `h` is to run."""
    inner = graph("r loose; f kept,aside r; j kept; w kept j; k kept; h kept r k; s kept w h")
    status = play_script(
        in_a_graph(OUTSIDE, {"e": [inner]}),
        f"""
        {FORK_IS_SETTLED}
        finish t/e
        save t/e.0
        finish t/e/r
        finish t/e/f
        save t/e/f.0
        finish t/e/j joining t/c
        save t/e/j.0
        answer t/e/w for 2
        save t/e/s.0
        finish t/j2 joining t/e/f
        save t/j2.0
        cancel with undo
        end t/v!late
        end t/kk!late
        end t/e/k!late
        undone t/u!undo
        carry out finish
        resume
        finish t/kk
        save t/kk.0
        {crash}
        """,
        validate=validate,
    )
    assert status == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
def test_so_is_what_was_dropped_in_a_graph_that_had_ended(validate):
    """BrokenPromise, the same. `f` was joined before the graph ended; `hh` was abandoned when it was undone later."""
    inner = graph(
        "r loose; u undoable; f kept,aside r; hh kept r u; hf kept,aside hh; j kept; w kept j; s kept w", sink="s"
    )
    status = play_script(
        in_a_graph(OUTSIDE, {"e": [inner]}),
        f"""
        {FORK_IS_SETTLED}
        finish t/e
        save t/e.0
        finish t/e/r
        finish t/e/f
        save t/e/f.0
        finish t/e/u
        save t/e/u.0
        finish t/e/hh
        save t/e/hh.0
        finish t/e/hf
        save t/e/hf.0
        finish t/j2 joining t/e/f
        save t/j2.0
        finish t/e/j joining t/c
        save t/e/j.0
        answer t/e/w for 2
        save t/e/s.0
        cancel with undo
        end t/v!late
        end t/kk!late
        undone t/u!undo
        undone t/e/u!undo
        carry out finish
        resume
        finish t/kk
        save t/kk.0
        """,
        validate=validate,
    )
    assert status == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
def test_a_deadline_takes_nothing_back_of_a_transaction_that_had_its_result_when_that_is_lost_later(validate):
    """the recovery takes ('d/tt/u', …), which nothing requires"""
    transaction = graph("u undoable; j pure u")
    inner = graph("tt kept,transaction; n default; s kept tt n", returning={"tt": [transaction]})
    status = play_script(
        graph("d kept; z kept d", returning={"d": [inner]}),
        """
        finish d
        save d.0
        finish d/tt
        save d/tt.0
        finish d/tt/u
        save d/tt/u.0
        finish d/tt/j
        land d/n
        expire d/n at 1
        lose d/tt/j.0
        end d/n!late
        """,
        validate=validate,
    )
    assert status == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
def test_the_delay_of_a_graph_in_one_that_has_ended_is_over(validate):
    """run t/a/b/m starts in a graph that waits to be tried again (an error of the judge)"""
    around = graph("u undoable; b kept; w kept u; s kept b w", returning={"b": [graph("m kept; s kept m")]})
    transaction = graph("a kept; v kept; y kept a v", returning={"a": [around]})
    status = play_script(
        graph("t kept,transaction; z kept t", returning={"t": [transaction]}),
        """
        finish t
        save t.0
        finish t/a
        save t/a.0
        finish t/a/u
        save t/a/u.0
        finish t/a/b
        save t/a/b.0
        answer t/a/b/m for 3 again
        answer t/a/w for 2
        save t/a/s.0
        answer t/v for 1 again
        commit
        crash
        """,
        validate=validate,
    )
    assert status == "succeeded"


@pytest.mark.parametrize("validate", [True, False])
def test_what_a_graph_ends_with_has_not_joined_what_stands_aside_in_it(validate):
    """`x` stands aside in `d`, and was joined in a graph in it that was about to end. A saga that takes `x` back does
    not take back what `d` has ended with (2.14: "that is abandoned"); else the irrevocable `w` would be repeated."""
    inner = graph("u undoable; j kept u; m kept; s kept j m")
    around = graph(
        "ux undoable; x kept,aside ux; c kept,transaction; w default; s kept c w", sink="s", returning={"c": [inner]}
    )
    driver = Driver(
        in_a_graph("d kept; v kept; y kept d v", {"d": [around]}), Run, "keep", validate, Checker(), Story()
    )
    script = """
        finish t
        save t.0
        finish t/d
        save t/d.0
        finish t/d/ux
        save t/d/ux.0
        finish t/d/x
        save t/d/x.0
        finish t/d/c
        save t/d/c.0
        finish t/d/c/u
        save t/d/c/u.0
        land t/d/w
        finish t/d/c/j joining t/d/x
        save t/d/c/j.0
        answer t/d/c/m for 3 again
        answer t/d/w for 2
        undone t/d/c/u!undo
        save t/d/s.0
        cancel with undo
        """
    Player(driver).play(script.strip().splitlines())
    dropped = {node for entry in driver.journal if isinstance(entry[0], records.Dropped) for node in entry[0].nodes}
    assert "t/d/x" in dropped
    assert "t/d/s" not in dropped
