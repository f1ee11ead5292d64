"""Traces that tasks leave in a file."""

from __future__ import annotations

from pathlib import Path


def note(path: str | Path, line: object) -> None:
    """Leave a trace, in one write."""
    with open(path, "a") as file:
        file.write(f"{line}\n")


def traces(path: str | Path) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
