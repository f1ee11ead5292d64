"""What must be true in the end, checked against the ledger alone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onceflow.testing.demo.ledger import Entry, Ledger, Request
from onceflow.testing.demo.points import Point
from onceflow.testing.demo.traveller import WORKERS, Came
from onceflow.testing.demo.trips import EFFECTS

OUTSIDE = [task for task, effect in EFFECTS.items() if effect != "none"]
STANDING = {"ann": OUTSIDE, "bob": ["send_greeting"]}
"""Trip → the tasks whose effects are there in the end. Bob's mail cannot be taken back."""
STATUSES = {"ann": "succeeded", "bob": "undone"}


class Claim(msgspec.Struct, frozen=True):
    """Something that is true or not."""

    text: str
    holds: bool


def prove(ledger: Ledger, trip: str, came: Came | None, kills: Sequence[Point]) -> list[Claim]:
    entries, requests = ledger.entries(trip), ledger.requests(trip)
    standing = [entry for entry in entries if not entry.taken_back]
    tasks = sorted(entry.task for entry in standing)
    wanted = STANDING[trip]
    claims = [
        Claim(f"the run {said(STATUSES[trip])}", came is not None and came.status == STATUSES[trip]),
        Claim(
            f"each of {len(wanted)} effects is there exactly once"
            if trip == "ann"
            else "everything is taken back but one mail, which cannot be, and which came once",
            tasks == sorted(wanted),
        ),
        Claim("all of them belong to one and the same offer", len({entry.euros for entry in standing}) == 1),
        Claim(
            "nothing irrevocable was ever taken back",
            not any(request.undo for request in requests if EFFECTS[request.task] == "irrevocable"),
        ),
        Claim("nothing came again after it was taken back", not _came_again(requests)),
        Claim(
            f"{_repeated(entries)} repetitions after {len(kills)} kills: at most one for each worker that was killed",
            _repeated(entries) <= len(kills) * WORKERS,
        ),
    ]
    return claims


def said(status: str) -> str:
    """A status as the end of a sentence."""
    return f"has {status}" if status in ("succeeded", "failed") else f"is {status}"


def _came_again(requests: Sequence[Request]) -> bool:
    """Whether an effect was asked for under a key that had been given up."""
    given_up = set()
    for request in requests:
        if request.undo:
            given_up.add(request.key)
        elif request.key in given_up:
            return True
    return False


def _repeated(entries: Sequence[Entry]) -> int:
    return sum(entry.asked - 1 for entry in entries)
