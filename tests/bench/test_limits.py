"""Physical limits: numbers that exist, and nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import limits, processes


@pytest.mark.parametrize("limit", [limits.SYNC, limits.COMMIT, limits.SOCKET, limits.WAKE, limits.COPY])
def test_a_limit_can_be_measured_again_and_again(limit: limits.Limit, tmp_path: Path) -> None:
    before = set(processes.descendants(os.getpid()))

    with limit.opened(tmp_path) as measure:
        assert measure() > 0
        assert measure() > 0

    assert set(processes.descendants(os.getpid())) <= before
