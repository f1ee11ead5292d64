"""Queues: how many tasks and runs go on at the same time, and how fast, counted over all engines of a journal.

- `queue(name, **limits)`: declares one. `set_queue` changes limits while everything goes on.
- `pause_queue`, `resume_queue`: lets nothing in, and ends that.
- `get_queue`, `list_queues`: `QueueInfo`, with a `QueuePlace` for each place that is taken.
- `delete_queue`: forgets the limits.
"""

from onceflow.engine.default import (
    delete_queue,
    get_queue,
    list_queues,
    pause_queue,
    queue,
    resume_queue,
    set_queue,
)
from onceflow.engine.queues.management import QueueInfo, QueuePlace

__all__ = [
    "QueueInfo",
    "QueuePlace",
    "delete_queue",
    "get_queue",
    "list_queues",
    "pause_queue",
    "queue",
    "resume_queue",
    "set_queue",
]
