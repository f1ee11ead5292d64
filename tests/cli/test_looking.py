"""`onceflow ls`, `onceflow show`, `onceflow why`, `onceflow output`, and how runs are called."""

import re
import sys
import time

import pytest

from onceflow.cli.session import as_json
from onceflow.version import VERSION
from tests.cli.common import FLOWS


@pytest.fixture(scope="module")
def runs(onceflow, tmp_path_factory):
    """Name → id of runs that were made for all tests of this module."""
    missing = tmp_path_factory.mktemp("missing") / "file"
    for name, flow, arg, code in [
        ("trip-1", "trip", "user=ann", 0),
        ("trip-2", "trip", "user=bob", 0),
        ("needy-1", "needy", f"path={missing}", 1),
    ]:
        onceflow.run(flow, "--name", name, "--arg", arg, code=code)
    onceflow.run("price", "--arg", "city=Rome")
    return {run["name"]: run["id"] for run in onceflow.json("ls")}


def names(listed):
    return [run["name"] for run in listed]


def test_runs_are_listed_newest_first(onceflow, runs):
    lines = onceflow("ls").stdout.splitlines()
    assert lines[0].split() == ["id", "name", "workflow", "status", "created", "updated"]
    assert [line.split()[0] for line in lines[1:]] == [runs[name] for name in (None, "needy-1", "trip-2", "trip-1")]
    assert names(onceflow.json("ls")) == [None, "needy-1", "trip-2", "trip-1"]


def test_runs_are_found_by_filters(onceflow, runs):
    assert names(onceflow.json("ls", "--status", "failed")) == ["needy-1"]
    assert names(onceflow.json("ls", "--status", "failed,cancelled", "--status", "running")) == ["needy-1"]
    assert names(onceflow.json("ls", "--name", "trip-")) == ["trip-2", "trip-1"]
    assert names(onceflow.json("ls", "--workflow", "price")) == [None]
    assert names(onceflow.json("ls", "--limit", "1")) == [None]
    assert names(onceflow.json("ls", "--limit", "1", "--before", "trip-2")) == ["trip-1"]
    assert onceflow("ls", "--name", "nobody").output == ""


def test_a_run_in_json_has_the_documented_fields(onceflow, runs):
    (run,) = onceflow.json("ls", "--name", "trip-1")
    created, updated = run.pop("created"), run.pop("updated")
    assert run == {
        "id": runs["trip-1"],
        "name": "trip-1",
        "workflow": "trip",
        "status": "succeeded",
        "metadata": {},
    }
    assert time.time() - 600 < created <= updated <= time.time()


def test_quiet_lists_ids_only(onceflow, runs):
    assert onceflow("ls", "-q", "--name", "trip-").stdout.split() == [runs["trip-2"], runs["trip-1"]]


def test_an_unknown_status_is_wrong_usage(onceflow):
    assert "'sleeping' is not one of pending, running" in onceflow.error("ls", "--status", "sleeping", code=2)


# -- show --------------------------------------------------------------------------------------------------------------


def test_a_run_is_shown_with_its_tasks_and_what_they_raised(onceflow, runs):
    shown = onceflow("show", "needy-1").stdout
    assert f"id        {runs['needy-1']}\n" in shown
    assert "status    failed\n" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["need", "failed", "irrevocable", "no"] in [line[:4] for line in lines]
    assert ["after", "waiting", "irrevocable", "no", "waits", "for", "need"] in lines
    assert f"onceflow  {VERSION}\n" in shown
    assert "need raised FileNotFoundError: " in shown


def test_a_run_is_shown_in_json(onceflow, runs):
    shown = onceflow.json("show", "needy-1")
    assert (shown["name"], shown["status"], shown["problem"]) == ("needy-1", "failed", None)
    need, after = shown["tasks"]
    assert set(need) >= {
        "id",
        "task",
        "state",
        "effect",
        "saved",
        "attempt",
        "failures",
        "waits_for",
        "metadata",
        "error",
        "started",
        "seconds",
        "version",
        "changed",
    }
    assert (need["id"], need["state"], after["waits_for"]) == ("need", "failed", ["need"])
    assert need["error"].startswith("FileNotFoundError: ")
    assert after["error"] is None
    assert need["started"] > 0
    assert need["seconds"] >= 0
    assert need["version"].startswith("cp")
    assert (need["changed"], shown["onceflow"]) == (None, VERSION)
    assert (after["started"], after["seconds"]) == (None, None)


def test_it_is_shown_when_and_how_long_tasks_ran(onceflow, runs):
    shown = onceflow("show", "trip-1").stdout.splitlines()
    heading = next(line for line in shown if line.startswith("task "))
    assert heading.split() == ["task", "state", "effect", "saved", "started", "took", "failures", "now"]
    for line in shown[shown.index(heading) + 1 :]:
        assert re.search(r" \d\d:\d\d:\d\d  [\d.]+ (µs|ms|s)$", line), line


def test_it_is_shown_that_code_has_changed_or_is_gone(fresh, tmp_path, monkeypatch):
    code = (
        "from onceflow import task, workflow\n@task\ndef buy():\n    {}\n@task\ndef pay(bought):\n    return bought\n"
    )
    module = tmp_path / "shop_that_changes.py"
    monkeypatch.syspath_prepend(tmp_path)
    module.write_text(code.format("raise ValueError") + "@workflow\ndef order():\n    return pay.bind(buy.bind())\n")
    fresh("run", "shop_that_changes:order", "--name", "order", code=1)
    assert "its code" not in fresh("show", "order", "--code").stdout

    sys.modules.pop("shop_that_changes")
    module.write_text("from onceflow import task\n@task\ndef buy():\n    return 'bought for real'\n")
    shown = fresh("show", "order", "--code")

    assert re.search(r"buy: its code changed since, from cp\w+:\w+ to cp\w+:\w+", shown.stdout)
    assert "pay: its code is gone" in shown.stdout
    assert [task["changed"] for task in fresh.json("show", "order", "--code")["tasks"]] == [True, True]
    sys.modules.pop("shop_that_changes")


def test_runs_are_found_by_the_beginning_of_their_name_or_id(onceflow, runs):
    assert onceflow.json("show", "need")["id"] == runs["needy-1"]
    assert onceflow.json("show", runs["trip-2"][:-1])["name"] == "trip-2"


def test_a_beginning_that_could_mean_several_is_no_run(onceflow, runs):
    error = onceflow.error("show", "trip", code=3)
    assert error == "'trip' could be trip-2, trip-1: give more of it"
    assert "could be" in onceflow.error("show", runs["trip-1"][0], code=3)


@pytest.mark.parametrize("run", ["nobody", "", "%", "\x1b[31m", "ümlaut"])
def test_a_run_that_is_not_there_is_exit_code_3(onceflow, runs, run):
    for verb in ("show", "output", "watch", "resume", "retry", "cancel", "delete"):
        assert onceflow.error(verb, run, code=3).startswith("there is no run ")


# -- output ------------------------------------------------------------------------------------------------------------


def test_the_output_of_a_run_and_of_a_task_is_printed(onceflow, runs):
    assert onceflow("output", "trip-1").stdout == "ann paid 400\n"
    assert onceflow.json("output", "trip-1", "pay") == {
        "id": runs["trip-1"],
        "name": "trip-1",
        "task": "pay",
        "output": "ann paid 400",
    }


def test_what_cannot_be_handed_out_is_refused(onceflow, runs):
    assert "the task is not saved" in onceflow.error("output", "trip-1", "price", code=4)
    assert "no such task" in onceflow.error("output", "trip-1", "fly", code=4)
    assert "the task has not been done" in onceflow.error("output", "needy-1", code=4)


# -- looking leaves no trace -------------------------------------------------------------------------------------------


def test_to_look_makes_no_home_directory(fresh):
    assert fresh.json("ls") == []
    assert fresh.error("show", "x", code=3) == "there is no run 'x'"
    assert fresh.error("resume", "x", code=3) == "there is no run 'x'"
    fresh("watch")
    fresh("delete", "--all", "--yes")
    fresh("prune", "--keep", "1")
    fresh("doctor")
    assert not fresh.home.exists()


def test_a_home_that_is_no_directory_is_trouble(fresh):
    fresh.home.write_text("")
    for command in (["ls"], ["show", "x"], ["run", f"{FLOWS}:nothing"], ["doctor"]):
        assert "is not a directory" in fresh.error(*command, code=5)


# -- forms -------------------------------------------------------------------------------------------------------------


def test_every_value_has_a_form_in_json():
    endless: list[object] = []
    endless.append(endless)
    assert as_json({"a": [1, 2.5, None, "ü"]}) == '{"a":[1,2.5,null,"ü"]}'
    assert as_json(2**100) == str(2**100)
    assert as_json([float("nan"), 2**100]) == f"[null,{2**100}]"
    assert (
        as_json(
            {
                1,
            }
        )
        == "[1]"
    )
    assert as_json("\udcff") == '"\\\\udcff"'
    assert as_json(endless).startswith("[[[")
    assert as_json(len) == '"<built-in function len>"'


# -- metadata ----------------------------------------------------------------------------------------------------------


def test_runs_are_given_metadata_and_found_by_it(onceflow, runs):
    # given
    for number, team in ((1, "sales"), (2, "sales"), (3, "it")):
        onceflow.run(
            "price", "--arg", "city=Rome", "--name", f"m{number}", "--meta", f"team={team}", "--meta", f"n={number}"
        )
    # then
    assert names(onceflow.json("ls", "--meta", "team=sales")) == ["m2", "m1"]
    assert names(onceflow.json("ls", "--meta", "team=sales", "--meta", "n=1")) == ["m1"]
    assert onceflow.json("show", "m1")["metadata"] == {"team": "sales", "n": 1}
    assert 'metadata  team="sales"' in onceflow("show", "m1").stdout.splitlines()
    # when
    onceflow("prune", "--keep", "1", "--meta", "team=sales", "--yes")
    onceflow("delete", "--meta", "n=3", "--yes")
    # then
    assert names(onceflow.json("ls", "--name", "m")) == ["m2"]


def test_metadata_that_is_none_is_wrong_usage(onceflow):
    assert "'team' is not NAME=VALUE" in onceflow.error("ls", "--meta", "team", code=2)
    assert "is 1180591620717411303424" in onceflow.error(
        "run", f"{FLOWS}:price", "--arg", "city=Rome", "--meta", f"n={2**70}", code=2
    )


def test_why_a_run_is_not_done(onceflow, runs):
    lines = onceflow("why", "needy-1").stdout.splitlines()
    assert lines[0] == "needy-1 is failed: it has failed: when the cause is removed, `onceflow retry` goes on"
    assert lines[1].startswith("  need raised FileNotFoundError: ")
    assert lines[1].endswith(" (1 behind it)")
    (told,) = onceflow.json("why", "needy-1", "need")["obstacles"]
    assert (told["task"], told["state"], told["behind"]) == ("need", "failed", 1)
    assert onceflow.error("why", "needy-1", "nothing", code=3).startswith("there is no task 'nothing' in run ")
