"""What an iteration may have left behind: processes, files, blobs, descriptors."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

from onceflow import Engine
from onceflow.engine import settings
from onceflow.storage.home import BLOBS, ENGINES, SPILL, WORKERS, Home
from tests.tools.chaos.lives import MARK

PATIENCE = 10.0
"""Seconds that processes without an engine have to end by themselves. They need some milliseconds."""


def descriptors() -> dict[str, str]:
    """The descriptors of this process, and what they are."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # the one that lists them
    return found


def processes(folder: Path) -> list[int]:
    """The processes of an iteration that are alive."""
    mark = f"{MARK}={folder}\0".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    environment = file.read()
            except OSError:  # it has ended, or belongs to somebody else
                continue
            if mark in environment:
                found.append(int(entry))
    return found


def wait_for_processes(folder: Path) -> list[str]:
    """Waits until all processes of an iteration are gone. Kills, and tells of, those that stay."""
    deadline = time.monotonic() + PATIENCE
    problems = []
    while left := processes(folder):
        for pid in left:
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000) and pid in processes(folder):
                    problems.append(f"process {pid} was left behind")
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            finally:
                os.close(pidfd)
    return problems


def files(home: Path) -> list[str]:
    """What is in the home and should not be, once nobody uses it. Opening an engine removes what the dead left."""
    with Engine(home):
        pass
    problems = [f"{path} was left behind" for name in (ENGINES, WORKERS, SPILL) for path in _below(home / name)]
    found = settings.find(home=home)
    with Home(home, journal=found.journal, blobs=found.blobs) as opened:
        opened.collect_orphans()
        there = {file.reference for run in opened.blobs.folders() for file in opened.blobs.files(run)}
        named: set[str] = set()
        for run in opened.journal.list_runs():
            named |= opened.journal.blobs(run.id)[1]
        on_disk = [path for path in _below(home / BLOBS) if path.is_file()]
        if len(on_disk) != len([blob for blob in there if opened.blobs.is_near(blob)]):
            problems.append(f"there are files among the blobs that are none: {on_disk}, but {there}")
    problems += [f"the blob {blob} is an orphan" for blob in sorted(there - named)]
    return problems


def _below(folder: Path) -> list[Path]:
    return [Path(place) / name for place, folders, names in os.walk(folder) for name in (*folders, *names)]
