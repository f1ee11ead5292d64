"""Access to the saved values of one run, for its driver."""

from __future__ import annotations

import msgspec

from onceflow.driver import children, history
from onceflow.driver.outputs import Part
from onceflow.storage.run_stores import Place


class Store(msgspec.Struct, frozen=True):
    """Implements `driver.work.Store` for one run."""

    _home: Place
    _run: str

    def read(self, reference: str) -> bytes:
        """A blob."""
        return self._home.blobs.read(reference)

    def delete(self, reference: str) -> None:
        self._home.blobs.discard(reference)

    def values(self, parts: set[tuple[str, int]]) -> dict[tuple[str, int], Part]:
        with self._home.journal.load(self._run) as loaded:
            return history.find_values(loaded.entries, parts)

    def outcomes(self) -> dict[str, children.Outcome]:
        with self._home.journal.load(self._run) as loaded:
            return history.find_outcomes(loaded.entries)
