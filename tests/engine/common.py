"""Tasks that the tests of the engine share."""

from __future__ import annotations

import os
from typing import Any

from onceflow import current, task
from tests.helpers.doors import knock
from tests.helpers.traces import note


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


@task
def walk(path: str) -> str:
    current().progress(1, 4, "miles")
    knock(path)
    return "there"
