"""Queues of the default engine: what `onceflow.queues.queue` and its siblings call."""

from __future__ import annotations

from typing import Unpack

from onceflow.engine.default import default_engine
from onceflow.engine.queues.management import QueueInfo, QueueLimits


def queue(name: str, **limits: Unpack[QueueLimits]) -> QueueInfo:
    """Declares a queue: which tasks (`@task(queue="gpu")`) and runs (`run(node, queue="reports")`) may go on at the
    same time, and how fast, counted over all engines that share the journal.

    - `concurrency`: how many have a place at a time.
    - `per_key`: how many of those that count under one key (`@task(queue="api", queue_key="{customer}")`).
    - `per_host`: how many on one host.
    - `rate`: how many may begin in a stretch of time: `"10/s"`, `"100/m"`, `"5/10s"`. After a pause as many as that
      may begin at once.
    - `max_pending`: how many runs may wait; one more is refused with `QueueFull`.

    What is not given does not matter. Declaring the same again changes nothing, so a program may do that whenever it
    starts, and what was changed meanwhile with `set_queue` stays; another declaration replaces everything.

        queue("gpu", concurrency=2)
        queue("billing", rate="100/m", per_key=1)
    """
    return default_engine().queue(name, **limits)


def set_queue(name: str, **limits: Unpack[QueueLimits]) -> QueueInfo:
    """Changes limits of a queue while everything goes on, wherever; those that are not given stay, and None takes one
    away. Nobody who has a place is stopped.

        set_queue("gpu", concurrency=4)
    """
    return default_engine().set_queue(name, **limits)


def pause_queue(name: str) -> QueueInfo:
    """Lets nobody into a queue until `resume_queue`. Who has a place keeps it."""
    return default_engine().pause_queue(name)


def resume_queue(name: str) -> QueueInfo:
    """Ends the pause of a queue. Raises `NoSuchQueue`."""
    return default_engine().resume_queue(name)


def get_queue(name: str) -> QueueInfo:
    """What is known about a queue: its limits, who has a place, and how many wait. Raises `NoSuchQueue`."""
    return default_engine().get_queue(name)


def list_queues() -> list[QueueInfo]:
    """What is known about all queues, by name.

    for found in list_queues():
        print(found.name, len(found.places), found.waiting)
    """
    return default_engine().list_queues()


def delete_queue(name: str) -> None:
    """Forgets the limits of a queue. Tasks and runs that name it go on, and wait for nothing. Raises `NoSuchQueue`."""
    default_engine().delete_queue(name)
