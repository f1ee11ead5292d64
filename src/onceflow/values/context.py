"""What user code may learn about the attempt it runs in. Set by whatever runs it, read with `onceflow.current()`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any

from onceflow.errors import NotInTask

running: ContextVar[Mapping[str, Any] | None] = ContextVar("onceflow_running", default=None)
"""The context of the job that runs here (`Job.context`); None outside of tasks."""


class Current:
    """The attempt that runs here."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        self.run: str = context["run"]
        """The run's id."""
        self.task: str = context["task"]
        """The task's id in its graph: its name, or `name_1`, `name_2`, …"""
        self.attempt: str = context["attempt"]
        """`epoch.number`: the epoch grows whenever another engine takes the run over."""
        self.key: str = context["key"]
        """An idempotency key for outside systems: equal whenever this task runs again, renewed after an undo."""

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry `run`, `task` and `attempt`."""
        fields = {"run": self.run, "task": self.task, "attempt": self.attempt}
        return logging.LoggerAdapter(logging.getLogger(f"onceflow.task.{self.task}"), fields)

    def __repr__(self) -> str:
        return f"<{self.task} of run {self.run}, attempt {self.attempt}>"


def current() -> Current:
    """The attempt that runs here: run, task, attempt, `key` and a logger. Raises `NotInTask` outside of tasks.

    @task
    def charge(user: str, cents: int) -> str:
        return bank.charge(user, cents, idempotency_key=current().key)
    """
    context = running.get()
    if context is None:
        raise NotInTask
    return Current(context)
