"""Task variables, as far as the law goes (design 2.11): when what a task wrote counts, and who sees it.

A task that writes starts when it is quiet, and what it wrote is committed with the save that completes its output. From
then on it is settled, so nothing that is committed is ever rolled back: to a saga it is like something irrevocable that
has begun. Nobody may settle such a task by being settled themselves: unsaved, it would never be committed.

What is written is in the memory of whoever drives the run, until it is committed. So after a crash what is saved of a
writer counts as a whole or not at all (`loading`). An outcome that a handler gave in its stead is no write.

What the graph orders after a writer sees what it wrote: its consumers start when that is durable.
"""

from __future__ import annotations

from onceflow.core import records
from onceflow.core.retiring import Retiring
from onceflow.core.rows import Row


class Committing(Retiring):
    """Says when writes count. What was written, whoever drives the run knows."""

    def _commit_writes(self, row: Row) -> None:
        """The last part of its output is saved."""
        row.wrote = True
        self._append(records.Wrote(row.id, row.attempt))
        self._cover_above(row)

    def _show_writes(self, row: Row) -> None:
        """Those that come after it see what it wrote, or may build on what it joined."""
        for consumer, _, _ in row.consumers:
            consumer.uncommitted -= 1
            if consumer.uncommitted == 0 and consumer.missing == 0:
                self._ready.append(consumer)

    def _count_as_started(self, row: Row) -> None:
        """An irrevocable row that has begun may have had its effect: what it reads is never taken back."""
        row.begun_with = 0
        self._cover_above(row)

    def _prove_ended(self, row: Row | None, attempt: int) -> None:
        """However that was learnt: if it was not withdrawn before, it may have started."""
        if row is not None and row.begun_with == attempt:
            self._count_as_started(row)
        super()._prove_ended(row, attempt)

    def _withdraw(self, row: Row, attempt: int) -> None:
        """This attempt never started. If the row has begun with it, it has not."""
        if row.begun_with == attempt:
            row.begun_with = 0
            row.begun = False
            self._append(records.Withdrawn(row.id))

    def _cover_above(self, row: Row) -> None:
        """Something is done that cannot be taken back; unless it may yet turn out never to have started."""
        if not row.begun_with:
            self._retirable += self._cover([parent for parent, _ in row.parents])
