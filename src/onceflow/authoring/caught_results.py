"""The node behind the result of a graph whose task has `catch=True`."""

from __future__ import annotations

from typing import Any

from onceflow.authoring.tasks import task


@task.pure(name="caught", num_returns=2)
def _without_error(value: Any) -> tuple[Any, None]:
    return value, None


def without_error(node: Any) -> Any:
    """A node with two parts: what the other one gives, and no error."""
    return _without_error.bind(node)
