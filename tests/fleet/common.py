"""What the tests of several engines share: hosts, simulated by home directories of their own, and one database."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from onceflow import Engine, task
from tests.helpers.doors import knock
from tests.helpers.traces import note

LEASE = 5.0
"""Seconds. On a busy machine an engine may well be kept from renewing it for one or two."""


@task
def leave_trace(path: str, line: object) -> object:
    note(path, line)
    return line


@task
def wait_at(door: str, path: str, line: object) -> object:
    note(path, f"begin {line}")
    knock(door)
    note(path, f"end {line}")
    return line


@task
def wait_with_the_interpreter_lock(door: str, path: str, line: object) -> object:
    """No other thread of the worker runs any more when the test knows of it."""
    with open(door + ".here", "wb", buffering=0) as here:
        here.write(b"%8d" % os.getpid())
    ctypes.PyDLL(None).pause()
    return line


def host(folder: Path, journal: str, **others: Any) -> Engine:
    """An engine on a host of its own."""
    return Engine(folder, journal=journal, **{"workers": 1, "lease": LEASE} | others)
