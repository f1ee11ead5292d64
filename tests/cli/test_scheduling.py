"""`onceflow schedule`."""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest

from onceflow import Engine
from tests.cli.common import FLOWS, Command
from tests.helpers.waiting import until


def add(onceflow: Command, id: str, *options: str, flow: str = "nothing", code: int = 0) -> str:
    return onceflow("schedule", "add", id, f"{FLOWS}:{flow}", *options, code=code).stdout


@pytest.fixture
def nightly(fresh: Command) -> Command:
    when = ("--cron", "30 2 * * *", "--zone", "Europe/Berlin")
    add(fresh, "nightly", *when, "--arg", "user=ann", "--meta", "team=sales", flow="trip")
    return fresh


def test_a_schedule_is_added_and_shown(nightly: Command) -> None:
    shown = nightly("schedule", "show", "nightly").stdout

    assert "nightly: trip(user='ann')" in shown
    assert "cron 30 2 * * * (Europe/Berlin)" in shown
    told = nightly.json("schedule", "show", "nightly")
    assert (told["workflow"], told["fired"], told["metadata"], told["runs"]) == ("trip", 0, {"team": "sales"}, [])
    assert told["next"] > time.time()


def test_schedules_are_listed(nightly: Command) -> None:
    add(nightly, "often", "--every", "15m")

    assert nightly("schedule", "list", "--quiet").stdout.split() == ["nightly", "often"]
    assert "every 900 s" in nightly("schedule", "list").stdout
    assert [told["id"] for told in nightly.json("schedule", "list")] == ["nightly", "often"]


def test_looking_for_schedules_makes_no_home_directory(fresh: Command) -> None:
    assert fresh("schedule", "list").stdout == ""
    assert fresh.error("schedule", "show", "a", code=3) == "there is no schedule 'a'"
    assert fresh.error("schedule", "pause", "a", code=3) == "there is no schedule 'a'"
    assert not fresh.home.exists()


def test_the_next_times_are_printed(nightly: Command) -> None:
    times = [datetime.fromisoformat(line) for line in nightly("schedule", "next", "nightly", "-n", "3").stdout.split()]

    assert [(when.hour, when.minute) for when in times] == [(2, 30)] * 3
    assert len(nightly.json("schedule", "next", "nightly")) == 5


def test_a_schedule_rests_and_goes_on(nightly: Command) -> None:
    assert "paused" in nightly("schedule", "pause", "nightly").stdout
    assert nightly.json("schedule", "show", "nightly")["paused"] is True
    assert nightly.json("schedule", "resume", "nightly")["paused"] is False


def test_a_schedule_is_triggered_and_its_run_found(nightly: Command) -> None:
    assert nightly("schedule", "trigger", "nightly").stdout == "ann paid 400\n"

    told = nightly.json("schedule", "show", "nightly")
    assert told["fired"] == 1
    assert [run["status"] for run in told["runs"]] == ["succeeded"]
    assert [run["id"] for run in nightly.json("ls", "--meta", "schedule=nightly")] == [told["last_run"]]


def test_a_backfill_runs_what_is_missing(nightly: Command) -> None:
    stretch = ("2026-03-28", "2026-03-31")

    printed = nightly("schedule", "backfill", "nightly", *stretch).stdout

    assert printed.splitlines() == [
        "nightly@2026-03-28T01:30:00Z: succeeded",
        "nightly@2026-03-29T01:00:00Z: succeeded",
        "nightly@2026-03-30T00:30:00Z: succeeded",
    ]
    assert nightly.json("schedule", "backfill", "nightly", *stretch) == []


def test_a_backfill_whose_runs_fail_says_so(fresh: Command) -> None:
    add(fresh, "bad", "--cron", "@daily", "--arg", "path=/nowhere", flow="needy")

    told = json.loads(fresh("schedule", "backfill", "bad", "2026-01-01", "2026-01-02", "--json", code=1).stdout)

    assert [run["status"] for run in told] == ["failed"]


def test_a_schedule_is_deleted_after_a_question(nightly: Command) -> None:
    assert "add --yes" in nightly.error("schedule", "delete", "nightly", code=4)
    assert nightly("schedule", "delete", "nightly", "--yes").stdout == "nightly: deleted\n"
    assert nightly.error("schedule", "delete", "nightly", "--yes", code=3) == "there is no schedule 'nightly'"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "one of cron, every and at"),
        (("--cron", "* *"), "is no cron expression"),
        (("--every", "often"), "is no age"),
        (("--cron", "@daily", "--zone", "Mars"), "there is no time zone 'Mars'"),
        (("--cron", "@daily", "--arg", "nobody=1"), "nobody"),
        (("--cron", "@daily", "--limit", "0"), "a number from 1"),
    ],
)
def test_what_makes_no_sense_is_one_line(fresh: Command, options: tuple[str, ...], problem: str) -> None:
    assert problem in fresh.error("schedule", "add", "a", f"{FLOWS}:nothing", *options, code=2)


def test_an_engine_fires_what_the_command_has_added(fresh: Command) -> None:
    with Engine(fresh.home, workers=1) as engine:
        add(fresh, "soon", "--at", datetime.now().astimezone().isoformat())

        until(lambda: [info.status for info in engine.list_runs()] == ["succeeded"])
