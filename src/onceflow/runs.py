"""Runs: leaving them to others, finding and explaining them, repeating and forgetting them.

`run`, `run_async`, `run_many`, `resume`, `cancel`, `status` and `send_event` are in `onceflow` itself. A run is given
by its id or its name.

- Begin and go on: `submit` leaves a run to an engine that serves, `resume_async`, `resume_all`, `rerun`, `rerun_async`.
- Change: `pause`, `limit`, `set_result`, `send_events`, `delete`.
- Results: `get_output`, `variables`.
- Find: `find`, `info`, `list_runs`, `list_engines`.
- Explain: `why`, `list_tasks`, `list_attempts`, `list_fibers`, `logs`, `estimate`, `size`, `statistics`, and
  `deploy_check` for the fibers of all runs.
- What these return: `RunHandle`, `Event`, `Progress`, `Status`, `RunInfo`, `TaskInfo`, `AttemptInfo`, `FiberInfo`,
  `FiberFrame`, `FiberOutlook`, `EngineInfo`, `LogLine`, `Why`, `Obstacle`, `Estimate`, `Statistics`, `TaskStatistics`.
"""

from typing import TYPE_CHECKING

__all__ = [
    "AttemptInfo",
    "EngineInfo",
    "Estimate",
    "Event",
    "FiberFrame",
    "FiberInfo",
    "FiberOutlook",
    "LogLine",
    "Obstacle",
    "Progress",
    "RunHandle",
    "RunInfo",
    "Statistics",
    "Status",
    "TaskInfo",
    "TaskStatistics",
    "Why",
    "delete",
    "deploy_check",
    "estimate",
    "find",
    "get_output",
    "info",
    "limit",
    "list_attempts",
    "list_engines",
    "list_fibers",
    "list_runs",
    "list_tasks",
    "logs",
    "pause",
    "rerun",
    "rerun_async",
    "resume_all",
    "resume_async",
    "send_events",
    "set_result",
    "size",
    "statistics",
    "submit",
    "variables",
    "why",
]

_HOMES = {
    "AttemptInfo": "engine.inspect.measurements",
    "EngineInfo": "engine.inspect.engines",
    "Estimate": "planning.estimates",
    "Event": "engine.handles",
    "FiberFrame": "engine.inspect.fibers",
    "FiberInfo": "engine.inspect.fibers",
    "FiberOutlook": "engine.inspect.deploy_check",
    "LogLine": "engine.logs.task_lines",
    "Obstacle": "engine.inspect.why",
    "Progress": "engine.runtime.live_info",
    "RunHandle": "engine.handles",
    "RunInfo": "engine.inspect.run_info",
    "Statistics": "engine.inspect.statistics",
    "Status": "engine.statuses",
    "TaskInfo": "engine.inspect.task_info",
    "TaskStatistics": "planning.tasks",
    "Why": "engine.inspect.why",
    "delete": "engine.default",
    "deploy_check": "engine.default",
    "estimate": "engine.default",
    "find": "engine.default",
    "get_output": "engine.default",
    "info": "engine.default",
    "limit": "engine.default",
    "list_attempts": "engine.default",
    "list_engines": "engine.default",
    "list_fibers": "engine.default",
    "list_runs": "engine.default",
    "list_tasks": "engine.default",
    "logs": "engine.default",
    "pause": "engine.default",
    "rerun": "engine.default",
    "rerun_async": "engine.default",
    "resume_all": "engine.default",
    "resume_async": "engine.default",
    "send_events": "engine.default",
    "set_result": "engine.default",
    "size": "engine.default",
    "statistics": "engine.default",
    "submit": "engine.default",
    "variables": "engine.default",
    "why": "engine.default",
}
"""Name → the module that defines it. Imported when first used."""

if TYPE_CHECKING:
    from onceflow.engine.default import (
        delete,
        deploy_check,
        estimate,
        find,
        get_output,
        info,
        limit,
        list_attempts,
        list_engines,
        list_fibers,
        list_runs,
        list_tasks,
        logs,
        pause,
        rerun,
        rerun_async,
        resume_all,
        resume_async,
        send_events,
        set_result,
        size,
        statistics,
        submit,
        variables,
        why,
    )
    from onceflow.engine.handles import Event, RunHandle
    from onceflow.engine.inspect.deploy_check import FiberOutlook
    from onceflow.engine.inspect.engines import EngineInfo
    from onceflow.engine.inspect.fibers import FiberFrame, FiberInfo
    from onceflow.engine.inspect.measurements import AttemptInfo
    from onceflow.engine.inspect.run_info import RunInfo
    from onceflow.engine.inspect.statistics import Statistics
    from onceflow.engine.inspect.task_info import TaskInfo
    from onceflow.engine.inspect.why import Obstacle, Why
    from onceflow.engine.logs.task_lines import LogLine
    from onceflow.engine.runtime.live_info import Progress
    from onceflow.engine.statuses import Status
    from onceflow.planning.estimates import Estimate
    from onceflow.planning.tasks import TaskStatistics
else:
    from onceflow import lazy

    __getattr__, __dir__ = lazy.names(__name__, _HOMES)
