"""Loops: what `for_each`, `reduce` and `parallel` (in `onceflow`) take and give.

- `Partial`: what `task.partial(k=v)` gives, a task with some of its arguments.
- `FailedItem`: with `on_error="collect"`, what stands in the results for an item that failed.
"""

from onceflow.authoring.loops.failed_items import FailedItem
from onceflow.authoring.loops.partials import Partial

__all__ = ["FailedItem", "Partial"]
