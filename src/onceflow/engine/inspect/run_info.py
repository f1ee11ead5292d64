"""Summaries of runs: finding a run, listing runs, their status and disk usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from onceflow.engine.statuses import ACTIVE, AT_REST, STATUSES, Status
from onceflow.errors import AmbiguousRun, InvalidOption, NoSuchRun
from onceflow.storage import logs
from onceflow.values.metadata import decode, encode

if TYPE_CHECKING:
    from onceflow.engine.attaching import Attaching
    from onceflow.storage.journal import RunRow
    from onceflow.storage.run_stores import Place

AT_ONCE = 500
"""Runs that are looked up together."""

MOST_CANDIDATES = 5
"""Runs that are named when a text could mean several."""


class RunInfo(msgspec.Struct, frozen=True):
    """A summary of a run."""

    id: str
    name: str | None
    workflow: str
    """The name of the workflow, or of the task whose output is the result."""
    status: Status
    created: float
    """Seconds since 1970."""
    updated: float
    """When its status last changed."""
    metadata: dict[str, Any] = {}
    """What was given to `run`."""


class Listing:
    def __init__(self, home: Place, attaching: Attaching) -> None:
        self._home = home
        self._attaching = attaching

    def row(self, run: str) -> RunRow:
        """By id, or by name. Raises `NoSuchRun`."""
        row = self._home.journal.get_run(run) or self._home.journal.find_name(run)
        if row is None:
            self._home.journal.check_absence(run)
            raise NoSuchRun(run)
        return row

    def rows(self, runs: Iterable[str]) -> dict[str, RunRow]:
        """The same for many. Raises `NoSuchRun` if one is not there."""
        asked = list(runs)
        found: dict[str, RunRow] = {}
        for start in range(0, len(asked), AT_ONCE):
            found |= self._home.journal.find_runs(asked[start : start + AT_ONCE])
        for run in asked:
            if run not in found:
                self._home.journal.check_absence(run)
                raise NoSuchRun(run)
        return found

    def find(self, run: str) -> RunInfo:
        """By id or name, or by the beginning of either if that can only mean one."""
        journal = self._home.journal
        row = journal.get_run(run) or journal.find_name(run)
        if row is not None:
            return self.info(row)
        if not run:
            raise NoSuchRun(run)
        most = MOST_CANDIDATES + 1
        rows = [*journal.find_prefix(run, most), *journal.list_runs(name=run, limit=most)]
        found = list({row.id: row for row in rows}.values())
        if not found:
            journal.check_absence(run)
            raise NoSuchRun(run)
        if len(found) > 1:
            names = [row.name if row.name is not None and row.name.startswith(run) else row.id for row in found]
            raise AmbiguousRun(run, tuple(names[:MOST_CANDIDATES]), more=len(names) > MOST_CANDIDATES)
        return self.info(found[0])

    def info(self, row: RunRow) -> RunInfo:
        return _info(row, self.status(row))

    def status(self, row: RunRow) -> Status:
        status = cast("Status", row.status)
        if status in AT_REST or not self._attaching.can_be_driven(row) or self._attaching.rests_here(row):
            return status
        if row.owner is None:  # it waits for an engine that takes it
            return "pending"
        # It may have ended between the two questions.
        again = self._home.journal.get_run(row.id)
        return "interrupted" if again is None or again == row else self.status(again)

    def interrupted(self) -> list[RunRow]:
        """Oldest first."""
        rows = self._home.journal.list_runs(statuses=list(ACTIVE), limit=None)
        return [row for row in reversed(rows) if self.status(row) == "interrupted"]

    def list(
        self,
        *,
        status: Status | Sequence[Status] | None,
        name: str | None,
        workflow: str | None,
        metadata: Mapping[str, Any] | None,
        before: str | None,
        limit: int | None,
    ) -> list[RunInfo]:
        wanted = None if status is None else [status] if isinstance(status, str) else list(status)
        for known in wanted or ():
            if known not in STATUSES:
                problem = f"it is one of {', '.join(STATUSES)}, not {known!r}"
                raise InvalidOption("status", problem, kind="setting")
        asked = wanted
        if wanted is not None and (set(wanted) & {"interrupted", *ACTIVE}):
            asked = [*wanted, *ACTIVE]
        rows = self._home.journal.list_runs(
            statuses=asked,
            name=name,
            workflow=workflow,
            metadata=None if metadata is None else encode(metadata),
            before=before,
            limit=limit if asked is wanted else None,
        )
        infos: list[RunInfo] = []
        for row in rows:
            now = self.status(row)
            if wanted is None or now in wanted:
                infos.append(_info(row, now))
                if len(infos) == limit:
                    break
        return infos

    def size(self, run: str) -> int:
        """Bytes of its definition, entries, blobs and log, without what database and file system add."""
        blobs = sum([file.size for file in self._home.blobs.files(run)])
        return self._home.journal.size(run) + blobs + logs.size(logs.of_run(self._home.path, run))


def _info(row: RunRow, status: Status) -> RunInfo:
    return RunInfo(row.id, row.name, row.workflow, status, row.created, row.updated, decode(row.metadata))
