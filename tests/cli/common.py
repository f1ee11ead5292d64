"""What the tests of the command share."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from onceflow.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("ONCEFLOW_")},
    "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    "PYTHONIOENCODING": "utf-8",
}
FLOWS = "tests.cli.flows"
PROGRESS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ")
CODES = {0, 1, 2, 3, 4, 5, 130}


class Command:
    """`onceflow` on one home directory."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *args: str, code: int = 0, input: str | None = None) -> Result:
        """Calls it in this process, and checks how it ends."""
        result = CliRunner().invoke(main, [*args, "--home", str(self.home)], input=input)
        assert result.exit_code == code, (args, result.exit_code, result.output, result.exception)
        well_behaved(result)
        return result

    def json(self, *args: str, code: int = 0) -> Any:
        return json.loads(self(*args, "--json", code=code).stdout)

    def run(self, flow: str, *args: str, code: int = 0) -> str:
        """Runs one of the flows; returns what is printed."""
        return self("run", f"{FLOWS}:{flow}", *args, code=code).stdout

    def error(self, *args: str, code: int) -> str:
        """The one line that it says, beside how a run gets on, which is told if it takes a while."""
        result = self(*args, code=code)
        said = [line for line in result.stderr.splitlines(keepends=True) if not PROGRESS.match(line)]
        return "".join(said).removeprefix("onceflow: ").rstrip("\n")

    def start(self, *args: str, **variables: str) -> subprocess.Popen[str]:
        """Starts it as a process, with these variables in its environment."""
        return subprocess.Popen(
            [sys.executable, "-m", "onceflow", *args, "--home", str(self.home)],
            env={**ENVIRONMENT, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def status(self, run: str) -> str:
        status: str = self.json("show", run)["status"]
        return status


def well_behaved(result: Result) -> None:
    """What holds however it is called: a documented exit code, a line that says what is wrong, never a traceback."""
    assert result.exit_code in CODES
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert "Traceback" not in result.output
    lines = result.stderr.splitlines()
    if result.exit_code not in (0, 130):
        assert lines, result.output
        assert lines[-1].startswith("onceflow: ")
        assert lines[-1].isprintable()
