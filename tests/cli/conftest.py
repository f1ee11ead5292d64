"""One home directory for each module of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceflow.engine.peers import client
from tests.cli.common import Command
from tests.helpers.waiting import LONG


@pytest.fixture(scope="module")
def onceflow(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return Command(tmp_path_factory.mktemp("cli") / "home")


@pytest.fixture
def fresh(tmp_path: Path) -> Command:
    return Command(tmp_path / "home")


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, an engine answers in the end."""
    monkeypatch.setattr(client, "PATIENCE", LONG)


@pytest.fixture(autouse=True)
def _one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEFLOW_WORKERS", "1")
