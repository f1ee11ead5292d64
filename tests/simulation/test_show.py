"""`python -m tests.tools.simulation.show`."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.tools.simulation import show


def test_the_rules_are_shown_and_a_wrong_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "SECONDS", 0.2)
    console = Console(file=io.StringIO(), width=120)

    assert show.show(console)

    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "no effect lost, none doubled, none contradicted" in shown
    assert "caught in schedule" in shown
