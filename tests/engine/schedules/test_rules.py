"""Which instants a rule has, in particular where clocks are put forward and back."""

from __future__ import annotations

import calendar
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceflow.engine.schedules import rules
from onceflow.engine.schedules.rules import At, Cron, Every, Rule
from onceflow.errors import InvalidOption

BERLIN = "Europe/Berlin"


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def told(rule: Rule, after: str, count: int) -> list[str]:
    """The next so many instants, as a clock in the zone of the rule shows them."""
    zone = ZoneInfo(rule.zone) if isinstance(rule, Cron) else UTC
    found, shown = instant(after), []
    for _ in range(count):
        following = rules.next_after(rule, found)
        if following is None:
            break
        found = following
        shown.append(datetime.fromtimestamp(found, zone).strftime("%m-%d %H:%M:%S%z"))
    return shown


# -- daylight saving ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_an_appointment_in_a_gap_is_kept_at_its_end(expression: str) -> None:
    assert told(Cron(expression, BERLIN), "2026-03-28T12:00Z", 2) == ["03-29 03:00:00+0200", "03-30 02:30:00+0200"]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_an_appointment_in_an_overlap_is_kept_the_first_time_only(expression: str) -> None:
    assert told(Cron(expression, BERLIN), "2026-10-24T12:00Z", 2) == ["10-25 02:30:00+0200", "10-26 02:30:00+0100"]


def test_appointments_that_a_gap_puts_together_are_one() -> None:
    rule = Cron("0,30 2,3 * * *", BERLIN)
    assert told(rule, "2026-03-28T12:00Z", 3) == ["03-29 03:00:00+0200", "03-29 03:30:00+0200", "03-30 02:00:00+0200"]


def test_what_follows_the_clock_has_nothing_in_a_gap() -> None:
    rule = Cron("*/30 * * * *", BERLIN)
    assert told(rule, "2026-03-29T00:29Z", 3) == ["03-29 01:30:00+0100", "03-29 03:00:00+0200", "03-29 03:30:00+0200"]


def test_what_follows_the_clock_happens_twice_in_an_overlap() -> None:
    rule = Cron("15 * * * *", BERLIN)
    assert told(rule, "2026-10-24T23:30Z", 4) == [
        "10-25 02:15:00+0200",
        "10-25 02:15:00+0100",
        "10-25 03:15:00+0100",
        "10-25 04:15:00+0100",
    ]


def test_midnight_may_be_in_a_gap() -> None:
    rule = Cron("@daily", "America/Santiago")
    assert told(rule, "2026-09-05T12:00Z", 2) == ["09-06 01:00:00-0300", "09-07 00:00:00-0300"]


# -- against the definition --------------------------------------------------------------------------------------------

SPAN = 2 * 86400
AROUND_CHANGES = {
    BERLIN: ("2026-03-29T00:00Z", "2026-10-25T00:00Z"),
    "America/New_York": ("2026-03-08T06:00Z", "2026-11-01T05:00Z"),
    "Australia/Lord_Howe": ("2026-04-04T14:00Z", "2026-10-03T15:00Z"),  # by half an hour
    "America/Santiago": ("2026-04-05T02:00Z", "2026-09-06T03:00Z"),  # at midnight
    "Asia/Kathmandu": ("2026-01-01T00:00Z",),  # never
    "Pacific/Apia": ("2011-12-30T00:00Z",),  # a whole day was left out
}


def fits_day(day: str, weekday: str, wall: datetime) -> bool:
    """`cron(8)`: if both are restricted, either is enough."""
    by_day = day == "*" or wall.day == int(day)
    by_weekday = weekday == "*" or calendar.weekday(wall.year, wall.month, wall.day) == (int(weekday) - 1) % 7
    return by_day and by_weekday if "*" in (day, weekday) else by_day or by_weekday


def fits_number(field: str, number: int) -> bool:
    if field.startswith("*/"):
        return number % int(field[2:]) == 0
    return field == "*" or number in [int(part) for part in field.split(",")]


def fits(expression: str, wall: datetime) -> bool:
    minute, hour, day, _, weekday = expression.split()
    return fits_number(minute, wall.minute) and fits_number(hour, wall.hour) and fits_day(day, weekday, wall)


def by_definition(expression: str, zone: str, start: int, end: int) -> Iterator[int]:
    """Minute by minute, as the module says: what the clock shows, or appointments."""
    minute, hour, *_ = expression.split()
    shows = {at: datetime.fromtimestamp(at, ZoneInfo(zone)).replace(tzinfo=None) for at in range(start, end, 60)}
    if minute.startswith("*") or hour.startswith("*"):
        yield from (at for at, wall in shows.items() if fits(expression, wall))
        return
    kept: dict[int, None] = {}
    latest = shows[start]
    for at, wall in shows.items():
        if wall > latest:  # else it is an overlap, and the clock has shown it before
            passed = [latest + timedelta(minutes=n) for n in range(1, (wall - latest) // timedelta(minutes=1) + 1)]
            if any(fits(expression, one) for one in passed):
                kept[at] = None
            latest = wall
    yield from kept


numbers = st.integers(0, 59).map(str)
MINUTES = st.one_of(st.just("*"), st.just("*/7"), numbers, st.lists(numbers, min_size=2, max_size=3).map(",".join))
hours = st.one_of(st.integers(0, 4), st.integers(0, 23)).map(str)
HOURS = st.one_of(st.just("*"), st.just("*/2"), hours, st.lists(hours, min_size=2, max_size=3).map(",".join))
DAYS = st.one_of(st.just("*"), st.integers(1, 31).map(str))
WEEKDAYS = st.one_of(st.just("*"), st.integers(0, 7).map(str))


@settings(max_examples=60)
@given(MINUTES, HOURS, DAYS, WEEKDAYS, st.sampled_from(sorted(AROUND_CHANGES)), st.data())
def test_cron_is_what_its_definition_says(
    minute: str, hour: str, day: str, weekday: str, zone: str, data: st.DataObject
) -> None:
    change = int(instant(data.draw(st.sampled_from(AROUND_CHANGES[zone]))))
    expression = f"{minute} {hour} {day} * {weekday}"
    first = change + 60 * data.draw(st.integers(-6 * 60, 6 * 60))
    expected = [at for at in by_definition(expression, zone, change - SPAN, change + SPAN) if at > first]

    found = list(rules.between(Cron(expression, zone), first + 1, change + SPAN))

    assert found == expected


# -- the others --------------------------------------------------------------------------------------------------------


def test_seconds_stand_in_front() -> None:
    assert told(Cron("*/20 59 23 31 12 *"), "2026-01-01T00:00Z", 3) == [
        "12-31 23:59:00+0000",
        "12-31 23:59:20+0000",
        "12-31 23:59:40+0000",
    ]


def test_nicknames_are_expressions() -> None:
    assert told(Cron("@weekly"), "2026-11-16T00:00Z", 1) == ["11-22 00:00:00+0000"]
    assert told(Cron("@Monthly"), "2026-11-16T00:00Z", 1) == ["12-01 00:00:00+0000"]


def test_far_away_instants_are_found_at_once() -> None:
    assert told(Cron("* * 29 2 *", BERLIN), "2026-01-01T00:00Z", 2) == ["02-29 00:00:00+0100", "02-29 00:01:00+0100"]


@given(st.floats(0.001, 1e6), st.floats(-1e9, 1e9), st.floats(-1e9, 2e9))
def test_an_interval_is_counted_from_its_origin(seconds: float, origin: float, after: float) -> None:
    rule = Every(seconds, origin)
    first = rules.next_after(rule, after)
    assert first is not None
    assert after < first <= after + seconds + 1e-5
    following = rules.next_after(rule, first)
    assert following is not None
    assert following - first == pytest.approx(seconds, abs=1e-5)


def test_a_tenth_of_a_second_stays_one() -> None:
    found = itertools.islice(rules.between(Every(0.1), 1_800_000_000.0, 1e12), 4)
    assert [rules.iso(at) for at in found] == [
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:00:00.100000Z",
        "2027-01-15T08:00:00.200000Z",
        "2027-01-15T08:00:00.300000Z",
    ]


def test_a_moment_comes_once() -> None:
    assert rules.next_after(At(5.0), 4.9) == 5.0
    assert rules.next_after(At(5.0), 5.0) is None


@given(st.sampled_from([Every(7.0, 3.0), Cron("*/7 * * * *"), At(50_000.0)]), st.integers(0, 90_000), st.integers(1, 9))
def test_the_last_instants_are_the_last_of_all(rule: Rule, until: int, count: int) -> None:
    everything = [at for at in rules.between(rule, 1_000.5, until + 1.0) if at <= until]
    assert rules.last_until(rule, 1_000.0, float(until), count) == everything[-count:]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (Cron("61 * * * *"), "Bad minute"),
        (Cron("* * *"), "Wrong number of fields"),
        (Cron("@never"), "Wrong number of fields"),
        (Cron("0 0 30 2 *"), "Bad day-of-month"),
        (Cron("0 0 */20 * 1L"), "fits no time at all"),
        (Cron("* * * * *", "Europe/Atlantis"), "there is no time zone 'Europe/Atlantis'"),
        (Cron("* * * * *", "../etc/passwd"), "there is no time zone"),
        (Cron("* * * * *", ""), "there is no time zone"),
        (Every(0.0), "a number of seconds"),
        (Every(float("nan")), "a number of seconds"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: Rule, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        rules.check(rule)
