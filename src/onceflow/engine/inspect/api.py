"""What an engine tells about runs. None of it changes anything.

Of a run that is driven, whoever drives it knows most: this engine, or another one, which is asked. The journal has the
rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from onceflow.engine.attaching import Attaching
from onceflow.engine.inspect import overview
from onceflow.engine.inspect.journal_view import LeftBehind, Reading
from onceflow.engine.inspect.live import LiveRuns
from onceflow.engine.inspect.measurements import AttemptInfo, Past
from onceflow.engine.inspect.overview import Overview
from onceflow.engine.inspect.run_info import Listing, RunInfo
from onceflow.engine.inspect.statistics import RunCounts, Statistics
from onceflow.engine.inspect.task_info import TaskInfo
from onceflow.engine.inspect.why import Why, explain
from onceflow.engine.logs import task_lines
from onceflow.engine.logs.task_lines import Level, LogLine, LogStream
from onceflow.engine.peers import client
from onceflow.engine.runtime.facade import Hub
from onceflow.engine.statuses import ACTIVE, AT_REST, ENDED, STATUSES, Status
from onceflow.engine.submission import decode_settings
from onceflow.errors import InvalidOption
from onceflow.planning.estimates import Estimate
from onceflow.storage import logs as stored_logs
from onceflow.storage.journal import RunRow
from onceflow.storage.run_stores import Place
from onceflow.values import inert, packed_outputs

if TYPE_CHECKING:
    from onceflow.engine.inspect.deploy_check import FiberOutlook
    from onceflow.engine.inspect.fibers import FiberInfo

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Inspecting:
    """What an engine can tell."""

    _home: Place
    _hub: Hub
    _live: LiveRuns
    _attaching: Attaching
    _reading: Reading
    _listing: Listing
    _past: Past
    _unheard: dict[str, tuple[int, str]]
    """Run → what was logged about the engine that drives it and could not be asked, and how urgent that was."""

    def _check_open(self) -> None:
        """Raises `EngineClosed`."""
        raise AssertionError("an engine says whether it is open")

    def variables(self, run: str) -> dict[str, Any]:
        """The task variables of a run that tasks have written, by id or name. See `onceflow.variables`."""
        self._check_open()
        packed = self._reading.variables(self._listing.row(run).id)
        return {name: packed_outputs.unpack(value) for name, value in packed.items()}

    def shown_variables(self, run: str) -> dict[str, Any]:
        """A preview of the same for people, without importing or calling anything: values of classes that are not
        Python's own are told by the names of these, and what is too large or too deep is left out."""
        self._check_open()
        packed = self._reading.variables(self._listing.row(run).id)
        return {name: inert.shown(value) for name, value in packed.items()}

    def left_behind(self, run: str) -> LeftBehind:
        """What a run that has ended kept, and what may have happened, as `RunCancelled` says it."""
        self._check_open()
        return self._reading.left_behind(self._listing.row(run))

    def status(self, run: str) -> Status:
        """How a run stands, by id or name. Raises `NoSuchRun`."""
        self._check_open()
        return self._listing.status(self._listing.row(run))

    def info(self, run: str) -> RunInfo:
        """What is known about a run, by id or name. See `onceflow.info`."""
        self._check_open()
        return self._listing.info(self._listing.row(run))

    def find(self, run: str) -> RunInfo:
        """The run that somebody means who types this. See `onceflow.find`."""
        self._check_open()
        return self._listing.find(run)

    def list_tasks(self, run: str) -> list[TaskInfo]:
        """What is known about the tasks of a run, in the order of its graph. See `onceflow.list_tasks`."""
        self._check_open()
        return self._look(run, self._live.describe, client.describe, self._reading.tasks)

    def list_fibers(self, run: str) -> list[FiberInfo]:
        """The fibers of a run that have not ended, and where each stands. See `onceflow.list_fibers`."""
        from onceflow.engine.inspect.fibers import list_fibers  # slow to import, only for looking inside fibers

        self._check_open()
        return list_fibers(self._home, self._listing.row(run).id)

    def deploy_check(self, module: str) -> list[FiberOutlook]:
        """What would become of parked fibers in the code of a module as it is now. See `onceflow.deploy_check`."""
        from onceflow.engine.inspect.deploy_check import deploy_check  # as above

        self._check_open()
        going = [status for status in STATUSES if status not in ENDED or status == "failed"]
        return deploy_check(self._home, self.list_runs(status=going, limit=None), module)

    def why(self, run: str, task: str | None = None) -> Why:
        """What a run, or a task of it, waits for. See `onceflow.why`."""
        info = self.info(run)
        return explain(info, self.list_tasks(info.id), task)

    def survey(self, run: str) -> Overview:
        """How a run gets on, at a glance: for displays that look again and again."""
        self._check_open()
        return self._look(run, self._live.survey, client.survey, lambda id: overview.of(self._reading.tasks(id)))

    def list_runs(
        self,
        *,
        status: Status | Sequence[Status] | None = None,
        name: str | None = None,
        workflow: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        before: str | None = None,
        limit: int | None = 100,
    ) -> list[RunInfo]:
        """What is known about runs, newest first. See `onceflow.list_runs`."""
        self._check_open()
        return self._listing.list(
            status=status, name=name, workflow=workflow, metadata=metadata, before=before, limit=limit
        )

    def changed_code(self, run: str) -> dict[str, str | None]:
        """The tasks of a run whose code is known to be another one now than when it was recorded, each with the version
        that it has now, or None if it is gone. Imports the modules of the tasks, as resuming the run would."""
        from onceflow.engine.inspect.code_changes import changed_code  # as above

        self._check_open()
        return changed_code(self._home, self._listing.row(run).id)

    def version_of(self, run: str) -> str:
        """The version of onceflow that created a run; empty if that did not record it."""
        self._check_open()
        with self._home.journal.load(self._listing.row(run).id) as loaded:
            return decode_settings(loaded.settings).onceflow

    def list_attempts(self, run: str) -> list[AttemptInfo]:
        """What was measured of the attempts of a run. See `onceflow.list_attempts`."""
        self._check_open()
        return self._past.attempts(self._listing.row(run).id)

    def estimate(self, run: str) -> Estimate | None:
        """How long a run will go on, from what its tasks took before. See `onceflow.estimate`."""
        self._check_open()
        row = self._listing.row(run)
        status = self._listing.status(row)
        if status == "succeeded":
            return Estimate(0.0, 0.0, 0)
        return self._past.estimate(row, self.list_tasks(row.id)) if status in ACTIVE else None

    def statistics(self, workflow: str | None = None) -> Statistics:
        """What this engine has done, and what tasks took. See `onceflow.statistics`."""
        self._check_open()
        counts = self._hub.counts
        return Statistics(
            runs=RunCounts(len(self._hub.running), dict(counts.ended), counts.delegated),
            attempts=counts.attempts(),
            commands=counts.commands,
            journal=self._home.journal.statistics(),
            blobs=self._hub.blob_statistics(),
            objects=self._hub.object_statistics(),
            pool=self._hub.pool_statistics(),
            tasks=self._past.tasks(workflow),
        )

    def size(self, run: str) -> int:
        """How many bytes a run takes, by id or name: what it was given, what it has saved, and its log."""
        self._check_open()
        return self._listing.size(self._listing.row(run).id)

    def logs(
        self,
        run: str,
        task: str | None = None,
        *,
        attempt: str | None = None,
        stream: LogStream | None = None,
        level: Level | None = None,
        since: float | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> Iterator[LogLine]:
        """What the tasks of a run have printed and logged. See `onceflow.logs`."""
        self._check_open()
        id = self._listing.row(run).id
        wanted = task_lines.wanted(task, attempt, stream, level, since)
        if tail is not None and tail < 0:
            raise InvalidOption("tail", f"it is a number of lines, not {tail!r}", kind="setting")
        reader = stored_logs.Reader(stored_logs.of_run(self._home.path, id))
        return task_lines.select(reader, wanted, tail, (lambda: self._is_left(id)) if follow else None)

    def _look(
        self,
        run: str,
        here: Callable[[str], T | None],
        there: Callable[[Path, str, str], T],
        journal: Callable[[str], T],
    ) -> T:
        """What whoever drives the run says; what the journal has if nobody does, or does not answer."""
        row = self._listing.row(run)
        id = row.id
        while (said := self._hub.ask(lambda: here(id))) is None and not self._attaching.can_be_driven(row):
            if row.owner is None or row.owner == self._home.engine:
                break
            try:
                told = there(self._home.path, row.owner, row.id)
            except client.Elsewhere:
                before, row = row, self._listing.row(row.id)
                if row == before:
                    break
            except client.NotAnswered as problem:
                self._note_unheard(row, problem)
                return journal(row.id)
            else:
                self._note_heard(row.id)
                return told
        self._note_heard(row.id)
        return journal(row.id) if said is None else said

    def _note_unheard(self, row: RunRow, problem: client.NotAnswered) -> None:
        """Logs it once: who looks again and again need not read it each time."""
        level = logging.WARNING if isinstance(problem, client.Stopped) else logging.INFO
        noted = (level, f"{row.owner}: {problem}")
        if self._unheard.get(row.id) != noted:
            self._unheard[row.id] = noted
            logger.log(level, "run %s is driven by engine %s, which cannot be asked: %s", row.id, row.owner, problem)

    def _note_heard(self, run: str) -> None:
        noted = self._unheard.pop(run, None)
        if noted is not None:
            logger.log(noted[0], "the engine that drives run %s can be asked again, or another one drives it", run)

    def _is_left(self, run: str) -> bool:
        """Whether nobody drives the run."""
        self._check_open()
        row = self._home.journal.get_run(run)
        return row is None or self._listing.status(row) in {"interrupted", *AT_REST}
