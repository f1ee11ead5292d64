"""What the tests of the engine share: tasks that leave traces, doors that hold tasks, scripts that run as processes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onceflow import task

LONG = 60.0
"""Seconds after which a test gives up waiting. Nothing here takes that long unless something is broken."""


def note(path: str | Path, line: object) -> None:
    """Leave a trace, in one write."""
    with open(path, "a") as file:
        file.write(f"{line}\n")


def traces(path: str | Path) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def until(condition: Callable[[], Any]) -> Any:
    """Waits for something that only looking can tell."""
    deadline = time.monotonic() + LONG
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)
    return found


class Door:
    """Two named pipes. A task that passes waits for the test, which thereby knows that the task runs."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        os.mkfifo(self.path + ".here")
        self._here = os.open(self.path + ".here", os.O_RDWR | os.O_NONBLOCK)
        self._open = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    def wait(self) -> int:
        """Returns when a task is at the door: the process it is in."""
        ready, _, _ = select.select([self._here], [], [], LONG)
        assert ready, "nobody came"
        return int(os.read(self._here, 8))

    def open(self, count: int = 1) -> None:
        os.write(self._open, b"." * count)

    def close(self) -> None:
        os.close(self._here)
        os.close(self._open)


def knock(path: str) -> None:
    """Says that it is there, waits until it is let through."""
    with open(path + ".here", "wb", buffering=0) as here:
        here.write(b"%8d" % os.getpid())
    with open(path, "rb", buffering=0) as opened:
        opened.read(1)


def run_script(folder: Path, body: str, *args: str, file: str = "script.py", check: bool = True, **env: str) -> str:
    """Runs a script in a folder as a user would, with the home directory `home` in there. Returns what it printed."""
    process = start_script(folder, body, *args, file=file, **env)
    output, errors = process.communicate(timeout=LONG)
    if check:
        assert process.returncode == 0, errors
    return output if check else output + errors


def start_script(folder: Path, body: str, *args: str, file: str = "script.py", **env: str) -> subprocess.Popen[str]:
    script = folder / file
    script.write_text(textwrap.dedent(body))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "ONCEFLOW_HOME": str(folder / "home"),
        "ONCEFLOW_WORKERS": "2",
        **env,
    }
    return subprocess.Popen(
        [sys.executable, str(script), *args],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextlib.contextmanager
def started(folder: Path, body: str, *args: str, **options: str) -> Iterator[subprocess.Popen[str]]:
    """A script that is killed at the end, if it is still there."""
    process = start_script(folder, body, *args, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LONG)


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=LONG)


# -- tasks -------------------------------------------------------------------------------------------------------------


@task
def add(left: int, right: int) -> int:
    return left + right


@task.pure
def double(number: int) -> int:
    return 2 * number


@task
def keep(value: Any) -> Any:
    return value


@task
def trace(path: str, line: str) -> str:
    note(path, line)
    return line


@task
def pass_door(path: str, value: Any = "through") -> Any:
    knock(path)
    return value


@task
def fail_while(path: str, trace: str | None = None) -> str:
    """Raises as long as there is such a file."""
    if trace is not None:
        note(trace, "tried")
    if os.path.exists(path):
        raise ValueError(f"{os.path.basename(path)} is there")
    return "mended"
