"""`onceflow resume`, `onceflow retry`, `onceflow cancel` and `onceflow pause`."""

import contextlib
import json
from pathlib import Path

import pytest

from onceflow import Engine
from tests.cli.common import FLOWS
from tests.cli.flows import held
from tests.helpers.waiting import LONG, until


def fail(onceflow, name, path):
    onceflow.run("needy", "--name", name, "--arg", f"path={path}", code=1)


@contextlib.contextmanager
def going_on(onceflow, name, door):
    """A run that another process drives, and that waits at its door."""
    process = onceflow.start("run", f"{FLOWS}:held", "--name", name, "--arg", f"path={door}")
    try:
        until(Path(f"{door}.here").exists)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LONG)


def test_a_failed_run_is_retried_when_the_cause_is_removed(onceflow, tmp_path):
    fail(onceflow, "r-1", tmp_path / "x")
    assert "is missing" in onceflow.error("retry", "r-1", code=1)
    (tmp_path / "x").touch()
    assert onceflow("retry", "r-1").stdout == "found and done\n"


def test_only_failed_runs_are_retried(onceflow):
    onceflow.run("nothing", "--name", "r-2")
    assert onceflow.error("retry", "r-2", code=4) == "run r-2 is succeeded, not failed or undone"


def test_a_run_that_has_succeeded_just_gives_its_result(onceflow):
    onceflow.run("trip", "--name", "r-3", "--arg", "user=ann")
    assert onceflow("resume", "r-3").stdout == "ann paid 400\n"


def test_many_are_retried_at_once_and_each_is_told(onceflow, tmp_path):
    for name, path in [("m-1", "x"), ("m-2", "x"), ("m-3", "y")]:
        fail(onceflow, name, tmp_path / path)
    (tmp_path / "x").touch()
    result = onceflow("retry", "--name", "m-", "--json", code=1)
    assert [(run["name"], run["status"], run["result"]) for run in json.loads(result.stdout)] == [
        ("m-1", "succeeded", "found and done"),
        ("m-2", "succeeded", "found and done"),
        ("m-3", "failed", None),
    ]
    (tmp_path / "y").touch()
    assert onceflow("resume", "m-3", "m-1").stdout == "m-3: succeeded\nm-1: succeeded\n"


def test_runs_and_filters_do_not_go_together(onceflow):
    for verb in ("resume", "retry", "cancel", "delete"):
        assert onceflow.error(verb, "x", "--all", code=2) == "give either runs or filters, not both"
        assert onceflow.error(verb, code=2).startswith("which runs?")


def test_filters_that_fit_nothing_are_no_error(onceflow):
    for verb in ("resume", "retry", "cancel", "delete"):
        assert onceflow.json(verb, "--name", "nobody") == []


def test_an_interrupted_run_is_resumed_with_all_others(fresh, tmp_path):
    door = tmp_path / "door"
    with going_on(fresh, "h", door) as process:
        assert fresh.status("h") == "running"
        process.kill()
        process.wait(timeout=LONG)
    until(lambda: fresh.status("h") == "interrupted")
    door.touch()
    assert fresh("resume", "--all").stdout == "h: succeeded\n"


def test_a_run_is_cancelled_wherever_it_is_driven(fresh, tmp_path):
    with going_on(fresh, "h", tmp_path / "door") as process:
        assert "is still going on" in fresh.error("delete", "h", code=4)
        uncertain = "hold may or may not have happened: it had begun and did not finish"
        assert fresh("cancel", "h", "--grace", "0").stdout == f"h: cancelled\n  {uncertain}\n"
        assert f"left      {uncertain}\n" in fresh("show", "h").stdout
        _, said = process.communicate(timeout=LONG)
        assert process.returncode == 1
        assert "was cancelled. May or may not have happened: hold." in said
    (told,) = fresh.json("cancel", "h")
    assert told == {
        "id": fresh.json("ls")[0]["id"],
        "name": "h",
        "status": "cancelled",
        "kept": [],
        "uncertain": ["hold"],
    }
    (tmp_path / "door").touch()
    assert fresh("resume", "h").stdout == "held and done\n"


@contextlib.contextmanager
def six_with_one_worker(home, folder):
    """Six runs of which the first runs, and the others wait for the worker."""
    with Engine(home, workers=1) as engine:
        for number in range(6):
            engine.run_async(held.bind(str(folder / str(number))), name=f"h{number}")
        until(lambda: list(folder.glob("*.here")))
        yield


def test_none_of_many_starts_because_another_one_is_cancelled(fresh, tmp_path):
    with six_with_one_worker(fresh.home, tmp_path):
        told = fresh.json("cancel", "--all", "--yes", "--grace", "0")
    assert [one["status"] for one in told] == ["cancelled"] * 6
    assert len(list(tmp_path.glob("*.here"))) == 1


def test_nor_because_another_one_is_paused(fresh, tmp_path):
    with six_with_one_worker(fresh.home, tmp_path):
        (first,) = [path.with_suffix("") for path in tmp_path.glob("*.here")]
        process = fresh.start("pause", "--all", "--yes", "--json")
        until(lambda: all(run["status"] == "paused" for run in fresh.json("ls") if run["name"] != f"h{first.name}"))
        first.touch()
        said, _ = process.communicate(timeout=LONG)
    assert [one["status"] for one in json.loads(said)] == ["paused"] * 6
    assert len(list(tmp_path.glob("*.here"))) == 1


def test_what_has_ended_is_not_cancelled(onceflow):
    onceflow.run("nothing", "--name", "c-1")
    assert onceflow.error("cancel", "c-1", code=4) == "run c-1 has ended already: it is succeeded"


def test_many_are_not_cancelled_without_being_sure(onceflow, tmp_path):
    fail(onceflow, "c-2", tmp_path / "x")
    error = onceflow.error("cancel", "--name", "c-2", "--status", "failed", code=4)
    assert error == "Cancel run c-2? There is nobody to ask here: add --yes if you are sure."


@pytest.mark.parametrize("grace", ["-1", "soon", "nan"])
def test_a_grace_that_makes_no_sense_is_wrong_usage(onceflow, grace):
    onceflow("cancel", "x", "--grace", grace, code=2)
