"""Runs that are cancelled, and wait while they clean up."""

from __future__ import annotations

import threading

import pytest

from onceflow import Engine
from onceflow.driver import fiber_cancellation
from tests.fibers.tidying import tidying
from tests.helpers.waiting import until


def test_a_fiber_that_sleeps_while_it_cleans_up_has_no_more_time_than_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fiber_cancellation, "TIME", 2.0)
    handle = engine.run_async(tidying.bind())
    until(lambda: engine.status(handle.id) == "waiting")
    threading.Thread(target=handle.cancel, daemon=True).start()
    until(lambda: engine.status(handle.id) == "cancelled")
