"""Converts a user's options to a definition. Invalid options are refused here, with a text that says what is
expected."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, get_args

from onceflow.authoring.options import check_priority
from onceflow.authoring.targets import Target
from onceflow.core.rules.state import OnFailure
from onceflow.engine.queues.limits import check_name as check_queue
from onceflow.engine.schedules import rules, targets
from onceflow.engine.schedules.definitions import CatchUp, Definition, Overlap
from onceflow.engine.schedules.rules import At, Cron, Every, Rule
from onceflow.engine.submission import check_timeout
from onceflow.errors import InvalidOption
from onceflow.values import versions
from onceflow.values.metadata import encode as encode_metadata

Time = datetime | float | str
"""A datetime (one without a time zone is meant in that of the schedule), seconds since 1970, or a text like
`2026-03-29T02:30`."""

LONGEST_ID = 200

MOST = 10_000
"""Firings that may be made up for, or wait. Those that wait stand in the row of the schedule."""


def define(
    id: str,
    target: Target,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    cron: str | None = None,
    every: float | timedelta | None = None,
    at: Time | None = None,
    zone: str = "UTC",
    start: Time | None = None,
    end: Time | None = None,
    jitter: float = 0.0,
    catch_up: CatchUp = "latest",
    overlap: Overlap = "skip",
    limit: int = 100,
    on_failure: OnFailure = "keep",
    timeout: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    queue: str | None = None,
    priority: int = 0,
) -> Definition:
    """Raises `InvalidOption`, `UnpicklableTask`."""
    _check_id(id)
    rules.zone_of(zone)
    first, last = (None if time is None else instant_of(time, zone, name) for time, name in _named(start, end))
    if first is not None and last is not None and not first < last:
        raise _wrong("end", "it must be later than the start")
    _check_choice("catch_up", catch_up, get_args(CatchUp))
    _check_choice("overlap", overlap, get_args(Overlap))
    _check_choice("on_failure", on_failure, get_args(OnFailure))
    if catch_up == "all" and overlap == "skip":
        raise _wrong("catch_up", "with overlap='skip' all but one would be skipped at once: use 'queue' or 'allow'")
    check_count("limit", limit, MOST)
    if timeout is not None:
        check_timeout(timeout)
    return Definition(
        rule=_rule(cron, every, at, zone, first),
        zone=zone,
        start=first,
        end=last,
        delay=_delay(id, jitter),
        catch_up=catch_up,
        overlap=overlap,
        limit=limit,
        workflow=target.name,
        module=getattr(target, "__module__", None) or "",
        qualname=target.__qualname__,
        code=targets.store_code(target),
        interpreter=versions.TAG,
        arguments=targets.store_arguments(args, kwargs or {}),
        shown=targets.show_arguments(args, kwargs or {}),
        on_failure=on_failure,
        timeout=timeout,
        metadata=None if metadata is None else encode_metadata(metadata),
        queue=None if queue is None else check_queue(queue),
        priority=check_priority(priority, "priority", "setting"),
    )


def instant_of(time: Any, zone: str, name: str) -> float:
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise _wrong(name, f"{time!r} is no time: write one like 2026-03-29T02:30, or 2026-03-29") from None
    if isinstance(time, datetime):
        if time.tzinfo is None:
            time = time.replace(tzinfo=rules.zone_of(zone))
        return float(time.timestamp())
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not abs(time) <= sys.float_info.max:
        raise _wrong(name, f"it is a datetime, a text, or seconds since 1970, not {time!r}")
    return float(time)


def _named(start: Time | None, end: Time | None) -> tuple[tuple[Time | None, str], ...]:
    return (start, "start"), (end, "end")


def _rule(cron: str | None, every: float | timedelta | None, at: Time | None, zone: str, start: float | None) -> Rule:
    if sum(given is not None for given in (cron, every, at)) != 1:
        raise _wrong("cron", "a schedule has one of cron, every and at")
    rule: Rule
    if cron is not None:
        if not isinstance(cron, str):
            raise _wrong("cron", f"it is a text like '30 2 * * *', not {cron!r}")
        rule = Cron(" ".join(cron.split()), zone)
    elif every is not None:
        seconds = every.total_seconds() if isinstance(every, timedelta) else every
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise _wrong("every", f"it is a number of seconds or a timedelta, not {every!r}")
        rule = Every(float(seconds), start or 0.0)
    else:
        rule = At(instant_of(at, zone, "at"))
    rules.check(rule)
    return rule


def _delay(id: str, jitter: Any) -> float:
    """A part of the jitter that depends on nothing but the id: schedules differ, firings of one do not."""
    if isinstance(jitter, bool) or not isinstance(jitter, (int, float)) or not 0 <= jitter <= sys.float_info.max:
        raise _wrong("jitter", f"it is a number of seconds, not {jitter!r}")
    drawn = int.from_bytes(hashlib.blake2b(id.encode(), digest_size=6).digest(), "big") / 2**48
    return round(jitter * drawn, 3)


def _check_id(id: Any) -> None:
    if not isinstance(id, str) or not id or not id.isprintable() or len(id) > LONGEST_ID:
        raise _wrong("id", f"it is a text of at most {LONGEST_ID} characters that can be printed, not {id!r}")


def check_count(name: str, count: Any, most: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
        raise _wrong(name, f"it is a number from 1 to {most}, not {count!r}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        told = ", ".join([repr(choice) for choice in choices])
        raise _wrong(name, f"it is one of {told}, not {value!r}")


def _wrong(name: str, problem: str) -> InvalidOption:
    return InvalidOption(name, problem, kind="setting")
