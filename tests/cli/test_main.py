"""The `onceflow` command itself."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from onceflow.cli.main import main

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


def test_it_tells_its_version(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"onceflow": "1.2.3"}[name])
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.output) == (0, "onceflow 1.2.3\n")


def test_it_has_no_version_if_it_is_not_installed(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert CliRunner().invoke(main, ["--version"]).output == "onceflow (not installed)\n"


def test_an_unknown_verb_is_an_error():
    result = CliRunner().invoke(main, ["fly"])
    assert result.exit_code == 2
    assert "No such command 'fly'" in result.output


def test_the_package_can_be_called():
    assert output_of("-m", "onceflow", "--help").startswith("Usage: onceflow [OPTIONS] COMMAND")


def test_nothing_slow_is_imported_before_a_verb_needs_it():
    loaded = output_of("-c", "import sys, onceflow.cli.main; print(*sys.modules)").split()
    slow = ("asyncio", "cloudpickle", "rich", "sqlite3", "onceflow.engine", "onceflow.testing")
    assert [name for name in loaded if name.startswith(slow)] == []
