"""Found by reading: a run is cancelled while a fiber waits for a task that is to be tried again later."""

from __future__ import annotations

import pytest

from onceflow import RunCancelled
from onceflow.testing import MemoryEngine
from tests.fibers import tidying_later
from tests.fibers.common import world


def test_a_fiber_is_told_also_while_it_waits_for_what_is_to_be_tried_again_later() -> None:
    engine = MemoryEngine()
    engine.cancel_at(tidying_later.strike)
    began = engine.clock.now
    with pytest.raises(RunCancelled):
        engine.run(tidying_later.trying.bind())
    assert engine.clock.now - began < 30
    world.assert_holds("cleaned up")
