"""One engine for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onceflow import Engine
from onceflow.engine.peers import client
from tests.helpers.waiting import LONG


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine") / "home"


@pytest.fixture(scope="module")
def engine(home: Path) -> Iterator[Engine]:
    made = Engine(home, workers=2)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, an engine answers in the end."""
    monkeypatch.setattr(client, "PATIENCE", LONG)
