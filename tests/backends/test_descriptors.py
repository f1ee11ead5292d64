"""Workers may have as many descriptors as the system allows; the user's process keeps what it has."""

from __future__ import annotations

import resource
from pathlib import Path

from tests.backends.common import running_pool


def test_only_workers_raise_their_limit(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lower = min(hard, 512)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lower, hard))
    try:
        with running_pool(tmp_path) as loop:
            assert loop.call(resource.getrlimit, resource.RLIMIT_NOFILE) == (hard, hard)
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (lower, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
