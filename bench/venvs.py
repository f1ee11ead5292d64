"""Environments for peers, and for Spark: `bench/.venvs/<peer>`, made when one is first needed, with the Python that
runs this.

What is in one is said, to the last version, by `bench/peers/<peer>.txt`. A stamp is written when all is installed; one
that no longer agrees with that file or with the Python is made anew, and so is one whose making was interrupted. A
peer that cannot be installed here is no failure of a measurement: `Unavailable` says why, for whoever reads the result.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

VENVS = Path(__file__).parent / ".venvs"
STAMP = "installed.txt"


class Unavailable(Exception):
    """Raised when a peer cannot be installed. The text is one line: what pip, or Python, had to say."""


def python_of(peer: str, requirements: Path | None, tell: Callable[[str], None]) -> Path:
    """The interpreter of a peer's environment, in which all requirements (None: nothing) are installed."""
    folder = VENVS / peer
    python = folder / "bin" / "python"
    wanted = f"Python {platform.python_version()}\n{requirements.read_text('utf-8') if requirements else ''}"
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text("utf-8") == wanted and python.exists():
        return python
    tell(f"{peer}: making its environment in {folder}")
    if folder.exists():
        shutil.rmtree(folder)
    VENVS.mkdir(exist_ok=True, parents=True)
    _must_succeed([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    if requirements:
        count = requirements.read_text("utf-8").count("==")
        tell(f"{peer}: installing {count} packages, which may take some minutes")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
        _must_succeed([*pip, "install", "--only-binary", ":all:", "--requirement", str(requirements)])
    stamp.write_text(wanted, "utf-8")
    return python


def _must_succeed(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
        errors = [line for line in lines if line.lower().startswith("error")]
        raise Unavailable((errors or lines or [f"status {done.returncode}"])[-1])
