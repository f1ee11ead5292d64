"""Workers run no longer than their leash, also if their engine does nothing."""

from __future__ import annotations

import math
import time
from pathlib import Path

from onceflow.backends.local import leash
from onceflow.backends.local.leash import Leash
from onceflow.backends.local.messages import Spawn
from onceflow.backends.local.server import Server


def test_a_leash_tells_what_is_left_of_it(tmp_path: Path) -> None:
    held = Leash(tmp_path)
    descriptor = leash.find(tmp_path)
    assert descriptor is not None

    assert leash.left(descriptor) is None
    held.lengthen(time.clock_gettime(time.CLOCK_BOOTTIME) + 1000)
    left = leash.left(descriptor)
    assert left is not None
    assert 0 < left <= 1000
    held.lengthen(1.0)
    assert (leash.left(descriptor) or math.inf) < 0
    held.close()
    held.lengthen(2.0)  # whoever renews it may be late


def test_without_one_there_is_no_end(tmp_path: Path) -> None:
    assert leash.find(tmp_path) is None


def test_a_fork_server_ends_with_its_leash(tmp_path: Path) -> None:
    """Given a worker that waits for work, when the leash ends, then server and worker do, although nobody asked."""
    held = Leash(tmp_path)
    server = Server(tmp_path, [], {})
    server.connection.setblocking(True)
    server.spawn(Spawn(False, 20, False))
    messages = [server.receive(), server.receive()]  # it is ready, and a worker was born
    assert None not in messages

    held.lengthen(1.0)

    assert server._process.wait(60) == 0
    held.close()
    server.connection.close()
