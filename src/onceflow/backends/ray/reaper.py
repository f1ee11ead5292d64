"""Processes that workers on Ray have started and left running, and the reaper, which kills them when the agent is gone.

While an agent lives, it kills what a worker has left when that worker has ended (`worker_startup`). At the end of the
lease the kernel kills the agent, and with it each worker and everything in the worker's process group. What has left
the group is found by its environment (`MARK`), for which a process is needed: the *reaper*. The agent starts it, and it
waits for the end of the agent.

The reaper runs this file as a script, without the rest of the package: it is there at once and needs little memory.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

MARK = "ONCEFLOW_RAY_WORKER"
"""What a worker starts has this in its environment: the door of the agent, and the name under which the worker joined
(`mark_of`)."""

PATIENCE = 5.0
"""Seconds. What is killed and still there after this time hangs in the kernel."""

PAUSE = 0.1
"""Seconds. A worker that the kernel is about to end may start one process more."""


def start(door: str) -> subprocess.Popen[bytes]:
    """The reaper of the agent with this door. It acts when this process has ended."""
    return subprocess.Popen(
        [sys.executable, "-I", __file__, door],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        process_group=0,  # whatever ends the agent's group leaves it alive
    )


def mark_of(door: str, name: str) -> str:
    return f"{door}.{name}"


def kill_left_by(worker: int, mark: str) -> None:
    """Returns when a worker that has ended has left nothing, or only what hangs in the kernel."""
    _kill_all(lambda: _find(f"{MARK}={mark}\0", group=worker))


def main(door: str) -> None:
    sys.stdin.buffer.read()  # returns when the agent has ended
    for _ in range(2):
        _kill_all(lambda: _find(f"{MARK}={mark_of(door, '')}"))
        time.sleep(PAUSE)


def _kill_all(find: Callable[[], list[int]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and (left := find()):
        for pid in left:
            with contextlib.suppress(OSError):  # it has ended, or became another user
                process = os.pidfd_open(pid)
                try:
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    select.select([process], [], [], 0.1)
                finally:
                    os.close(process)


def _find(variable: str, group: int = 0) -> list[int]:
    """The processes whose environment has a variable that starts like this, or that are in this group."""
    wanted = b"\0" + variable.encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != group:
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = b"\0" + file.read() + b"\0"
            except OSError:  # it has ended, or belongs to another user
                continue
            is_zombie = fields[0] == b"Z"
            if not is_zombie and ((group and int(fields[2]) == group) or wanted in environment):
                found.append(int(name))
    return found


if __name__ == "__main__":
    main(sys.argv[1])
