"""`tools/walk.py`: it counts, and says if there are too many changes of file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[1] / "tools" / "walk.py"


def test_the_walk_of_a_task_is_counted() -> None:
    done = subprocess.run(
        [sys.executable, TOOL, "--runs", "5", "--most", "1", "--files"], capture_output=True, text=True
    )

    *files, total = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    assert re.fullmatch(r"\d+ calls in \d+ files, \d+ changes of file", total)
    assert any(line.endswith("  core/run.py") for line in files)
