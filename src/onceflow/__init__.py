"""onceflow runs graphs of ordinary Python functions exactly once."""

from onceflow.authoring.checking import check
from onceflow.authoring.retries import Retry
from onceflow.authoring.tasks import AsyncTask, Task, task
from onceflow.authoring.workflows import Workflow, workflow
from onceflow.core.graph import Graph
from onceflow.errors import (
    BrokenPromise,
    IllegalEvent,
    InvalidGraph,
    InvalidOption,
    NameTaken,
    NoAttributeYet,
    NoSuchPart,
    NoSuchRun,
    NotANode,
    NotDeterministic,
    NoValueYet,
    OnceflowError,
    StorageClosed,
    StorageDamaged,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageTooNew,
    UnpicklableArgument,
    UnsafeGraph,
    UnusedNode,
    WrongArguments,
)

__all__ = [
    "AsyncTask",
    "BrokenPromise",
    "Graph",
    "IllegalEvent",
    "InvalidGraph",
    "InvalidOption",
    "NameTaken",
    "NoAttributeYet",
    "NoSuchPart",
    "NoSuchRun",
    "NoValueYet",
    "NotANode",
    "NotDeterministic",
    "OnceflowError",
    "Retry",
    "StorageClosed",
    "StorageDamaged",
    "StorageError",
    "StorageFull",
    "StorageReadOnly",
    "StorageTooNew",
    "Task",
    "UnpicklableArgument",
    "UnsafeGraph",
    "UnusedNode",
    "Workflow",
    "WrongArguments",
    "check",
    "task",
    "workflow",
]
