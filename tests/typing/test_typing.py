"""The files in `cases/` under mypy: every error is expected (`# E: code` at its line), every expected error is there.

`assert_type` in them does the rest. The cases are checked, not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import onceflow

CASES = Path(__file__).parent / "cases"
SOURCES = Path(onceflow.__file__).parents[1]

Found = set[tuple[str, int, str]]
"""(file, line, error code)."""


def expected() -> Found:
    return {
        (path.name, number, code)
        for path in CASES.glob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for code in re.findall(r"# E: ([\w-]+)", line)
    }


def reported(cache: Path) -> tuple[Found, str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--hide-error-context", "--no-pretty"]
    command += [
        "--show-error-codes",
        "--no-color-output",
        f"--cache-dir={cache}",
        *map(str, sorted(CASES.glob("*.py"))),
    ]
    ran = subprocess.run(
        command, env={**os.environ, "MYPYPATH": str(SOURCES)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    lines = re.findall(r"^(.+?):(\d+): error: .*\[([\w-]+)\]$", ran.stdout, re.MULTILINE)
    return {(Path(path).name, int(line), code) for path, line, code in lines}, ran.stdout


def test_mypy_reports_exactly_the_errors_that_the_cases_expect(tmp_path: Path) -> None:
    errors, output = reported(tmp_path)
    assert errors == expected(), output


def test_the_cases_expect_errors_and_types() -> None:
    text = "".join(path.read_text("utf-8") for path in CASES.glob("*.py"))
    assert len(expected()) > 20
    assert text.count("assert_type(") > 20
