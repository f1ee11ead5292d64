"""A workflow that leaves traces, and kills the engine that runs it if it is told to."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from onceflow import task, workflow
from tests.helpers.traces import note


def die_if_told(folder: str, task: str) -> None:
    """In `folder/kill` stands which task kills which process, once."""
    order = Path(folder) / "kill"
    with contextlib.suppress(FileNotFoundError):
        name, process = order.read_text().split()
        if name == task:
            order.unlink()
            os.kill(int(process), signal.SIGKILL)
            signal.pause()  # a worker dies with its engine


def give_back(folder: str) -> None:
    note(f"{folder}/traces", "undo book")


@task(rollback=give_back)
def book(folder: str) -> str:
    note(f"{folder}/traces", "book")
    die_if_told(folder, "book")
    return "room"


@task(can_rollback=True)
def look(folder: str, room: str) -> str:
    note(f"{folder}/traces", "look")
    return room


@task
def pay(folder: str, room: str) -> str:
    note(f"{folder}/traces", "pay")
    die_if_told(folder, "pay")
    return f"{room}, paid"


@workflow
def trip(folder: str) -> str:
    return pay.bind(folder, look.bind(folder, book.bind(folder)))
