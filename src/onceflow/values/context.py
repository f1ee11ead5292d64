"""The context of an attempt, for user code. Set by the process that runs it, read with `onceflow.current()`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from onceflow.errors import NotInTask, RefLost
from onceflow.values import metadata

if TYPE_CHECKING:
    from onceflow.values.packed_outputs import Packed
    from onceflow.values.refs import Ref

running: ContextVar[Mapping[str, Any] | None] = ContextVar("onceflow_running", default=None)
"""The context of the job that runs here (`Job.context`); None outside of tasks."""

job_token: ContextVar[int] = ContextVar("onceflow_token", default=0)
"""The number that whatever runs the job knows it by; 0 outside of tasks."""

ALONE = "alone"
"""Stands in the context of work that is not known elsewhere yet (`backends.local.delegated_runs`)."""


annotated: dict[int, str] = {}
"""Job → what it has reported about itself so far (`metadata`). The worker takes it when the job ends."""


class Link(Protocol):
    """What runs jobs in this process, as they see it. It may be called from any thread."""

    hosts_fibers: bool
    """Whether fibers that wait may stay in this process until they go on, and may carry out themselves what they
    await."""

    def now(self) -> float:
        """Seconds since 1970."""

    def progress(self, token: int, done: float, total: float | None, note: str) -> None:
        """Passes on how far a job is."""

    def is_told(self, token: int) -> bool:
        """Whether a job has been asked to stop."""

    def is_hurried(self) -> bool:
        """Whether others wait for the job that runs here, if that can be split."""

    def put(self, packed: Packed) -> Ref[Any]:
        """A ref to a value that a job has made."""

    def variable(self, token: int, name: str) -> bytes | None:
        """The packed value of a task variable that is committed in the run of a job, if there is one."""

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """An actor that belongs to the job that runs here (`values.actors`)."""


_links: list[Link] = []
"""At most one."""

came: dict[int, Mapping[str, int]] = {}
"""Job → ids of the refs that it was given, and their places among them."""

sent: dict[int, int] = {}
"""Job → how many events it has sent. Whatever runs jobs forgets it when they end."""

_lost: dict[int, set[int]] = {}
"""Job → places of refs that were lost when it asked for them."""


def _note_lost(id: str) -> None:
    token = job_token.get()
    place = came.get(token, {}).get(id)
    if place is not None:
        _lost.setdefault(token, set()).add(place)


RefLost.noticed.append(_note_lost)

MADE = -1
"""Stands for the place of something that a job has made itself, among what it lost."""


def note_lost(token: int, place: int = MADE) -> None:
    """Something is gone that a job needs: it does not count."""
    came.setdefault(token, {})
    _lost.setdefault(token, set()).add(place)


def take_lost(token: int) -> list[int]:
    """To be called when a job ends: the places of refs that it was given and that were lost when it asked for them."""
    if not came or came.pop(token, None) is None:
        return []
    return sorted(_lost.pop(token, ()))


def connect(link: Link) -> None:
    """To be called once in a process that runs jobs."""
    _links[:] = [link]


def link() -> Link | None:
    """What runs jobs in this process, if anything does."""
    return _links[0] if _links else None


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
        self._metadata: str | None = context.get("metadata")
        self._token = job_token.get()

    @property
    def cancelled(self) -> bool:
        """Whether this attempt has been asked to stop. For code that polls, mostly in a thread of its own:
        in the task itself `Stopped` is raised, or `asyncio.CancelledError` if it is async."""
        return any(link.is_told(self._token) for link in _links)

    @property
    def metadata(self) -> dict[str, Any]:
        """What was given to `run` as the run's metadata."""
        return metadata.decode(self._metadata)

    def annotate(self, **values: Any) -> None:
        """Attaches metadata to this task, for users who inspect it later (`TaskInfo.metadata`): what JSON has a form
        for, and not much of it. It counts if the attempt returns, and is kept with its output. A later value under the
        same name replaces the earlier one.

            current().annotate(rows=len(rows), source=url)
        """
        told = metadata.merge(annotated.get(self._token), metadata.encode(values, self.task, kind="task"))
        if told is not None:
            metadata.check_size(told, self.task, kind="task")
            annotated[self._token] = told

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Reports the progress of this attempt: so much is done, of so much if that is known. May be called as often as
        you like: reports in quick succession are dropped, except for the last.

        for number, row in enumerate(rows, 1):
            load(row)
            current().progress(number, len(rows))
        """
        for link in _links:
            link.progress(self._token, done, total, note)

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry `run`, `task` and `attempt`."""
        fields = {"run": self.run, "task": self.task, "attempt": self.attempt}
        return logging.LoggerAdapter(logging.getLogger(f"onceflow.task.{self.task}"), fields)

    def __repr__(self) -> str:
        return f"<{self.task} of run {self.run}, attempt {self.attempt}>"


def is_in_fiber() -> bool:
    """Whether what runs here is a segment of a fiber: only segments are given their ids."""
    return "inside" in (running.get() or ())


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
