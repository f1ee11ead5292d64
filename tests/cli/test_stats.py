"""`onceflow stats`: runs, tasks and bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceflow.cli.session import as_duration
from tests.cli.common import FLOWS, Command


def test_runs_are_counted_and_tasks_told(fresh: Command, tmp_path: Path) -> None:
    fresh("run", f"{FLOWS}:trip", "--arg", "user=ann")
    fresh("run", f"{FLOWS}:trip", "--arg", "user=bob")
    fresh("run", f"{FLOWS}:needy", "--arg", f"path={tmp_path / 'nothing'}", code=1)

    lines = fresh("stats").stdout.splitlines()

    assert lines[0] == "runs      2 succeeded, 1 failed"
    assert [line.split()[0] for line in lines[1:4]] == ["journal", "blobs", "logs"]
    assert lines[5].split() == ["task", "runs", "attempts", "failed", "lost", "p50", "p90", "output"]
    rows = {line.split()[0]: line.split()[1:4] for line in lines[6:]}
    assert set(rows) == {"price", "pay", "need"}
    assert rows["pay"][:2] == ["2", "2"]
    assert rows["need"] == ["1", "1", "1"]


def test_statistics_of_one_workflow_as_json(fresh: Command, tmp_path: Path) -> None:
    fresh("run", f"{FLOWS}:trip", "--arg", "user=ann")
    fresh("run", f"{FLOWS}:needy", "--arg", f"path={tmp_path / 'nothing'}", code=1)

    found = json.loads(fresh("stats", "needy", "--json").stdout)

    assert found["workflow"] == "needy"
    assert found["runs"] == {"failed": 1}
    assert found["bytes"]["journal"] > 0
    (need,) = found["tasks"]
    assert (need["task"], need["runs"], need["finished"], need["failed"], need["p50"]) == ("need", 1, 0, 1, None)


def test_an_unknown_workflow_has_no_runs(onceflow: Command) -> None:
    onceflow("run", f"{FLOWS}:trip", "--arg", "user=ann")

    assert onceflow("stats", "nothing").stdout.startswith("runs      none\n")


def test_a_home_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    onceflow = Command(tmp_path / "nowhere")

    assert onceflow("stats").stdout == "runs      none\njournal   0 B\nblobs     0 B\nlogs      0 B\n"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0, "0 µs"),
        (0.0000123, "12.3 µs"),
        (0.25, "250 ms"),
        (1.5, "1.5 s"),
        (99.94, "99.9 s"),
        (125, "2 min 5 s"),
        (7260, "2 h 1 min"),
    ],
)
def test_durations_are_told_in_units_that_people_use(seconds: float, told: str) -> None:
    assert as_duration(seconds) == told
