"""The pytest plugin of onceflow: fixtures for testing workflows.

It is loaded in every run of pytest wherever onceflow is installed, so it lies outside of the package, and imports
nothing of it until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from onceflow import Engine
    from onceflow.testing import Clock, MemoryEngine


@pytest.fixture
def onceflow_engine() -> Iterator[MemoryEngine]:
    """A new `onceflow.testing.MemoryEngine`, which `onceflow.run` and its siblings use as well. At the end of the test,
    what was to go wrong must have gone wrong."""
    from onceflow.testing import MemoryEngine, use

    engine = MemoryEngine()
    with use(engine):
        yield engine
    engine.close()
    engine.assert_faults_happened()


@pytest.fixture
def onceflow_clock(onceflow_engine: MemoryEngine) -> Clock:
    """The virtual time of `onceflow_engine`."""
    return onceflow_engine.clock


@pytest.fixture
def onceflow_home(tmp_path: Path) -> Iterator[Engine]:
    """A real engine with two worker processes, whose home directory is in `tmp_path`. `onceflow.run` and its siblings
    use it as well."""
    from onceflow import Engine
    from onceflow.testing import use

    engine = Engine(tmp_path / "onceflow", workers=2, durability="process")
    try:
        with use(engine):
            yield engine
    finally:
        engine.close()
