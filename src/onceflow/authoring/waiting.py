"""Nodes that wait: for an event that somebody sends to the run, or for a moment. No worker carries them out."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from onceflow.authoring.tasks import AnyTask, _with_options, task
from onceflow.errors import InvalidOption
from onceflow.values import masking, packing
from onceflow.values.waits import Wait

T = TypeVar("T")

_MISSING: Any = object()


@task(name="wait_event", can_rollback=True)
def _event(key: str, seconds: float | None, default: bytes | None) -> Any:
    raise AssertionError("no worker waits for events")


@task(name="sleep", can_rollback=True)
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
    """A node whose output is an event: what somebody sends to the run under this key with `send_event`, before or after
    the wait has begun. Events under one key are given to those who wait in the order in which they were sent, each to
    one. Nothing is held while it waits.

    `type` is what the payload has to be; `send_event` refuses anything else. With `timeout` it waits so many seconds
    from when it begins, across restarts; then its output is `default`, or if there is none, it has failed with
    `EventTimedOut`. It begins when the nodes in `after` are done.

        approved = wait_event("approval", bool, timeout=3600, default=False, after=[ask.bind(order)])
    """
    if not key:
        raise InvalidOption("wait_event", "key must be a text that is not empty")
    seconds = None if timeout is None else _seconds(timeout, "wait_event", "timeout")
    packed = None if default is _MISSING else packing.dump(default)
    if packed is not None and seconds is None:
        raise InvalidOption("wait_event", "a default is for when a timeout is over; say which one")
    masked = masking.mask(key)
    wait = Wait(key, seconds, type=type, default=packed, masked=None if masked == key else masked)
    node: T = _waiting(wait, after).bind(key, seconds, packed)
    return node


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
    if not math.isfinite(when):
        raise InvalidOption("sleep_until", f"{when} is no moment")
    node: Awaitable[None] = _waiting(Wait(until=when), after).bind(None, when)
    return node


def _waiting(wait: Wait, after: Sequence[Any]) -> AnyTask[..., Any]:
    made = waiting_task(wait)
    return made.options(after=list(after)) if after else made


@functools.lru_cache(maxsize=256)
def waiting_task(wait: Wait) -> AnyTask[..., Any]:
    """The task of nodes that wait for this. Whoever wakes many runs asks for the same again and again."""
    base: AnyTask[..., Any] = _sleep if wait.key is None else _event
    made = _with_options(base, {**base._given, "wait": wait})
    made._remade = waiting_task, (wait,)
    return made


def _seconds(value: Any, node: str, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise InvalidOption(node, f"{name} must be a number of seconds that is not negative, not {value!r}")
    return float(value)
