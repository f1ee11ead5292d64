"""Completion in the shell."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from onceflow.cli.main import VERBS, main
from tests.cli.common import ENVIRONMENT
from tests.helpers.waiting import LONG


@pytest.fixture(scope="module")
def runs(onceflow):
    for name in ("trip-1", "trip-2"):
        onceflow.run("trip", "--name", name, "--arg", "user=ann")


def complete(onceflow, *words):
    """What bash would propose for the last word."""
    line = ["onceflow", *words]
    environment = {
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(words)),
        "_ONCEFLOW_COMPLETE": "bash_complete",
        "ONCEFLOW_HOME": str(onceflow.home),
    }
    result = CliRunner().invoke(main, [], prog_name="onceflow", env=environment)
    assert result.stderr == ""
    return [line.partition(",")[2] for line in result.stdout.split()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(onceflow, shell):
    assert f"_ONCEFLOW_COMPLETE={shell}_complete" in onceflow("completion", shell).stdout
    assert onceflow.json("completion", shell)["shell"] == shell


def test_an_unknown_shell_is_wrong_usage(onceflow):
    onceflow("completion", "tcsh", code=2)


def test_verbs_are_completed(onceflow):
    assert complete(onceflow, "re") == ["rerun", "resume", "retry"]
    assert complete(onceflow, "") == list(VERBS)


@pytest.mark.parametrize("verb", ["show", "resume", "retry", "cancel", "delete", "watch", "output", "logs"])
def test_runs_are_completed_by_name_and_id(onceflow, runs, verb):
    assert complete(onceflow, verb, "tr") == ["trip-2", "trip-1"]
    (id, _) = [run["id"] for run in onceflow.json("ls")]
    assert complete(onceflow, verb, id[:-1]) == [id]


def test_tasks_and_statuses_are_completed(onceflow, runs):
    assert complete(onceflow, "output", "trip-1", "p") == ["price", "pay"]
    assert complete(onceflow, "logs", "trip-1", "p") == ["price", "pay"]
    assert complete(onceflow, "ls", "--status", "un") == ["undoing", "undone"]


def test_nothing_is_proposed_where_nothing_is(fresh):
    assert complete(fresh, "show", "x") == []
    fresh.home.mkdir()
    (fresh.home / "journal.db").write_bytes(b"no database" * 1000)
    assert complete(fresh, "show", "x") == []
    assert complete(fresh, "output", "x", "y") == []


def test_the_script_works_in_bash(tmp_path):
    (tmp_path / "onceflow").write_text(f'#!/bin/sh\nexec {sys.executable} -m onceflow "$@"\n')
    (tmp_path / "onceflow").chmod(0o755)
    script = """
        eval "$(onceflow completion bash)"
        COMP_WORDS=(onceflow re) COMP_CWORD=1
        _onceflow_completion onceflow
        echo "${COMPREPLY[@]}"
    """
    environment = {**ENVIRONMENT, "PATH": f"{tmp_path}:{ENVIRONMENT['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=LONG)
    assert done.stdout == "rerun resume retry\n"
