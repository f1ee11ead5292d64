"""onceflow runs graphs of ordinary Python functions exactly once."""

from typing import TYPE_CHECKING, Any

from onceflow.authoring.actors import Exclusive, actor, actor_statistics, const, create, later
from onceflow.authoring.checking import check
from onceflow.authoring.handlers import Decision, Failure, Handler, break_, handler, ignore, retry, terminate
from onceflow.authoring.refs import ref
from onceflow.authoring.retries import Retry
from onceflow.authoring.tasks import AsyncTask, Task, task
from onceflow.authoring.transactions import transaction
from onceflow.authoring.waiting import sleep, sleep_until, wait_event
from onceflow.authoring.workflows import Workflow, workflow
from onceflow.core.graph import Graph
from onceflow.errors import (
    ActorLost,
    ActorNotReturned,
    AmbiguousRun,
    BadSnapshot,
    BrokenPromise,
    Cancelled,
    CannotJoin,
    CodeChanged,
    DurableSyntaxError,
    EngineClosed,
    EventRefused,
    EventTimedOut,
    ExceptionLost,
    FunctionNotLoaded,
    IllegalEvent,
    InputNotSent,
    InsideTask,
    InvalidActor,
    InvalidGraph,
    InvalidOption,
    InvalidRef,
    InvalidVariable,
    LostForGood,
    MissingPackage,
    NameTaken,
    NoAttributeYet,
    NoOutput,
    NoSuchPart,
    NoSuchQueue,
    NoSuchRun,
    NoSuchSchedule,
    NoSuchTask,
    NotANode,
    NotDeterministic,
    NotInFiber,
    NotInTask,
    NotPersistable,
    NoValueYet,
    OnceflowError,
    OutputNotSent,
    QueueFull,
    RefLost,
    ResultRefused,
    RunActive,
    RunCancelled,
    RunInterrupted,
    RunNotActive,
    RunPaused,
    RunTimedOut,
    SecretUnavailable,
    SharedActor,
    Stopped,
    StorageClosed,
    StorageDamaged,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageTooNew,
    TaskFailed,
    TaskNotFound,
    TaskTimedOut,
    UnfinishedCalls,
    UnpicklableArgument,
    UnpicklableOutput,
    UnpicklableTask,
    UnsafeGraph,
    UnusedNode,
    WorkerDied,
    WorkersUnavailable,
    WrongArguments,
    WrongParts,
)
from onceflow.values.actors import ActorRef, ActorStatistics
from onceflow.values.context import current
from onceflow.values.putting import put
from onceflow.values.refs import Ref
from onceflow.values.secrets import Secret
from onceflow.values.tracking import track
from onceflow.values.variables import Variable

if TYPE_CHECKING:
    from onceflow.authoring.awaiting.blocks import on, timeout
    from onceflow.authoring.awaiting.decorating import fiber
    from onceflow.authoring.awaiting.forking import Child, fork, join, spawn_limit
    from onceflow.authoring.awaiting.gathering import gather
    from onceflow.authoring.awaiting.ops import call
    from onceflow.authoring.fibers.describing import FrameInfo
    from onceflow.authoring.fibers.ops import Op
    from onceflow.authoring.fibers.running import Fiber
    from onceflow.authoring.loops.failing import Failed
    from onceflow.authoring.loops.looping import for_each, parallel, reduce
    from onceflow.authoring.loops.partials import Partial
    from onceflow.engine.default import (
        cancel,
        configure,
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
        resume,
        resume_all,
        resume_async,
        run,
        run_async,
        run_many,
        send_event,
        send_events,
        set_result,
        size,
        statistics,
        status,
        submit,
        variables,
        why,
    )
    from onceflow.engine.driving.insight import Progress
    from onceflow.engine.engine import Engine
    from onceflow.engine.handles import Event, RunHandle
    from onceflow.engine.logs.lines import LogLine
    from onceflow.engine.looking.deploying import FiberOutlook
    from onceflow.engine.looking.describing import TaskInfo
    from onceflow.engine.looking.engines import EngineInfo
    from onceflow.engine.looking.fibers import FiberFrame, FiberInfo
    from onceflow.engine.looking.listing import RunInfo
    from onceflow.engine.looking.past import AttemptInfo
    from onceflow.engine.looking.statistics import Statistics
    from onceflow.engine.looking.why import Obstacle, Why
    from onceflow.engine.queues.api import (
        delete_queue,
        get_queue,
        list_queues,
        pause_queue,
        queue,
        resume_queue,
        set_queue,
    )
    from onceflow.engine.queues.managing import QueueInfo, QueuePlace
    from onceflow.engine.schedules.api import (
        backfill,
        delete_schedule,
        get_schedule,
        list_schedules,
        next_times,
        pause_schedule,
        resume_schedule,
        schedule,
        trigger_schedule,
    )
    from onceflow.engine.schedules.definitions import ScheduleInfo
    from onceflow.engine.statuses import Status
    from onceflow.planning.estimates import Estimate
    from onceflow.planning.tasks import TaskStatistics

__all__ = [
    "ActorLost",
    "ActorNotReturned",
    "ActorRef",
    "ActorStatistics",
    "AmbiguousRun",
    "AsyncTask",
    "AttemptInfo",
    "BadSnapshot",
    "BrokenPromise",
    "Cancelled",
    "CannotJoin",
    "Child",
    "CodeChanged",
    "Decision",
    "DurableSyntaxError",
    "Engine",
    "EngineClosed",
    "EngineInfo",
    "Estimate",
    "Event",
    "EventRefused",
    "EventTimedOut",
    "ExceptionLost",
    "Exclusive",
    "Failed",
    "Failure",
    "Fiber",
    "FiberFrame",
    "FiberInfo",
    "FiberOutlook",
    "FrameInfo",
    "FunctionNotLoaded",
    "Graph",
    "Handler",
    "IllegalEvent",
    "InputNotSent",
    "InsideTask",
    "InvalidActor",
    "InvalidGraph",
    "InvalidOption",
    "InvalidRef",
    "InvalidVariable",
    "LogLine",
    "LostForGood",
    "MissingPackage",
    "NameTaken",
    "NoAttributeYet",
    "NoOutput",
    "NoSuchPart",
    "NoSuchQueue",
    "NoSuchRun",
    "NoSuchSchedule",
    "NoSuchTask",
    "NoValueYet",
    "NotANode",
    "NotDeterministic",
    "NotInFiber",
    "NotInTask",
    "NotPersistable",
    "Obstacle",
    "OnceflowError",
    "Op",
    "OutputNotSent",
    "Partial",
    "Progress",
    "QueueFull",
    "QueueInfo",
    "QueuePlace",
    "Ref",
    "RefLost",
    "ResultRefused",
    "Retry",
    "RunActive",
    "RunCancelled",
    "RunHandle",
    "RunInfo",
    "RunInterrupted",
    "RunNotActive",
    "RunPaused",
    "RunTimedOut",
    "ScheduleInfo",
    "Secret",
    "SecretUnavailable",
    "SharedActor",
    "Statistics",
    "Status",
    "Stopped",
    "StorageClosed",
    "StorageDamaged",
    "StorageError",
    "StorageFull",
    "StorageReadOnly",
    "StorageTooNew",
    "Task",
    "TaskFailed",
    "TaskInfo",
    "TaskNotFound",
    "TaskStatistics",
    "TaskTimedOut",
    "UnfinishedCalls",
    "UnpicklableArgument",
    "UnpicklableOutput",
    "UnpicklableTask",
    "UnsafeGraph",
    "UnusedNode",
    "Variable",
    "Why",
    "WorkerDied",
    "WorkersUnavailable",
    "Workflow",
    "WrongArguments",
    "WrongParts",
    "actor",
    "actor_statistics",
    "backfill",
    "break_",
    "call",
    "cancel",
    "check",
    "configure",
    "const",
    "create",
    "current",
    "delete",
    "delete_queue",
    "delete_schedule",
    "deploy_check",
    "estimate",
    "fiber",
    "find",
    "for_each",
    "fork",
    "gather",
    "get_output",
    "get_queue",
    "get_schedule",
    "handler",
    "ignore",
    "info",
    "join",
    "later",
    "limit",
    "list_attempts",
    "list_engines",
    "list_fibers",
    "list_queues",
    "list_runs",
    "list_schedules",
    "list_tasks",
    "logs",
    "next_times",
    "on",
    "parallel",
    "pause",
    "pause_queue",
    "pause_schedule",
    "put",
    "queue",
    "reduce",
    "ref",
    "rerun",
    "rerun_async",
    "resume",
    "resume_all",
    "resume_async",
    "resume_queue",
    "resume_schedule",
    "retry",
    "run",
    "run_async",
    "run_many",
    "schedule",
    "send_event",
    "send_events",
    "set_queue",
    "set_result",
    "size",
    "sleep",
    "sleep_until",
    "spawn_limit",
    "statistics",
    "status",
    "submit",
    "task",
    "terminate",
    "timeout",
    "track",
    "transaction",
    "trigger_schedule",
    "variables",
    "wait_event",
    "why",
    "workflow",
]

_IN_LOOPS = {
    "Failed": "failing",
    "Partial": "partials",
    "for_each": "looping",
    "parallel": "looping",
    "reduce": "looping",
}
"""Name → module. Imported when first used: not every program has loops."""

_IN_FIBERS = {
    "Fiber": "running",
    "FrameInfo": "describing",
    "Op": "ops",
}
"""Name → module. Imported when first used: few programs have fibers, and the transformer is large."""

_IN_AWAITING = {
    "Child": "forking",
    "call": "ops",
    "fork": "forking",
    "join": "forking",
    "spawn_limit": "forking",
    "on": "blocks",
    "timeout": "blocks",
    "fiber": "decorating",
    "gather": "gathering",
}
"""The same."""

_IN_ENGINE = {
    "AttemptInfo": "looking.past",
    "Engine": "engine",
    "EngineInfo": "looking.engines",
    "Estimate": "looking.past",
    "Event": "handles",
    "FiberFrame": "looking.fibers",
    "FiberInfo": "looking.fibers",
    "FiberOutlook": "looking.deploying",
    "LogLine": "logs.lines",
    "Obstacle": "looking.why",
    "Progress": "driving.insight",
    "RunHandle": "handles",
    "RunInfo": "looking.listing",
    "ScheduleInfo": "schedules.definitions",
    "Statistics": "looking.statistics",
    "Status": "statuses",
    "TaskInfo": "looking.describing",
    "TaskStatistics": "looking.statistics",
    "Why": "looking.why",
    "backfill": "schedules.api",
    "cancel": "default",
    "configure": "default",
    "delete": "default",
    "delete_schedule": "schedules.api",
    "deploy_check": "default",
    "estimate": "default",
    "find": "default",
    "get_output": "default",
    "get_schedule": "schedules.api",
    "info": "default",
    "limit": "default",
    "list_attempts": "default",
    "list_engines": "default",
    "list_fibers": "default",
    "list_runs": "default",
    "list_schedules": "schedules.api",
    "list_tasks": "default",
    "logs": "default",
    "pause": "default",
    "rerun": "default",
    "rerun_async": "default",
    "next_times": "schedules.api",
    "pause_schedule": "schedules.api",
    "resume": "default",
    "resume_all": "default",
    "resume_async": "default",
    "resume_schedule": "schedules.api",
    "run": "default",
    "run_async": "default",
    "run_many": "default",
    "send_event": "default",
    "send_events": "default",
    "set_result": "default",
    "schedule": "schedules.api",
    "size": "default",
    "statistics": "default",
    "status": "default",
    "submit": "default",
    "variables": "default",
    "trigger_schedule": "schedules.api",
    "QueueInfo": "queues.managing",
    "QueuePlace": "queues.managing",
    "delete_queue": "queues.api",
    "get_queue": "queues.api",
    "list_queues": "queues.api",
    "pause_queue": "queues.api",
    "queue": "queues.api",
    "resume_queue": "queues.api",
    "set_queue": "queues.api",
    "why": "default",
}
"""Name → module. Imported when first used: a worker that imports a module with tasks has no use for an engine."""


def __getattr__(name: str) -> Any:
    if name in _IN_ENGINE:
        module = f"onceflow.engine.{_IN_ENGINE[name]}"
    elif name in _IN_LOOPS:
        module = f"onceflow.authoring.loops.{_IN_LOOPS[name]}"
    elif name in _IN_FIBERS:
        module = f"onceflow.authoring.fibers.{_IN_FIBERS[name]}"
    elif name in _IN_AWAITING:
        module = f"onceflow.authoring.awaiting.{_IN_AWAITING[name]}"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_IN_AWAITING, *_IN_ENGINE, *_IN_FIBERS, *_IN_LOOPS})
