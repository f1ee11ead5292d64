"""onceflow runs graphs of ordinary Python functions exactly once.

The names here are what a first program needs. Each other subject has a module, as `onceflow.runs.find`:

- `actors`: what the methods of an actor may do, and how tasks take it
- `errors`: everything that onceflow raises
- `fibers`: what fibers await: calls, children, timeouts
- `handlers`: responses to a task that raises
- `loops`: what loops give and take
- `queues`: limits on what runs at the same time
- `runs`: leaving, finding, explaining, repeating and forgetting runs
- `schedules`: runs that begin by the clock
- `tasks`: types of tasks, workflows and graphs; the progress of a task
"""

from typing import TYPE_CHECKING

__all__ = [
    "Engine",
    "OnceflowError",
    "Ref",
    "RetryPolicy",
    "RunCancelled",
    "Secret",
    "TaskFailed",
    "UnsafeGraph",
    "Variable",
    "actor",
    "actors",
    "cancel",
    "check",
    "configure",
    "current",
    "errors",
    "fiber",
    "fibers",
    "for_each",
    "handlers",
    "loops",
    "parallel",
    "put",
    "queues",
    "reduce",
    "ref",
    "resume",
    "run",
    "run_async",
    "run_many",
    "runs",
    "schedules",
    "send_event",
    "sleep",
    "sleep_until",
    "status",
    "task",
    "tasks",
    "transaction",
    "wait_event",
    "workflow",
]

_HOMES = {
    "Engine": "engine.engine",
    "OnceflowError": "errors",
    "Ref": "values.refs",
    "RetryPolicy": "authoring.retries",
    "RunCancelled": "errors",
    "Secret": "values.secrets",
    "TaskFailed": "errors",
    "UnsafeGraph": "errors",
    "Variable": "values.variables",
    "actor": "authoring.actors",
    "actors": "actors",
    "cancel": "engine.default",
    "check": "authoring.graph_check",
    "configure": "engine.default",
    "current": "values.context",
    "errors": "errors",
    "fiber": "authoring.fiber_tasks.decorator",
    "fibers": "fibers",
    "for_each": "authoring.loops.api",
    "handlers": "handlers",
    "loops": "loops",
    "parallel": "authoring.loops.api",
    "put": "values.put",
    "queues": "queues",
    "reduce": "authoring.loops.api",
    "ref": "authoring.refs",
    "resume": "engine.default",
    "run": "engine.default",
    "run_async": "engine.default",
    "run_many": "engine.default",
    "runs": "runs",
    "schedules": "schedules",
    "send_event": "engine.default",
    "sleep": "authoring.event_nodes",
    "sleep_until": "authoring.event_nodes",
    "status": "engine.default",
    "task": "authoring.tasks",
    "tasks": "tasks",
    "transaction": "authoring.transactions",
    "wait_event": "authoring.event_nodes",
    "workflow": "authoring.workflows",
}
"""Name → the module that defines it. Imported when first used."""

if TYPE_CHECKING:
    from onceflow import actors, errors, fibers, handlers, loops, queues, runs, schedules, tasks
    from onceflow.authoring.actors import actor
    from onceflow.authoring.event_nodes import sleep, sleep_until, wait_event
    from onceflow.authoring.fiber_tasks.decorator import fiber
    from onceflow.authoring.graph_check import check
    from onceflow.authoring.loops.api import for_each, parallel, reduce
    from onceflow.authoring.refs import ref
    from onceflow.authoring.retries import RetryPolicy
    from onceflow.authoring.tasks import task
    from onceflow.authoring.transactions import transaction
    from onceflow.authoring.workflows import workflow
    from onceflow.engine.default import cancel, configure, resume, run, run_async, run_many, send_event, status
    from onceflow.engine.engine import Engine
    from onceflow.errors import OnceflowError, RunCancelled, TaskFailed, UnsafeGraph
    from onceflow.values.context import current
    from onceflow.values.put import put
    from onceflow.values.refs import Ref
    from onceflow.values.secrets import Secret
    from onceflow.values.variables import Variable
else:
    from onceflow import lazy

    __getattr__, __dir__ = lazy.names(__name__, _HOMES)
