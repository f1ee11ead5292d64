"""What user code may learn about the attempt it runs in. Set by whatever runs it, read by `onceflow.current()`."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

running: ContextVar[Mapping[str, Any] | None] = ContextVar("onceflow_running", default=None)
"""The context of the job that runs here (`Job.context`); None outside of tasks."""
