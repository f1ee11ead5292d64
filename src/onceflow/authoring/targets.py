"""Targets: what can be run when its arguments are given. A workflow, a task, or a fiber, by the task it begins with."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from onceflow.authoring.tasks import AnyTask
from onceflow.authoring.workflows import Workflow

Target = Workflow[..., Any] | AnyTask[..., Any]


def as_target(found: Any) -> Target | None:
    """None if it is nothing of the kind."""
    begins = vars(found).get("task") if isinstance(found, FunctionType) else found
    return begins if isinstance(begins, (Workflow, AnyTask)) else None
