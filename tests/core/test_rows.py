"""Rows: the states that one can be in, and the moves between them."""

from typing import get_args

import pytest

from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Node
from onceflow.core.model.rows import MOVES, RowState, Scope, new_row

STATES = get_args(RowState)


def a_row():
    return new_row("a", Node(id="a", task="a", options=Options()), Scope())


def test_the_table_of_moves_has_every_state():
    assert set(MOVES) == set(STATES)
    assert {to for following in MOVES.values() for to in following} == set(STATES)


@pytest.mark.parametrize("to", STATES)
@pytest.mark.parametrize("state", STATES)
def test_a_row_makes_the_moves_of_the_table_and_no_others(state, to):
    row = a_row()
    row.state = state
    if to in MOVES[state]:
        row.move(to)
        assert row.state == to
    else:
        with pytest.raises(AssertionError, match=f"a cannot become {to}: it is {state}"):
            row.move(to)
        assert row.state == state
