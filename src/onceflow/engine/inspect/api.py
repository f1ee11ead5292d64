"""Inspection of runs: methods of an engine. Read-only.

The state of a driven run comes from the engine that drives it: this one, or another one, which is asked. The rest comes
from the journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from onceflow.engine import outcomes
from onceflow.engine.inspect.engines import list_engines
from onceflow.engine.logs import task_lines
from onceflow.engine.parts import Parts
from onceflow.engine.statuses import ACTIVE, AT_REST, ENDED, STATUSES
from onceflow.engine.submission import decode_settings
from onceflow.errors import InvalidOption
from onceflow.planning.estimates import Estimate
from onceflow.storage import logs as stored_logs
from onceflow.values import packed_outputs, previews

if TYPE_CHECKING:
    from onceflow.engine.inspect.deploy_check import FiberOutlook
    from onceflow.engine.inspect.engines import EngineInfo
    from onceflow.engine.inspect.fibers import FiberInfo
    from onceflow.engine.inspect.journal_view import LeftBehind
    from onceflow.engine.inspect.live import LiveRuns
    from onceflow.engine.inspect.measurements import AttemptInfo, Past
    from onceflow.engine.inspect.overview import Overview
    from onceflow.engine.inspect.run_info import RunInfo
    from onceflow.engine.inspect.statistics import Statistics
    from onceflow.engine.inspect.task_info import TaskInfo
    from onceflow.engine.inspect.why import Why
    from onceflow.engine.logs.task_lines import Level, LogLine, LogStream
    from onceflow.engine.peers import client
    from onceflow.engine.statuses import Status
    from onceflow.storage.journal import DamagedRun, RunRow

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Inspecting(Parts):
    """The methods of an engine that report on runs."""

    _past: Past
    _live: LiveRuns
    _unheard: dict[str, tuple[int, str]]
    """Run → what was logged about the engine that drives it and could not be asked, and how urgent that was."""

    def _check_logs(self) -> None:
        """Raises if nothing is captured here."""

    def variables(self, run: str) -> dict[str, Any]:
        """The task variables of a run, by id or name: those that tasks have written, as they are committed now.

        variables("import-7").get("done", 0)
        """
        self._check_open()
        packed = self._reading.variables(self._listing.row(run).id)
        return {name: packed_outputs.unpack(value) for name, value in packed.items()}

    def shown_variables(self, run: str) -> dict[str, Any]:
        """A preview of the same for users, without importing or calling anything: values of classes that are not
        Python's own are shown by the names of these, and what is too large or too deep is left out."""
        self._check_open()
        packed = self._reading.variables(self._listing.row(run).id)
        return {name: previews.shown(value) for name, value in packed.items()}

    def left_behind(self, run: str) -> LeftBehind:
        """What a run that has ended kept, and what may have happened, as `RunCancelled` says it."""
        self._check_open()
        return self._reading.left_behind(self._listing.row(run))

    def status(self, run: str) -> Status:
        """The status of a run, by id or name. Raises `NoSuchRun`."""
        self._check_open()
        return self._listing.status(self._listing.row(run))

    def info(self, run: str) -> RunInfo:
        """A summary of a run, by id or name. Raises `NoSuchRun`."""
        self._check_open()
        return self._listing.info(self._listing.row(run))

    def find(self, run: str) -> RunInfo:
        """The run that a user means by this text: an id, a name, or the beginning of either if only one run begins
        so. Raises `NoSuchRun`, or `AmbiguousRun` if there are several.

            resume(find("trip-1").id)
        """
        self._check_open()
        return self._listing.find(run)

    def list_tasks(self, run: str) -> list[TaskInfo]:
        """Information about the tasks of a run, by id or name, in the order of its graph; those of a returned graph
        stand behind the task that returned it. The engine that drives the run is asked, also in another process; if
        that does not answer, or no engine drives it, this is what the journal has (`TaskInfo.live` is then false).

            for info in list_tasks("trip-17"):
                print(info.id, info.state)
        """
        self._check_open()
        from onceflow.engine.peers import client

        return self._look(run, self._live.describe, client.describe, self._reading.tasks)

    def list_fibers(self, run: str) -> list[FiberInfo]:
        """The fibers of a run that have not ended, by its id or name: the functions that each is in, with file, line,
        source text and variables, and what it waits for. It is what the journal has, whichever engine drives the run,
        and none of the run's code is needed or called.

            for fiber in list_fibers("order-7"):
                print(fiber.function, fiber.waits_for, fiber.frames[-1].line)
        """
        from onceflow.engine.inspect.fibers import list_fibers  # slow to import, only for looking inside fibers

        self._check_open()
        return list_fibers(self._home, self._listing.row(run).id)

    def deploy_check(self, module: str) -> list[FiberOutlook]:
        """What would happen to the fibers of runs that have not ended, or have failed, if they continued in the code of
        this module, and of those inside it, as this process has imported it or imports it now: for each that has to do
        with it, whether its code is the same, it is pinned, it moves, or is lost, and why. Nothing is changed, and
        apart from the import none of the user's code is called. Raises `InvalidOption` if there is no such module, nor
        a fiber that knows it.

            lost = [fiber for fiber in deploy_check("shop") if fiber.verdict == "lost"]
        """
        from onceflow.engine.inspect.deploy_check import deploy_check  # as above

        self._check_open()
        going = [status for status in STATUSES if status not in ENDED or status == "failed"]
        return deploy_check(self._home, self.list_runs(status=going, limit=None), module)

    def why(self, run: str, task: str | None = None) -> Why:
        """What a run waits for, or one task of it: the tasks that block it, what each does or waits for (a worker, a
        save, a delay, a user), and how many others wait behind it. Raises `NoSuchRun` and `NoSuchTask`.

            for obstacle in why("trip-17").obstacles:
                print(obstacle.task, obstacle.text)
        """
        from onceflow.engine.inspect.why import explain

        info = self.info(run)
        return explain(info, self.list_tasks(info.id), task)

    def survey(self, run: str) -> Overview:
        """An overview of the progress of a run, for displays that poll."""
        from onceflow.engine.inspect import overview
        from onceflow.engine.peers import client

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
        """Information about runs, newest first. `name` is the beginning of a name; `metadata` has members that those
        of the runs have, too. With `before`, the id of a run, only older ones are listed: that of the last one leads to
        the next page. `limit=None` lists all.

            for info in list_runs(status=["failed", "interrupted"]):
                print(info.id, info.workflow, info.status)
        """
        self._check_open()
        return self._listing.list(
            status=status, name=name, workflow=workflow, metadata=metadata, before=before, limit=limit
        )

    def changed_code(self, run: str) -> dict[str, str | None]:
        """The tasks of a run whose code is known to have changed since it was recorded, each with the version
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
        """Measurements of the attempts of a run, by id or name, in the order in which they ended: start, duration,
        outcome. Nothing waits for measurements, and a crash may take the last ones. Of a very long run only the last
        ones are returned.

            for attempt in list_attempts("trip-17"):
                print(attempt.id, attempt.seconds, attempt.outcome)
        """
        self._check_open()
        return self._past.attempts(self._listing.row(run).id)

    def estimate(self, run: str) -> Estimate | None:
        """How many seconds a run in progress will probably take from now, by id or name: a range, from what its
        tasks took in earlier runs of the same workflow and in this one, and from the progress that running tasks
        report.

        None if no engine drives the run, or something is left of which nothing is known yet. It counts as if the run
        had the workers of this engine for itself. The cost grows with the number of tasks, so do not poll it for
        thousands of tasks.

            if (left := estimate("trip-17")) is not None:
                print(f"{left.low:.0f} to {left.high:.0f} s, going by {left.samples} samples")
        """
        self._check_open()
        row = self._listing.row(run)
        status = self._listing.status(row)
        if status == "succeeded":
            return Estimate(0.0, 0.0, 0)
        return self._past.estimate(row, self.list_tasks(row.id)) if status in ACTIVE else None

    def statistics(self, workflow: str | None = None) -> Statistics:
        """What the engine of this process has done since it was opened: runs, attempts, journal, blobs, workers. And
        what each task took in the last runs that ended (of this workflow only, if one is given), on any engine.

            for found in statistics("trip").tasks:
                print(found.task, found.finished, found.p50, found.p90)
        """
        from onceflow.engine.inspect.statistics import RunCounts, Statistics

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
        """The size of a run in bytes, by id or name: its arguments and saved outputs, without the overhead of database
        and file system."""
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
        """What the tasks of a run, by id or name, have printed and logged, oldest first, wherever it was or is driven.

        Filters: one task (and of those nested in it), one attempt (`"1.2"`), one stream (`"stdout"`, `"stderr"`,
        `"log"`), not before `since` (seconds since 1970). With `level` only records of `logging`, from that level on.
        With `tail` only the last `tail` lines; with `follow=True` new lines follow, until no engine drives the run any
        more.

            for line in logs("trip-17", level="WARNING"):
                print(line.task, line.text)
        """
        self._check_logs()
        self._check_open()
        id = self._listing.row(run).id
        wanted = task_lines.wanted(task, attempt, stream, level, since)
        if tail is not None and tail < 0:
            raise InvalidOption("tail", f"it is a number of lines, not {tail!r}", kind="setting")
        reader = stored_logs.Reader(stored_logs.of_run(self._home.path, id))
        return task_lines.select(reader, wanted, tail, (lambda: self._is_left(id)) if follow else None)

    def get_output(self, run: str, task: str | None = None) -> Any:
        """The output of a run, or of one of its tasks (by its id in the graph). Does not wait.

        Returns only an output that is saved and final; otherwise raises `NoOutput`, which says why.
        """
        self._check_open()
        row = self._listing.row(run)
        ending = self._reading.output(row.id, task)
        return outcomes.value_of(ending, row.id, row.name, self._home.blobs.map)

    def damaged_runs(self) -> list[DamagedRun]:
        """The runs that lists leave out, because their own rows in the journal are damaged."""
        self._check_open()
        return self._home.journal.damaged_runs()

    def list_engines(self) -> list[EngineInfo]:
        """The engines that share the journal of this program, on all hosts, the oldest first.

        for info in list_engines():
            print(info.host, info.pid, info.alive, info.runs)
        """
        self._check_open()
        return list_engines(self._home)

    def _look(
        self,
        run: str,
        here: Callable[[str], T | None],
        there: Callable[[Path, str, str], T],
        journal: Callable[[str], T],
    ) -> T:
        """What the engine that drives the run reports; what the journal has if there is none, or it does not answer."""
        from onceflow.engine.peers import client

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
        """Logs it once: repeated queries need not report it each time."""
        from onceflow.engine.peers import client

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
        """Whether no engine drives the run."""
        self._check_open()
        row = self._home.journal.get_run(run)
        return row is None or self._listing.status(row) in {"interrupted", *AT_REST}
