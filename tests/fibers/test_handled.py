"""Which handlers are asked about what a called fiber raises: its own, then those of the blocks around the call."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow.testing import MemoryEngine, crash_everywhere
from tests.fibers import handled
from tests.fibers.test_segments import ends

WHEN = pytest.mark.parametrize("when", ["at once", "later"])


@WHEN
def test_handlers_of_a_fiber_are_asked_first_however_it_is_called(when: str) -> None:
    assert MemoryEngine().run(handled.in_blocks.bind(when)) == [
        *7 * ["its own"],
        *("its own", None),
        *2 * ["its own"],
    ]


@WHEN
def test_handlers_of_blocks_cover_what_called_fibers_raise(when: str) -> None:
    assert MemoryEngine().run(handled.around_bare.bind(when)) == 6 * ["the block's"]


def test_what_handlers_of_blocks_say_of_called_fibers_holds_whatever_crashes_when() -> None:
    crash_everywhere(ends(lambda: handled.around_bare.bind("later"), 6 * ["the block's"]))


@pytest.mark.parametrize("called", [handled.passing, handled.passing.options(name="other")], ids=["plain", "options"])
def test_what_was_tried_again_in_a_called_fiber_is_not_waited_for_once_more(called: Any) -> None:
    engine = MemoryEngine()
    began = engine.clock.now
    assert engine.run(handled.around_passing.bind(called)) == "no answer, ['__notes__']"
    engine.assert_ran(handled.fail, times=3)
    assert engine.clock.now - began == pytest.approx(20)


def test_a_transaction_is_tried_again_whatever_a_fiber_in_it_has_passed_on() -> None:
    handled.tried.clear()
    assert MemoryEngine().run(handled.stubborn.bind()) == "asked"
    assert len(handled.tried) == 3
