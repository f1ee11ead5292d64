"""A new world for each test."""

from __future__ import annotations

import pytest

from tests.fibers.common import world


@pytest.fixture(autouse=True)
def new_world() -> None:
    world.clear()
