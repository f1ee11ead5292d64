"""A field of stubs."""

from __future__ import annotations

import os
from pathlib import Path

from bench import programs
from bench.field import Contestant, Field

ROOT = Path(__file__).resolve().parents[2]


def stub(name: str, ledger: Path, missing: str = "") -> Contestant:
    return Contestant(
        name,
        {"": "nothing"},
        "pass",
        f"from tests.bench import stub; stub.main({name!r})",
        environment={**programs.environment(str(ROOT)), "LEDGER": os.fspath(ledger)},
        missing=missing,
    )


def field_of(folder: Path, ours: Contestant, *peers: Contestant, rounds: int = 3) -> Field:
    place = folder / "field"
    place.mkdir()
    return Field(ours, peers, place, rounds)
