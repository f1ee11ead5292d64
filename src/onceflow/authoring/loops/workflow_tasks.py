"""Workflows as tasks that build their graphs inside a run."""

from __future__ import annotations

import inspect
from typing import Any

from onceflow.authoring.workflows import Workflow


class Building:
    """Calls a workflow, so that the task which calls this returns the workflow's graph."""

    def __init__(self, workflow: Workflow[..., Any]) -> None:
        self.workflow = workflow
        self.__name__ = workflow.name
        self.__module__ = workflow.__module__
        self.__qualname__ = workflow.__qualname__
        self.__signature__ = inspect.signature(workflow.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.workflow.bind(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return Building, (self.workflow,)
