"""A pool of two workers for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.common import Gate, Loop, gate, running_pool


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    with running_pool(tmp_path) as made:
        yield made


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Gate]:
    with gate(tmp_path / "door") as made:
        yield made
