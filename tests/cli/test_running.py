"""`onceflow run` and `onceflow check`."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.common import ENVIRONMENT, FLOWS
from tests.helpers.waiting import LONG, until


def test_a_workflow_is_run_and_its_result_printed(onceflow):
    assert onceflow.run("trip", "--arg", "user=ann", "--arg", "city=Oslo") == "ann paid 400\n"


def test_a_task_alone_can_be_run(onceflow):
    assert onceflow.run("price", "--arg", "city=Bern") == "400\n"


def test_nothing_is_printed_if_there_is_no_result(onceflow):
    assert onceflow.run("nothing") == ""


def test_a_name_is_one_piece_of_work(onceflow):
    first = onceflow.json("run", f"{FLOWS}:trip", "--name", "t-1", "--arg", "user=ann")
    again = onceflow.json("run", f"{FLOWS}:trip", "--name", "t-1", "--arg", "user=ann")
    assert first == again == {"id": first["id"], "name": "t-1", "status": "succeeded", "result": "ann paid 400"}
    error = onceflow.error("run", f"{FLOWS}:trip", "--name", "t-1", "--arg", "user=bob", code=4)
    assert error.startswith("the name 't-1' belongs to run")


def test_what_json_has_no_form_for_appears_as_python_shows_it(onceflow):
    assert onceflow.json("run", f"{FLOWS}:odd")["result"] == {"(1, 2)": "<odd>"}


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_values_are_json_or_else_texts_as_the_signature_says(onceflow):
    printed = onceflow.json(
        "run", f"{FLOWS}:typed", "--arg", "day=2026-08-01", "--arg", "number=5", "--arg", "rows=[1, 2]"
    )
    assert printed["result"] == ["2026-08-01", 5, [1, 2]]
    assert onceflow.run("trip", "--arg", "user=007") == "007 paid 400\n"
    assert onceflow.run("trip", "--arg", 'user="ann"') == "ann paid 400\n"
    assert onceflow.run("trip", "--arg", "user=a=b") == "a=b paid 400\n"


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--arg", "user=a", "--arg", "country=it"], "got an unexpected keyword argument 'country'"),
        ([], "missing a required argument: 'user'"),
        (["--arg", "user"], "--arg 'user' is not NAME=VALUE"),
        (["--input", "/no/such/file"], "/no/such/file cannot be read: No such file or directory"),
    ],
)
def test_arguments_that_do_not_fit_are_told_in_one_line(onceflow, args, error):
    assert error in onceflow.error("run", f"{FLOWS}:trip", *args, code=2)
    assert error in onceflow.error("check", f"{FLOWS}:trip", *args, code=2)


def test_a_value_of_the_wrong_type_is_told(onceflow):
    error = onceflow.error("run", f"{FLOWS}:typed", "--arg", "day=today", "--arg", "number=5", code=2)
    assert error.startswith("the argument 'day' does not fit: ")


def test_arguments_come_from_a_file_and_arg_counts_more(onceflow, tmp_path):
    file = tmp_path / "input.json"
    file.write_text('{"user": "ann", "city": "Rome"}')
    assert onceflow.run("trip", "--input", str(file), "--arg", "city=Paris") == "ann paid 500\n"
    assert onceflow("run", f"{FLOWS}:trip", "--input", "-", input='{"user": "bob"}').stdout == "bob paid 400\n"


@pytest.mark.parametrize(
    ("content", "error"),
    [("{", "is not JSON"), ("[1]", "is not a JSON object"), ('{"user": 3}', "the argument 'user' does not fit")],
)
def test_a_file_that_makes_no_sense_is_told(onceflow, tmp_path, content, error):
    file = tmp_path / "input.json"
    file.write_text(content)
    assert error in onceflow.error("run", f"{FLOWS}:trip", "--input", str(file), code=2)


# -- modules -----------------------------------------------------------------------------------------------------------


def test_a_fiber_can_be_run(onceflow):
    assert onceflow.run("stay", "--arg", "city=Rome", "--arg", "nights=2") == "ann paid 800\n"
    error = onceflow.error("run", f"{FLOWS}:stay", "--arg", "city=Rome", "--arg", "nights=two", code=2)
    assert "the argument 'nights' does not fit" in error


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("nothing", "'nothing' is not MODULE:WORKFLOW"),
        ("no_such_module:trip", "there is no module 'no_such_module'"),
        ("no/such/file.py:trip", "there is no file"),
        (f"{FLOWS}:nope", "there is no 'nope' in tests.cli.flows; it has trip, needy"),
        (f"{FLOWS}:NUMBER", "that is neither a workflow nor a task"),
        (f"{FLOWS}:broken", "missing a required argument: 'user'"),
    ],
)
def test_a_target_that_is_not_there_is_told(onceflow, target, error):
    assert error in onceflow.error("run", target, code=2)


def test_a_workflow_that_raises_is_told_in_one_line(onceflow):
    error = onceflow.error("run", f"{FLOWS}:broken", "--arg", "user=ann", code=2)
    assert error == f"{FLOWS}:broken cannot build its graph: RuntimeError: no graph for ann"


@pytest.mark.parametrize(
    ("number", "source"), list(enumerate(["1 / 0", "import sys; sys.exit(3)", "def", "import not_there_at_all"]))
)
def test_a_module_that_cannot_be_imported_is_told(onceflow, tmp_path, monkeypatch, number, source):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"module_of_no_use_{number}.py").write_text(source)
    assert "cannot be imported" in onceflow.error("run", f"module_of_no_use_{number}:trip", code=2)


SHOP = """
from helper_of_shop import VALUE
from onceflow import task

@task
def sell(tea: int) -> int:
    return tea * VALUE
"""


@pytest.mark.parametrize("folder", [".", "flows", "no-identifier"])
def test_a_file_can_be_run_and_resumed_from_where_it_was_run(tmp_path, folder):
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    (place / "shop.py").write_text(SHOP)
    (place / "helper_of_shop.py").write_text("VALUE = 7")

    def call(*args):
        command = [sys.executable, "-m", "onceflow", *args]
        return subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=LONG)

    done = call("run", f"{folder}/shop.py:sell", "--arg", "tea=6", "--name", "tea", "--quiet")
    assert (done.stdout, done.stderr, done.returncode) == ("42\n", "", 0)
    assert call("output", "tea").stdout == "42\n"


# -- how it ends -------------------------------------------------------------------------------------------------------


def test_a_run_that_fails_is_exit_code_1(onceflow, tmp_path):
    error = onceflow.error("run", f"{FLOWS}:needy", "--name", "n-1", "--arg", f"path={tmp_path / 'x'}", code=1)
    assert error.startswith(f"task need of run n-1 failed: FileNotFoundError: {tmp_path / 'x'} is missing.")
    assert onceflow.status("n-1") == "failed"


def test_a_failed_run_can_be_undone(onceflow, tmp_path):
    path = f"path={tmp_path / 'x'}"
    error = onceflow.error("run", f"{FLOWS}:saga", "--on-failure", "undo", "--name", "s-1", "--arg", path, code=1)
    assert "Everything it had done outside was taken back." in error
    assert onceflow.status("s-1") == "undone"


def test_a_run_that_takes_too_long_is_exit_code_1(onceflow, tmp_path):
    path = f"path={tmp_path / 'door'}"
    onceflow("run", f"{FLOWS}:held", "--name", "slow", "--timeout", "0.3s", "--arg", path, code=1)
    assert onceflow.status("slow") == "cancelled"


def test_an_unsafe_graph_is_refused(onceflow):
    error = onceflow.error("run", f"{FLOWS}:lottery", code=4)
    assert error.startswith("unsafe graph: 1 task could never start: announce")


def test_only_the_result_is_on_stdout(fresh):
    process = fresh.start("run", f"{FLOWS}:trip", "--arg", "user=ann", "--json")
    printed, said = process.communicate(timeout=LONG)
    assert json.loads(printed)["result"] == "ann paid 400"
    assert "paying for ann" in said


def test_ctrl_c_stops_the_run_and_keeps_what_it_has(fresh, tmp_path):
    door = tmp_path / "door"
    process = fresh.start("run", f"{FLOWS}:held", "--name", "h", "--arg", f"path={door}")
    until(Path(f"{door}.here").exists)
    process.send_signal(signal.SIGINT)
    said = (line for line in process.stderr if line.startswith("onceflow:"))  # how it gets on is told beside it
    assert next(said).startswith("onceflow: stopping run h: tasks with an effect may finish")
    door.touch()
    assert list(said) == [
        "onceflow: run h is stopped; onceflow resume h goes on\n",
        "onceflow: interrupted\n",
    ]
    printed, _ = process.communicate(timeout=LONG)
    assert (process.returncode, printed) == (130, "")
    assert fresh("resume", "h").stdout == "held and done\n"


def test_a_reader_that_goes_away_is_no_reason_to_complain(onceflow):
    onceflow.run("price", "--arg", "city=Bern")
    for command in (f"ls --home {onceflow.home}", "--help"):
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m onceflow {command} | true; exit ${{PIPESTATUS[0]}}"],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=LONG,
        )
        assert done.stderr == ""


# -- check -------------------------------------------------------------------------------------------------------------


def test_a_safe_graph_is_shown(onceflow):
    printed = onceflow("check", f"{FLOWS}:trip", "--arg", "user=ann").stdout.splitlines()
    assert printed == [
        "task   effect       saved  reads or waits for",
        "price  none         no",
        "pay    irrevocable  yes    price",
        "safe: 2 tasks",
    ]
    checked = onceflow.json("check", f"{FLOWS}:trip", "--arg", "user=ann")
    assert checked["safe"] is True
    assert checked["tasks"][1] == {
        "id": "pay",
        "task": "pay",
        "effect": "irrevocable",
        "saved": True,
        "deterministic": False,
        "reads": ["price"],
    }


def test_an_unsafe_graph_is_drawn_with_what_would_help(onceflow):
    result = onceflow("check", f"{FLOWS}:lottery", code=4)
    assert "draw ──▶ announce" in result.stdout
    assert "set checkpoint=True on draw" in result.stdout
    assert result.stderr == "onceflow: unsafe graph: 1 task could never start: announce\n"
    checked = onceflow.json("check", f"{FLOWS}:lottery", code=4)
    assert (checked["safe"], checked["blocked"], checked["proposals"]) == (False, ["announce"], {"announce": ["draw"]})


def test_a_check_needs_no_home_directory(fresh):
    fresh("check", f"{FLOWS}:trip", "--arg", "user=ann")
    assert not fresh.home.exists()


def test_a_run_is_run_again_from_a_task_on(onceflow, tmp_path):
    onceflow.run("trip", "--name", "first", "--arg", "user=ann")
    assert onceflow("rerun", "first", "--from", "pay", "--quiet").stdout == "ann paid 400\n"
    told = onceflow.json("rerun", "first", "--as", f"{FLOWS}:trip", "--arg", "user=bob", "--name", "second")
    assert (told["name"], told["result"]) == ("second", "bob paid 400")
    assert "from which task on?" in onceflow.error("rerun", "first", code=2)
    assert "--arg and --input are for the workflow" in onceflow.error("rerun", "first", "--arg", "a=1", code=2)
    onceflow.error("rerun", "first", "--from", "nothing", code=3)
    onceflow.error("rerun", "nobody", "--from", "pay", code=3)
