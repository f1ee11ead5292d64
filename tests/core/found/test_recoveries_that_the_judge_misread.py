"""Schedules that the simulation took for violations: the judge was wrong about what a recovery takes."""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_what_waits_for_a_parent_that_runs_again_is_no_reason_to_keep_what_was_read_before():
    """seed 261119210340217569 --actors --queues --forks: an error of the judge, which took `child1/c` for done, and so
    for settled with `fork1`, while it waited to run again for what it had lost."""
    inner = graph("a kept; c pure,saved a")
    returned = graph("c kept; child1 pure,saved; fork1 kept,aside child1", sink="c", returning={"child1": [inner]})
    play_script(
        graph("c kept; d kept c", returning={"c": [returned]}),
        """
        finish c
        save c.0
        finish c/child1 holding new new
        finish c/child1/a
        finish c/child1/c holding actor
        finish c/fork1 holding actor
        save c/fork1.0
        lose c/child1.2 c/child1/c.1
        save c/fork1.1
        lose c/child1/a.0
        """,
    )


def test_a_writer_that_is_saved_in_part_is_dropped_before_the_rest_of_a_recovery():
    """seed 261119210340597557 --actors: an error of the judge, which took the graph of `b/c` for gone with the writer,
    while the saga that takes both back was still to undo `b/a`."""
    inner = graph(
        "a undoable; b kept a; c kept b; d writer c; e kept d",
        returning={"a": [graph("a kept,parts=2; b kept a.1")], "c": [graph("b kept")]},
    )
    play_script(
        graph("b kept; c kept b", returning={"b": [inner]}),
        """
        finish b
        save b.0
        finish b/a
        save b/a.0
        answer b/a/a for 2
        save b/a/b.0
        finish b/b
        save b/b.0
        finish b/c
        finish b/c/b holding new b/c.0
        save b/c.0
        save b/c/b.0
        save b/c/b.1
        save b/c/b.2
        finish b/d holding b/c/b.0 b/c/b.1 b/c/b.2
        save b/d.0
        save b/d.1
        save b/d.2
        save b/d.3 good
        commit
        crash
        """,
        on_failure="undo",
    )
