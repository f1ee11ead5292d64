"""When a schedule is due: the instants of a rule. Pure: no clock, no state.

An *instant* is a number of seconds since 1970. A rule is a set of instants, and the questions are which one comes next
(`next_after`) and which ones were the last (`last_until`).

**Cron and clocks that are put forward and back.** An expression speaks of what a clock on a wall shows. When clocks are
put forward some times of the day do not exist (a *gap*), when they are put back some exist twice (an *overlap*).

- If an expression gives hour and minute (neither field begins with `*`), its times are appointments, and each is kept
  once: one in a gap at the end of the gap, one in an overlap the first time. "Every day at 02:30" is once every day.
- Otherwise it follows the clock: it is due whenever the clock shows a time that fits. "Every ten minutes" is every ten
  minutes, in an overlap as well, and nothing happens in a gap, which takes no time.

That is what cron of Debian does. Expressions are read by cronsim, which is asked about clocks without time zones
only; what those mean in a zone is decided here.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from onceflow.errors import InvalidOption

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

STEADY = 2 * 86400
"""Seconds in which a clock is put forward or back once at the most. Twice in a row happens weeks apart."""

FIRST_WINDOW = 60.0
"""Seconds that are searched for the last instants before a moment. Then twice as many, and so on."""


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """Five fields (minute, hour, day of month, month, day of week), or six with seconds in front."""

    expression: str
    zone: str = "UTC"


class Every(msgspec.Struct, frozen=True, tag="every"):
    """All whole multiples of `seconds`, counted from `origin`, in both directions."""

    seconds: float
    origin: float = 0.0


class At(msgspec.Struct, frozen=True, tag="at"):
    """Once."""

    instant: float


Rule = Cron | Every | At


def next_after(rule: Rule, instant: float) -> float | None:
    """The first instant of the rule after this one; None if there is none, ever."""
    match rule:
        case At(at):
            return at if at > instant else None
        case Every(seconds, origin):
            count = math.floor((instant - origin) / seconds)
            while (found := _of_interval(rule, count)) <= instant:
                count += 1
            return found
        case Cron():
            return _next_of_cron(rule, instant)


def between(rule: Rule, first: float, end: float) -> Iterator[float]:
    """The instants from `first` on, before `end`."""
    found = next_after(rule, math.nextafter(first, -math.inf))
    while found is not None and found < end:
        yield found
        found = next_after(rule, found)


def last_until(rule: Rule, after: float, until: float, count: int) -> list[float]:
    """The last so many instants after one moment, until another one, and that included. Takes as long as there are
    instants asked for, however far the two moments are apart."""
    window = FIRST_WINDOW
    while True:
        start = max(after, until - window)
        found = list(between(rule, math.nextafter(start, math.inf), math.nextafter(until, math.inf)))
        if len(found) >= count or start == after:
            return found[-count:]
        window *= 2


def check(rule: Rule) -> None:
    """Raises `InvalidOption` for a rule that makes no sense, or will never be due."""
    match rule:
        case Cron(expression, zone):
            zone_of(zone)
            from cronsim import CronSimError

            try:
                there_is_one = _next_on_wall(expression, datetime(2000, 1, 1)) is not None  # noqa: DTZ001
            except CronSimError as error:
                problem = f"{expression!r} is no cron expression: {error}"
                raise InvalidOption("cron", problem, kind="setting") from None
            if not there_is_one:
                raise InvalidOption("cron", f"{expression!r} fits no time at all", kind="setting")
        case Every(seconds):
            if not 0.001 <= seconds <= sys.float_info.max:
                problem = f"it is a number of seconds, of which a thousandth is the least, not {seconds!r}"
                raise InvalidOption("every", problem, kind="setting")
        case At():
            pass


def tell(rule: Rule) -> str:
    """The rule, as text for users."""
    match rule:
        case Cron(expression, zone):
            return f"cron {expression} ({zone})"
        case Every(seconds):
            return f"every {seconds:g} s"
        case At(instant):
            return f"at {iso(instant)}"


def iso(instant: float) -> str:
    """An instant as a text, in UTC: `2026-03-29T01:00:00Z`."""
    text = datetime.fromtimestamp(round(instant, 6), UTC).isoformat()
    return text.removesuffix("+00:00") + "Z"


@functools.lru_cache(100)
def zone_of(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, no name at all, a folder
        problem = f"there is no time zone {name!r} here: write one like 'Europe/Berlin', or install the package tzdata"
        raise InvalidOption("zone", problem, kind="setting") from None


def _of_interval(rule: Every, count: int) -> float:
    """Rounded, so that tenths of a second stay what they look like."""
    return round(rule.origin + count * rule.seconds, 6)


# -- cron --------------------------------------------------------------------------------------------------------------

# Below, a datetime without a time zone is what a clock on a wall shows.


def _next_of_cron(rule: Cron, instant: float) -> float | None:
    zone = zone_of(rule.zone)
    moment = math.floor(instant)  # cron knows whole seconds, so the next one is the same
    return _next_appointment(rule, zone, moment) if _makes_appointments(rule) else _next_shown(rule, zone, moment)


def _makes_appointments(rule: Cron) -> bool:
    *_, minute, hour, _, _, _ = fields(rule.expression)
    return not minute.startswith("*") and not hour.startswith("*")


def fields(expression: str) -> list[str]:
    return NICKNAMES.get(expression.strip().lower(), expression).split()


def _next_appointment(rule: Cron, zone: tzinfo, instant: int) -> float | None:
    """A later appointment is never kept earlier, so the first one that is still to come is the one."""
    wall = _wall(instant, zone)
    while (found := _next_on_wall(rule.expression, wall)) is not None:
        kept = _instant_of(found, zone)
        if kept > instant:
            return float(kept)
        wall = found
    return None


def _next_shown(rule: Cron, zone: tzinfo, instant: int) -> float | None:
    """Goes from stretch to stretch in which the clock just runs."""
    wall = _wall(instant, zone)
    while True:
        offset = _offset(instant, zone)
        found = _next_on_wall(rule.expression, wall)
        if found is None:
            return None
        shown = _seconds(found) - offset
        change = _change_within(instant, instant + STEADY, zone)
        if change is not None and shown >= change:
            instant = change
            wall = _wall(change, zone) - timedelta(seconds=1)  # so that the first second after it counts
        elif change is None and shown > instant + STEADY:
            # Far away. What lies between shows times between those two, whatever happens to the clock.
            instant = max(instant + STEADY, shown - STEADY)
            wall = _wall(instant, zone)
        else:
            return float(shown)


def _next_on_wall(expression: str, wall: datetime) -> datetime | None:
    """The next time that fits, on a clock that just runs; None if there is none in fifty years."""
    from cronsim import CronSim

    try:
        return next(CronSim(" ".join(fields(expression)), wall))
    except (StopIteration, OverflowError):
        return None


def _instant_of(wall: datetime, zone: tzinfo) -> int:
    """When a clock first shows this; the end of the gap if it never does."""
    before, after = wall.replace(tzinfo=zone, fold=0), wall.replace(tzinfo=zone, fold=1)
    instant = _seconds(wall) - _seconds_of(before)
    if _wall(instant, zone) == wall:
        return instant
    change = _change_within(_seconds(wall) - _seconds_of(after), instant, zone)
    assert change is not None
    return change


def _change_within(start: int, end: int, zone: tzinfo) -> int | None:
    """The first instant at which the clock is put forward or back, after `start`; None if it just runs until `end`."""
    before = _offset(start, zone)
    if before == _offset(end, zone):
        return None
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if _offset(middle, zone) == before else (start, middle)
    return end


def _wall(instant: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(instant, zone).replace(tzinfo=None, fold=0)


def _offset(instant: int, zone: tzinfo) -> int:
    return _seconds_of(datetime.fromtimestamp(instant, zone))


def _seconds_of(aware: datetime) -> int:
    offset = aware.utcoffset()
    assert offset is not None
    return round(offset.total_seconds())


def _seconds(wall: datetime) -> int:
    return round(wall.replace(tzinfo=UTC).timestamp())
