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
    NotANode,
    NotDeterministic,
    NoValueYet,
    OnceflowError,
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
    "NoValueYet",
    "NotANode",
    "NotDeterministic",
    "OnceflowError",
    "Retry",
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
