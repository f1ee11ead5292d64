"""Found by hunting mutants: what kept a row from being settled is taken away with the graph that it was in."""

import pytest

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("validate", [True, False])
def test_what_waited_for_a_graph_that_is_taken_back_is_settled_without_it(validate):
    """e/f/w: settled is kept as False, by definition it is True; without validation, the run is stuck."""
    inner = graph("w undoable; y kept w", returning={"w": [graph("r kept; q kept r")]})
    around = graph("f kept; a kept; c kept f a", returning={"f": [inner]})
    status = play_script(
        graph("e kept,transaction; z kept e", returning={"e": [around]}),
        """
        finish e
        save e.0
        finish e/f
        save e/f.0
        finish e/f/w
        save e/f/w.0
        answer e/f/w/r for 2 failing 3
        answer e/a for 1 again
        save e/f/y.0
        undone e/f/w!undo
        """,
        validate=validate,
    )
    assert status == "succeeded"
