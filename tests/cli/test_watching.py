"""`onceflow watch`."""

import json
from pathlib import Path

from tests.cli.common import FLOWS
from tests.helpers.waiting import LONG, until


def test_a_run_that_has_ended_is_told_at_once(onceflow, tmp_path):
    onceflow.run("trip", "--name", "w-1", "--arg", "user=ann")
    lines = onceflow("watch", "w-1").stdout.splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == ["w-1  price: done", "w-1  pay: done", "w-1  succeeded"]
    onceflow.run("needy", "--name", "w-2", "--arg", f"path={tmp_path / 'x'}", code=1)
    result = onceflow("watch", "w-2", code=1)
    assert result.stdout.splitlines()[-1].endswith("  w-2  failed")
    assert result.stderr == "onceflow: run w-2 is failed\n"


def test_runs_are_followed_until_none_goes_on(fresh, tmp_path):
    door = tmp_path / "door"
    driving = fresh.start("run", f"{FLOWS}:held", "--name", "h", "--arg", f"path={door}")
    until(Path(f"{door}.here").exists)
    watching = fresh.start("watch", "--json", "--interval", "0.05")
    first = json.loads(watching.stdout.readline())
    assert set(first) == {"time", "id", "name", "task", "state"}
    door.touch()
    events = [first, *map(json.loads, watching.stdout)]
    _, said = watching.communicate(timeout=LONG)
    driving.communicate(timeout=LONG)
    assert (watching.returncode, said) == (0, "")
    assert (events[-1]["name"], events[-1]["task"], events[-1]["state"]) == ("h", None, "succeeded")
    assert "running" in [event["state"] for event in events if event["task"] is None]
