"""Found by reading `core`, not by random schedules: refs, forgotten graphs, records that outlive what they are about."""

from onceflow.testing.simulation.notation import graph
from onceflow.testing.simulation.script import play_script


def test_what_was_expanded_and_dropped_without_a_save_is_trusted_again():
    """BrokenPromise: 'i' is irrevocable and has begun, but 'e', which it builds on, would have to run again"""
    play_script(
        graph("n kept; e pure,saved n; i default e", returning={"e": [graph("x kept"), None]}),
        """
        finish n
        finish e as 0
        lose n.0
        finish n
        save n.0
        finish e as 1
        land i
        commit
        crash
        """,
    )
