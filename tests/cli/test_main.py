"""The `onceflow` command itself."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from onceflow.cli.main import VERBS, main
from onceflow.cli.session import Session
from onceflow.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def output_of(*command):
    return subprocess.run(
        [sys.executable, *command], env=ENVIRONMENT, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_the_verbs(option):
    result = CliRunner().invoke(main, [option])
    assert result.exit_code == 0
    assert "Commands:\n  run " in result.output


def test_it_tells_its_version():
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.output) == (0, f"onceflow {VERSION}\n")


def test_it_is_installed_under_its_version():
    assert importlib.metadata.version("onceflow") == VERSION


def test_an_unknown_verb_is_an_error():
    result = CliRunner().invoke(main, ["fly"])
    assert result.exit_code == 2
    assert "No such command 'fly'" in result.output


def test_the_package_can_be_called():
    assert output_of("-m", "onceflow", "--help").startswith("Usage: onceflow [OPTIONS] COMMAND")


def test_without_a_verb_it_shows_its_help():
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Commands:\n  run " in result.output


SCHEDULING = [f"schedule {verb}" for verb in ("add", "list", "show", "pause", "resume", "trigger", "backfill", "next")]

QUEUEING = [f"queue {verb}" for verb in ("list", "show", "set", "pause", "resume", "delete")]


@pytest.mark.parametrize(
    "verb", [*[verb for verb in VERBS if verb not in ("schedule", "queue")], *SCHEDULING, *QUEUEING]
)
def test_every_verb_has_help_and_the_common_options(verb):
    result = CliRunner().invoke(main, [*verb.split(), "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {verb} ")
    for option in ("--home", "--json", "--quiet", "--debug"):
        assert option in result.output or verb == "demo"


def test_an_error_is_one_line_and_debug_shows_where_it_was_raised(tmp_path):
    words = ["show", "nobody", "--home", str(tmp_path)]
    assert CliRunner().invoke(main, words).stderr == "onceflow: there is no run 'nobody'\n"
    debugged = CliRunner().invoke(main, [*words, "--debug"]).stderr
    assert debugged.startswith("Traceback")
    assert debugged.endswith("onceflow: there is no run 'nobody'\n")


def test_a_mistake_of_ours_is_one_line_as_well(tmp_path, monkeypatch):
    def broken(session):
        raise ZeroDivisionError("for a test")

    monkeypatch.setattr(Session, "engine_if_any", broken)
    result = CliRunner().invoke(main, ["ls", "--home", str(tmp_path)])
    assert result.exit_code == 5
    assert result.stderr == "onceflow: unexpected ZeroDivisionError: for a test (--debug shows where)\n"


def test_ctrl_c_is_exit_code_130(tmp_path, monkeypatch):
    def interrupted(session):
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "engine_if_any", interrupted)
    result = CliRunner().invoke(main, ["watch", "--home", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (130, "onceflow: interrupted\n")


def test_help_loads_no_engine_and_no_verb():
    show_help = "from onceflow.cli.main import main; main(['--help'], standalone_mode=False)"
    loaded = output_of("-c", f"{show_help}; import sys; print(*sys.modules)").splitlines()[-1].split()
    slow = ("asyncio", "cloudpickle", "rich", "sqlite3", "onceflow.engine", "onceflow.storage", "onceflow.driver")
    assert [name for name in loaded if name.startswith(slow)] == []
    assert [name for name in loaded if name.startswith("onceflow.cli.")] == ["onceflow.cli.exits", "onceflow.cli.main"]


def test_nothing_slow_is_imported_before_a_verb_needs_it():
    loaded = output_of("-c", "import sys, onceflow.cli.main; print(*sys.modules)").split()
    slow = ("asyncio", "cloudpickle", "rich", "sqlite3", "onceflow.engine", "onceflow.testing")
    assert [name for name in loaded if name.startswith(slow)] == []
