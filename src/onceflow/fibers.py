"""Fibers: durable functions that await calls, events and time. `onceflow.fiber` makes one of an async function.

- `call(node)`: runs a graph, and gives its result; `task.call(...)` is short for one task.
- `fork(fiber)`, `join(child)`: a child that runs beside its fiber, a `Child`; `spawn_limit` says how many at a time.
- `gather(*awaitables)`: waits for several.
- `timeout(seconds)`, `on(*errors)`: blocks that limit time, and that say what becomes of errors.
- `Fiber`, `FrameInfo`, `Op`: durable coroutines without an engine, for other runtimes.
"""

from onceflow.authoring.fiber_tasks.blocks import on, timeout
from onceflow.authoring.fiber_tasks.forks import Child, fork, join, spawn_limit
from onceflow.authoring.fiber_tasks.gather import gather
from onceflow.authoring.fiber_tasks.ops import call
from onceflow.authoring.fibers.description import FrameInfo
from onceflow.authoring.fibers.durable_coroutine import Fiber
from onceflow.authoring.fibers.ops import Op

__all__ = ["Child", "Fiber", "FrameInfo", "Op", "call", "fork", "gather", "join", "on", "spawn_limit", "timeout"]
