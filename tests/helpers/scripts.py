"""Scripts that run as processes, as users start them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.waiting import LONG


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
