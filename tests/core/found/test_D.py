"""What graphs that end, are tried again or are taken back have in common with each other: found by reading.

Played under the judge, and made small.
"""

import pytest

from onceflow.testing.simulation.notation import graph
from onceflow.testing.simulation.script import play_script


@pytest.mark.parametrize("more", ["", "commit\ncrash", "save a~2/c.0\ncommit\ncrash"])
def test_what_a_graph_was_about_to_end_with_is_no_part_of_what_the_one_around_it_ends_with(more):
    """run z is to start, but not all its inputs are available"""
    guarded = graph("b kept,guarding,parts=2", returning={"b": [graph("c kept,parts=2")]})
    play_script(
        graph("a kept,parts=2; z kept a.0", returning={"a": [guarded]}),
        f"""
        finish a
        save a.0
        finish a/b
        save a/b.0
        expire a~2/c at 2
        save a~2/c.0
        expire a~2/c at 1
        save a~2/c.1#2
        {more}
        """,
    )
