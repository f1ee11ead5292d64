"""`onceflow logs`."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceflow.storage import logs
from tests.cli.common import ENVIRONMENT, FLOWS
from tests.helpers.waiting import LONG, until


@pytest.fixture(scope="module")
def runs(onceflow):
    onceflow.run("trip", "--name", "l-1", "--arg", "user=ann")
    onceflow.run("chat", "--name", "l-2", "--arg", "count=3")


def test_what_tasks_printed_is_shown_with_time_and_task(onceflow, runs):
    (line,) = onceflow("logs", "l-1").stdout.splitlines()
    assert line[19:] == " pay | paying for ann"
    assert onceflow("logs", "l-2", "-q").stdout.splitlines() == ["0", "1", "2", "careful", "on stderr"]


def test_lines_are_chosen(onceflow, runs):
    def texts(*options):
        return onceflow("logs", "l-2", "-q", *options).stdout.split("\n")[:-1]

    assert texts("--tail", "2") == ["careful", "on stderr"]
    assert texts("--tail", "0") == []
    assert texts("--stream", "stderr") == ["on stderr"]
    assert texts("--level", "warning") == ["careful"]
    assert texts("--attempt", "1.2") == []
    assert texts("--since", "10m", "--stream", "stdout") == ["0", "1", "2"]
    assert onceflow("logs", "l-1", "pay", "-q").stdout == "paying for ann\n"
    assert onceflow("logs", "l-1", "price").stdout == ""


def test_for_programs_each_line_is_an_object(onceflow, runs):
    lines = [json.loads(line) for line in onceflow("logs", "l-2", "--json").stdout.splitlines()]
    assert {tuple(line) for line in lines} == {("time", "task", "attempt", "stream", "level", "logger", "undo", "text")}
    del lines[3]["time"]
    assert lines[3] == {
        "task": "chat",
        "attempt": "1.1",
        "stream": "log",
        "level": "WARNING",
        "logger": "shop",
        "undo": False,
        "text": "careful",
    }


def test_what_is_not_there_is_told(onceflow, fresh, runs):
    assert onceflow.error("logs", "nobody", code=3) == "there is no run 'nobody'"
    assert onceflow.error("logs", "l-1", "nothing", code=4) == "there is no task 'nothing' in run l-1"
    assert onceflow.error("logs", code=2) == "which run? Give its id or name, or --engine"
    assert fresh.error("logs", "l-1", code=3) == "there is no run 'l-1'"
    assert fresh("logs", "--engine").stdout == ""
    assert not fresh.home.exists()
    onceflow.error("logs", "l-1", "--level", "loud", code=2)
    onceflow.error("logs", "--engine", "--stream", "log", code=2)


def test_a_run_is_followed_until_it_ends(fresh, tmp_path):
    door = tmp_path / "door"
    driving = fresh.start("run", f"{FLOWS}:noisy", "--name", "n", "--arg", f"path={door}")
    until(Path(f"{door}.here").exists)
    following = fresh.start("logs", "n", "--follow", "-q")
    assert following.stdout.readline() == "before\n"
    door.touch()
    assert following.communicate(timeout=LONG) == ("after\n", "")
    assert following.returncode == 0
    printed, said = driving.communicate(timeout=LONG)
    assert printed == "held\n"
    assert [line for line in said.splitlines() if line.startswith("noisy")] == ["noisy | before", "noisy | after"]


def test_to_follow_is_ended_from_the_keyboard(fresh, tmp_path):
    door = tmp_path / "door"
    driving = fresh.start("run", f"{FLOWS}:noisy", "--name", "n", "--arg", f"path={door}")
    until(Path(f"{door}.here").exists)
    following = fresh.start("logs", "n", "-f", "-q")
    assert following.stdout.readline() == "before\n"
    following.send_signal(signal.SIGINT)
    assert following.communicate(timeout=LONG) == ("", "onceflow: interrupted\n")
    assert following.returncode == 130
    door.touch()
    driving.communicate(timeout=LONG)
    assert driving.returncode == 0


def test_a_reader_that_goes_away_is_no_error(fresh):
    fresh.run("chat", "--name", "c", "--arg", "count=50000")
    command = f"{sys.executable} -m onceflow logs c --home {fresh.home} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, timeout=LONG)
    first, code = done.stdout.splitlines()
    assert first.endswith(" chat | 0")
    assert (code, done.stderr) == ("0", "")


@pytest.mark.parametrize(("options", "is_shown"), [((), True), (("--output", "store"), False), (("--quiet",), False)])
def test_what_tasks_print_is_shown_on_stderr_unless_somebody_minds(fresh, options, is_shown):
    result = fresh("run", f"{FLOWS}:trip", "--arg", "user=ann", "--name", "t", *options)
    assert result.stdout == "ann paid 400\n"
    assert ("pay | paying for ann\n" in result.stderr) == is_shown
    assert fresh("logs", "t", "-q").stdout == "paying for ann\n"


def test_a_deleted_run_has_no_log(fresh):
    fresh.run("trip", "--arg", "user=ann", "--name", "t")
    (id,) = logs.listed(logs.of_runs(fresh.home))
    assert fresh.json("prune", "--keep", "0", "--yes")["runs"][0]["id"] == id
    assert logs.listed(logs.of_runs(fresh.home)) == []


# -- of engines --------------------------------------------------------------------------------------------------------


def test_what_an_engine_did_is_shown(fresh, tmp_path):
    fresh.run("needy", "--name", "n", "--arg", f"path={tmp_path / 'x'}", code=1)
    (tmp_path / "x").touch()
    fresh("retry", "n")
    events = [json.loads(line) for line in fresh("logs", "--engine", "--json").stdout.splitlines()]
    events = [event for event in events if event["event"] != "started"]  # which a slow machine tells
    (id,) = [run["id"] for run in fresh.json("ls")]
    assert [event["event"] for event in events] == [
        *("engine opened", "run created", "failed", "status", "run ended", "engine closed"),
        *("engine opened", "run adopted", "run claimed", "status", "finished", "finished"),
        *("status", "run ended", "engine closed"),
    ]
    failed = events[2]
    assert (failed["run"], failed["task"], failed["attempt"]) == (id, "need", "1.1")
    assert failed["detail"].startswith("FileNotFoundError: ")
    assert failed["worker"] > 0
    assert failed["seconds"] >= 0
    assert len({event["engine"] for event in events}) == 2
    lines = fresh("logs", "--engine", "n", "need", "--tail", "1").stdout.splitlines()
    assert [line.split("  ")[2:5] for line in lines] == [["finished", id, "need"]]


def test_to_look_leaves_no_trace(fresh):
    fresh.run("nothing", "--name", "n")
    before = logs.listed(logs.of_engines(fresh.home))
    for verb in (("ls",), ("show", "n"), ("logs", "n"), ("logs", "--engine"), ("doctor",)):
        fresh(*verb)
    assert logs.listed(logs.of_engines(fresh.home)) == before
    assert len(before) == 1


def test_engines_are_followed_until_somebody_ends_it(fresh):
    fresh.run("nothing", "--name", "n")
    following = fresh.start("logs", "--engine", "-f", "--tail", "1")
    assert following.stdout.readline().endswith("  engine closed\n")
    fresh.run("nothing", "--name", "m")
    assert following.stdout.readline().split("  ")[2] == "engine opened"
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=LONG)
    assert following.returncode == 130


def test_the_doctor_tells_what_logs_take(fresh):
    fresh.run("trip", "--arg", "user=ann")
    (text,) = [finding["text"] for finding in fresh.json("doctor")["findings"] if finding["name"] == "logs"]
    assert text.endswith("of 1 runs and 1 engines")
