"""Nodes that wait: for an event that is sent to the run, or for a moment. No worker runs them."""

from __future__ import annotations

import datetime
import functools
import sys
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import msgspec

from onceflow.authoring.nodes import TaskNode
from onceflow.authoring.tasks import AnyTask, _with_options, task
from onceflow.errors import EventRefused, EventTimedOut, InvalidOption
from onceflow.values import packed_outputs, secret_masks
from onceflow.values.context import current, running
from onceflow.values.texts import is_plain_text
from onceflow.values.type_fit import fit
from onceflow.values.waits import Wait

T = TypeVar("T")

_MISSING: Any = object()


@task(name="wait_event", effect="none")
def _event(key: str, seconds: float | None, default: bytes | None) -> Any:
    raise AssertionError("no worker waits for events")


@task(name="sleep", effect="none")
def _sleep(seconds: float | None, until: float | None) -> None:
    raise AssertionError("no worker waits for time to pass")


def wait_event(
    key: str,
    type: type[T] = object,  # type: ignore[assignment]  # `object` fits whatever is asked for
    *,
    timeout: float | None = None,
    default: T = _MISSING,
    after: Sequence[Any] = (),
) -> T:
    """A node whose output is an event: what is sent to the run under this key with `send_event`, before or after the
    wait has begun. Events under one key are given to the waiting nodes in the order in which they were sent, each to
    one. Nothing is held while it waits.

    `type` is what the payload has to be, or has to be made of: a dict fits a dataclass. If the wait is in the graph
    that was submitted, or the run is parked, `send_event` refuses anything else. Otherwise, in a fiber or in a graph
    that a task has returned, an event that does not fit is taken, and `EventRefused` is raised: at the await, or for
    the task `event` behind the wait.

    With `timeout` it waits so many seconds from when it begins, across restarts; then its output is `default`, or if
    there is none, it has failed with `EventTimedOut`. It begins when the nodes in `after` are done.

        approved = wait_event("approval", bool, timeout=3600, default=False, after=[ask.bind(order)])
    """
    if not is_plain_text(key):
        raise InvalidOption("wait_event", f"key must be a text that is not empty and has an encoding, not {key!r}")
    seconds = None if timeout is None else _seconds(timeout, "wait_event", "timeout")
    packed = None if default is _MISSING else packed_outputs.dump(default)
    if packed is not None and seconds is None:
        raise InvalidOption("wait_event", "a default is for when a timeout is over; say which one")
    masked = secret_masks.mask(key)
    wait = Wait(key, seconds, type=type, default=packed, masked=None if masked == key else masked)
    if type is object or running.get() is None:
        node: T = _waiting(wait, after).bind(key, seconds, packed)
        return node
    # A default is no event, and need not be of that type: so there is something else until it is given.
    late = None if packed is None or seconds is None else packed_late(key, seconds)
    node = _waiting(msgspec.structs.replace(wait, default=late), after).bind(key, seconds, packed)
    return taken.bind(node, wait)  # type: ignore[no-any-return]


@task.pure(name="event")
def taken(event: Any, wait: Wait) -> Any:
    """An event as it was waited for, if that was unknown when it was sent. Raises `EventRefused`."""
    if isinstance(event, EventTimedOut) and wait.default is not None:
        return packed_outputs.unpack(wait.default)
    try:
        return fit(event, wait.type)
    except TypeError as error:
        wanted = getattr(wait.type, "__qualname__", wait.type)
        reason = f"this waits for {wanted}: {error}"
        raise EventRefused(current().run, wait.key or "", reason, is_taken=True) from error


def wait_of(node: TaskNode) -> TaskNode:
    """The wait itself, if this is what `wait_event` gave."""
    if node._task is not taken:
        return node
    assert node._snapshot is not None
    (waiting,) = node._snapshot.handles
    assert isinstance(waiting, TaskNode)
    return waiting


def default_of(waiting: TaskNode) -> bytes | None:
    """The packed default of a wait for an event, whatever it gives instead."""
    args: tuple[Any, ...] = waiting._args if waiting._snapshot is None else waiting._snapshot.load()[0]
    packed: bytes | None = args[2]
    return packed


def sleep(seconds: float, *, after: Sequence[Any] = ()) -> Awaitable[None]:
    """A node that is done so many seconds after it begins, across restarts. Nothing is held meanwhile. It begins when
    the nodes in `after` are done. In a fiber: `await sleep(86_400)`.

        remind.options(after=[sleep(86_400, after=[ask.bind(order)])]).bind(order)
    """
    given = _seconds(seconds, "sleep", "seconds")
    node: Awaitable[None] = _waiting(Wait(seconds=given), after).bind(given, None)
    return node


def sleep_until(when: datetime.datetime | float, *, after: Sequence[Any] = ()) -> Awaitable[None]:
    """A node that is done at this moment: a `datetime` with a time zone, or seconds since 1970. If that has passed when
    it begins, it is done at once."""
    if isinstance(when, datetime.datetime):
        if when.tzinfo is None:
            raise InvalidOption("sleep_until", f"{when} has no time zone: say which one is meant")
        when = when.timestamp()
    if not abs(when) <= sys.float_info.max:
        raise InvalidOption("sleep_until", f"{when} is no moment")
    node: Awaitable[None] = _waiting(Wait(until=when), after).bind(None, when)
    return node


def _waiting(wait: Wait, after: Sequence[Any]) -> AnyTask[..., Any]:
    made = waiting_task(wait)
    return made.options(after=list(after)) if after else made


@functools.lru_cache(maxsize=256)
def waiting_task(wait: Wait) -> AnyTask[..., Any]:
    """The task of nodes that wait for this. Waking many runs asks for the same again and again."""
    base: AnyTask[..., Any] = _sleep if wait.key is None else _event
    made = _with_options(base, {**base._given, "wait": wait})
    made._remade = waiting_task, (wait,)
    return made


@functools.lru_cache(maxsize=256)
def packed_late(key: str, seconds: float) -> bytes:
    """What a wait gives whose event has not come in time, if that is reported elsewhere."""
    return packed_outputs.dump(EventTimedOut("wait_event", key, seconds))


def _seconds(value: Any, node: str, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= sys.float_info.max:
        raise InvalidOption(node, f"{name} must be a number of seconds that is not negative, not {value!r}")
    return float(value)
