"""`onceflow queue`."""

from __future__ import annotations

import re

from onceflow import Engine
from tests.cli.common import Command


def test_limits_are_set_one_by_one_and_taken_away(fresh: Command) -> None:
    set_ = ("queue", "set", "gpu")
    said = fresh(*set_, "--concurrency", "2", "--rate", "100/m").stdout
    assert said == "gpu: 2 at a time, 100/m; 0 going on, 0 waiting\n"
    told = fresh.json(*set_, "--per-key", "1", "--per-host", "3", "--max-pending", "9", "--rate", "none")
    assert told == {
        "name": "gpu",
        "concurrency": 2,
        "per_key": 1,
        "per_host": 3,
        "rate": None,
        "max_pending": 9,
        "paused": False,
        "waiting": 0,
        "places": [],
    }


def test_queues_are_listed_shown_paused_and_deleted(fresh: Command) -> None:
    fresh("queue", "set", "gpu", "--concurrency", "2")
    assert fresh("queue", "pause", "mail").stdout == "mail: paused, no limits; 0 going on, 0 waiting\n"
    assert fresh("queue", "list", "--quiet").stdout.split() == ["gpu", "mail"]
    assert re.search(r"gpu +2 at a time +0 +0", fresh("queue", "list").stdout)
    assert fresh.json("queue", "resume", "mail")["paused"] is False
    assert "no limits" in fresh("queue", "show", "mail").stdout
    assert fresh("queue", "delete", "mail", "--yes").stdout == "mail: deleted\n"
    assert [told["name"] for told in fresh.json("queue", "list")] == ["gpu"]


def test_who_has_a_place_is_shown(fresh: Command) -> None:
    with Engine(fresh.home, workers=1) as engine:
        engine.queue("reports", concurrency=1)
        engine.pause_queue("reports")
        waiting = engine.run_async(_flow(), queue="reports")
        assert fresh.json("queue", "list")[0]["waiting"] == 1
        assert "queue reports: it is paused" in fresh("why", waiting.id).stdout
        fresh("queue", "resume", "reports")
        waiting.result()


def test_looking_for_queues_makes_no_home_directory(fresh: Command) -> None:
    assert fresh("queue", "list").stdout == ""
    assert "there is no queue 'a'" in fresh.error("queue", "show", "a", code=3)
    assert not fresh.home.exists()


def test_wrong_limits_are_refused(fresh: Command) -> None:
    assert "neither a number nor `none`" in fresh.error("queue", "set", "a", "--concurrency", "two", code=2)
    assert "rate must be a text such as" in fresh.error("queue", "set", "a", "--rate", "fast", code=2)


def test_a_run_may_be_in_a_queue(fresh: Command) -> None:
    fresh("queue", "set", "reports", "--concurrency", "1")
    fresh.run("nothing", "--queue", "reports", "--priority", "3")


def _flow() -> object:
    from tests.cli.flows import nothing

    return nothing.bind()
