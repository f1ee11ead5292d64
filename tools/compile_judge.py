"""Compiles the judge of the simulation, so that it plays more schedules in the same time: `make soak` uses it.

The law (`core/checks/definitions.py`) and the simulation around the run take most of the time of a schedule. This tool
copies the package and `tests/tools` to `build/judge` and compiles those modules there with mypyc. Everything else, and
so the state machine that is judged, stays the Python source it is. It prints where to play from (for `PYTHONPATH`): the
copy; or the sources, if there is no C compiler or the compilation fails.

    PYTHONPATH=$(python tools/compile_judge.py) python -P -m tests.tools.simulation --mixed --fresh

Without `-P` the project's folder comes before `PYTHONPATH`, and with it the simulation that is not compiled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "judge"
SOURCES = {"onceflow": ROOT / "src" / "onceflow", "tests/tools": ROOT / "tests" / "tools"}
"""Folder in the copy → what it is a copy of."""
SIMULATION = "tests/tools/simulation"
MODULES = [
    "onceflow/core/checks/definitions.py",
    *[
        f"{SIMULATION}/{name}.py"
        for name in (
            "attempts",
            "checker",
            "driver",
            "facts",
            "faults",
            "reading",
            "referring",
            "rows",
            "scenarios",
            "schedule",
            "script",
            "story",
            "structure",
            "world",
        )
    ],
]
STAMP = "compiled-from"
"""File in the copy: the digest of the sources that its extension modules were made from."""
QUICK = {"MYPYC_OPT_LEVEL": "1", "MYPYC_DEBUG_LEVEL": "0"}
"""For a shorter compilation: most of the time that is left is spent in Python's own objects."""


def main() -> None:
    path = [ROOT / "src", ROOT]
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        _tell(f"there is no C compiler ({compiler}): the simulation plays uncompiled")
    elif _is_up_to_date() or _compile():
        path = [COPY]
    print(os.pathsep.join(map(str, path)))


def _is_up_to_date() -> bool:
    stamp = COPY / STAMP
    return stamp.exists() and stamp.read_text() == _digest()


def _digest() -> str:
    """Of all sources, because everything in the copy has to be as it is in the sources, and of what compiles them."""
    seen = hashlib.sha256(sys.version.encode())
    seen.update(Path(__file__).read_bytes())
    for place, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            seen.update(f"{place}/{path.relative_to(folder)}\n".encode())
            seen.update(path.read_bytes())
    return seen.hexdigest()


def _compile() -> bool:
    digest = _digest()
    shutil.rmtree(COPY, ignore_errors=True)
    for place, folder in SOURCES.items():
        shutil.copytree(folder, COPY / place, ignore=shutil.ignore_patterns("__pycache__"))
    _tell("compiling the judge of the simulation (a few minutes, once for each change of the sources)")
    done = subprocess.run(
        # `tests` is no package, so mypyc would take `tests/tools` for `tools`.
        [sys.executable, "-m", "mypyc", "--ignore-missing-imports", "--explicit-package-bases", *MODULES],
        cwd=COPY,
        env={**os.environ, **QUICK},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        reason = (done.stdout.strip().splitlines() or ["no reason given"])[-1]
        _tell(f"the judge cannot be compiled ({reason}): the simulation plays uncompiled")
        return False
    (COPY / STAMP).write_text(digest)
    return True


def _tell(what: str) -> None:
    print(f"compile_judge: {what}", file=sys.stderr)


if __name__ == "__main__":
    main()
