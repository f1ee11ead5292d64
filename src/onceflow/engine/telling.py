"""Telling another engine what is wanted of a run that it drives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceflow.storage.journal import Failed, SendCommand, commit

if TYPE_CHECKING:
    from onceflow.storage.places import Place


def tell(home: Place, run: str, owner: str, kind: str, body: bytes = b"") -> None:
    """Leaves it in the journal, where it cannot get lost, and rings the engine's bell."""
    outcome = commit(home.journal, [SendCommand(run, kind, body)])
    if isinstance(outcome.refusal, Failed):
        raise outcome.refusal.error
    home.ring(owner)
