"""A report every night: a schedule, what becomes of nights that were missed, and a backfill.

    python examples/nightly_report.py                          declare the schedule, and stay to fire it
    python examples/nightly_report.py 2026-03-27 2026-03-30    the reports of these nights, as far as they are missing

    sales(day) ──▶ write ──▶ announce

Each night at half past two, Berlin time, the sales of the day before are added up and written into `reports/`. The
workflow goes by `scheduled`, the time for which it was fired, and not by the clock: so a night that was missed, because
the machine was off, is made up for with its own sales, and a run that is repeated writes the same report.

Start as many of these programs as you like, and kill them: each night has one report and one announcement.
"""

from __future__ import annotations

import random
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path

from onceflow import current, task, workflow
from onceflow.schedules import backfill, next_times, schedule

REPORTS = Path("reports")


@task.pure
def sales(day: str) -> dict[str, int]:
    """Cents for each shop. The source is made up: the same day has always sold the same."""
    chance = random.Random(day)
    return {shop: chance.randrange(10_000, 90_000) for shop in ("north", "south", "west")}


@task
def write(day: str, sold: dict[str, int]) -> str:
    """Done twice, it leaves the same file."""
    lines = [f"{shop:6} {cents / 100:10.2f}" for shop, cents in sold.items()]
    file = REPORTS / f"{day}.txt"
    REPORTS.mkdir(exist_ok=True)
    fresh = file.with_suffix(f".{current().attempt}")
    fresh.write_text("\n".join([f"sales of {day}", *lines, ""]))
    fresh.rename(file)
    return str(file)


@task
def announce(file: str) -> str:
    return f"{file} is there"


@workflow
def report(scheduled: datetime) -> str:
    day = (scheduled - timedelta(days=1)).date().isoformat()
    return announce.bind(write.bind(day, sales.bind(day)))


def main(*stretch: str) -> None:
    schedule("nightly-report", report, cron="30 2 * * *", zone="Europe/Berlin", catch_up="all", overlap="queue")
    if stretch:
        start, end = stretch
        done = backfill("nightly-report", start, end)
        for run in done:
            print(run.name, run.status)
        print(f"{len(done)} were missing")
        return
    print("the next report is due", next_times("nightly-report", 1)[0].isoformat())
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
