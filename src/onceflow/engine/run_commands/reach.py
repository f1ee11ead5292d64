"""Telling another engine what is wanted of a run that it drives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onceflow.storage.journal import Failed, SendCommand, commit

if TYPE_CHECKING:
    from onceflow.storage.run_stores import Place


def tell(home: Place, run: str, owner: str, kind: str, body: bytes = b"") -> None:
    """Leaves it in the journal, where it cannot get lost, and rings the engine's bell."""
    tell_all(home, [(owner, SendCommand(run, kind, body))])


def tell_all(home: Place, told: Sequence[tuple[str, SendCommand]]) -> None:
    """The same for several runs, each with the engine that drives it, in one commit."""
    if not told:
        return
    outcome = commit(home.journal, [command for _, command in told])
    if isinstance(outcome.refusal, Failed):
        raise outcome.refusal.error
    for owner in dict.fromkeys(owner for owner, _ in told):
        home.ring(owner)
