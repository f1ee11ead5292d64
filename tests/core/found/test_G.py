"""Found by thinking: what a load concludes from records that outlive what they were about."""

import pytest

from onceflow.testing.simulation.notation import graph
from onceflow.testing.simulation.script import play_script


def test_a_graph_whose_handled_member_was_dropped_is_trusted_again():
    """BrokenPromise: the journal was told not to trust e, because of what a handler gave in its graph; that is gone."""
    play_script(
        graph("e pure; n default e", returning={"e": [graph("x pure; s pure x")]}),
        """
        finish e
        answer e/x
        lose e/x.0
        finish e/x
        finish e/s
        land n
        commit
        crash
        """,
    )


CANCELLED_LATE = """
    finish u
    save u.0
    finish t
    save t.0
    finish t/v
    save t/v.0
    fail t/f for good
    {}
    cancel with undo
    {}
"""


@pytest.mark.parametrize("crash", ["", "commit\ncrash"])
def test_who_cancels_while_a_transaction_is_taken_back_has_the_rest_undone_as_well(crash):
    """The run said that it keeps u, on which nothing stands."""
    status = play_script(
        graph("u undoable; t kept,transaction; z kept u t", returning={"t": [graph("v undoable; f kept v")]}),
        CANCELLED_LATE.format(crash, crash),
    )
    assert status == "undone"
