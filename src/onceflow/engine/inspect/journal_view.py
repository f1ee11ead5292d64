"""The state in the journal of a run that is not driven here. Read-only; the run's code is neither needed nor
imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from onceflow.authoring import graph_storage
from onceflow.core.model import events
from onceflow.core.model.graph import Graph, Node
from onceflow.core.rules import slices, starting
from onceflow.core.run import Run
from onceflow.driver import entries
from onceflow.driver.endings import Ending
from onceflow.driver.endings import Status as DriverStatus
from onceflow.driver.fiber_failures import Awaited, awaited_by
from onceflow.driver.history import History, find_values
from onceflow.driver.outputs import Blob, Part
from onceflow.engine.inspect import wait_reasons
from onceflow.engine.inspect.task_info import TaskInfo, TaskState, describe, outline
from onceflow.engine.statuses import AT_REST, ENDED
from onceflow.errors import NoOutput
from onceflow.storage.journal import RunRow
from onceflow.storage.run_stores import Place
from onceflow.storage.schema import PLACES
from onceflow.values import packed_outputs

NO_ERROR = packed_outputs.dump(None)
"""The second part of an outcome of which errors are caught."""


class LeftBehind(NamedTuple):
    """What a run that did not succeed has left in the world outside."""

    kept: tuple[str, ...] = ()
    """Tasks that were to be undone, and on which something irrevocable stands."""
    uncertain: tuple[str, ...] = ()
    """Irrevocable tasks that had begun and did not finish."""

    @property
    def notes(self) -> list[str]:
        """The same for users, with the reasons."""
        return [
            *[f"{task} was not undone: something irrevocable that has begun stands on it" for task in self.kept],
            *[f"{task} may or may not have happened: it had begun and did not finish" for task in self.uncertain],
        ]


class Reading:
    def __init__(self, home: Place) -> None:
        self._home = home

    def ending(self, row: RunRow) -> Ending:
        """The outcome of a run that is no longer driven."""
        if row.status == "succeeded":
            return self.output(row.id, None)
        state, past, _ = self._load(row.id)
        failed = tuple(past.failed)
        if row.status == "paused":
            failed = () if past.parked is None else (past.parked,)
        failure = past.failures.get(failed[0]) if failed else None
        ended = tuple(past.ended_fibers)
        status = cast("DriverStatus", row.status)
        awaited = () if row.status == "cancelled" else self._awaited(row.id, state, failed[:1])
        return Ending(status, (), failed, past.kept, past.uncertain, failure, ended_fibers=ended, awaited=awaited)

    def _awaited(self, run: str, state: Run, failed: Sequence[str]) -> tuple[tuple[Awaited, Part], ...]:
        """What a fiber that failed had waited for, and the outcomes of that."""
        awaited = [one for node in failed if node in state.rows for one in awaited_by(state.rows[node])]
        if not awaited:
            return ()
        with self._home.journal.load(run) as loaded:
            outcomes = find_values(loaded.entries, {one.outcome for one in awaited})
        return tuple([(one, outcomes[one.outcome]) for one in awaited])

    def tasks(self, run: str) -> list[TaskInfo]:
        state, past, _ = self._load(run)
        tasks = outline(state)
        if past.finished != "succeeded":
            wake(state, past)
        infos = describe(state, tasks, past.failures, past.annotations, None)
        if past.finished is None:
            return [_with_wait(info, past) for info in infos]
        return [_after_the_end(info, past) for info in infos]

    def left_behind(self, row: RunRow) -> LeftBehind:
        """Nothing is known of that before the end of a run."""
        if row.status not in ENDED:
            return LeftBehind()
        last = self._home.journal.last_entries(row.id, (entries.FINISHED,), among=PLACES)
        return LeftBehind(*entries.left_behind(last[-1])) if last else LeftBehind()

    def node(self, run: str, task: str) -> Node:
        """What the graph has of a task that `tasks` lists; with its code, if another task returned it."""
        return self._load(run, entries.load_graph)[0].rows[task].node

    def variables(self, run: str) -> dict[str, bytes]:
        """The task variables that are committed, packed."""
        found: dict[str, bytes] = {}
        for entry in self._home.journal.last_entries(run, (entries.WROTE,), among=PLACES):
            found |= entries.variables(entry)
        return found

    def output(self, run: str, task: str | None) -> Ending:
        """With a task's output, if it is saved and can never change any more; of the whole run's by default. Of a task
        that a fiber called, it is what the fiber got. Raises `NoOutput`."""
        state, past, row = self._load(run)
        found = slices.ends(state)[0] if task is None else state.rows.get(task)
        if found is None:
            raise NoOutput(run, str(task), "there is no such task in this run (or not yet, or not any more)")
        called = found
        while found.nested is not None:
            found = found.nested.sink
        if not found.fully_saved or found.doomed:
            raise NoOutput(run, found.id, _why_not_saved(row, found.checkpoint))
        if past.finished != "succeeded" and not _stands(state, past, found.id):
            raise NoOutput(run, found.id, "it is saved, but something before it may have to run again and change it")
        wanted = {(found.id, part) for part in range(found.every_part.bit_length()) if found.every_part >> part & 1}
        with self._home.journal.load(run) as loaded:
            values = find_values(loaded.entries, wanted)
        parts = [values[key] for key in sorted(wanted)]
        if not _is_called_by_a_fiber(called.node):
            return Ending("succeeded", tuple(parts), parts=found.node.parts)
        value, error, *refs = parts
        if error != NO_ERROR:
            packed = error if isinstance(error, bytes) else self._home.blobs.read(cast("Blob", error).reference)
            problem = "it failed, and the fiber that called it was given the error"
            raise NoOutput(run, called.id, problem) from packed_outputs.unpack(packed)
        return Ending("succeeded", (value, *refs))

    def _load(self, run: str, load: entries.LoadGraph | None = None) -> tuple[Run, History, RunRow]:
        """The run as core sees it, before it takes stock. `load` reads graphs that tasks returned, by default without
        their code."""
        with self._home.journal.load(run) as loaded:
            graph = graph_storage.decode_structure(loaded.graph)
            past = History.read(loaded.entries, self._home.blobs.read, load or _load_without_code)
        return Run.load(graph, past.records, epoch=loaded.run.epoch + 1), past, loaded.run


def _load_without_code(node: str, value: bytes) -> Graph:
    from onceflow.authoring.fiber_tasks import (
        stored_graphs,  # slow to import, only for runs in which tasks returned graphs
    )

    return stored_graphs.load_graph(node, value)


def _is_called_by_a_fiber(node: Node) -> bool:
    """Whether errors are caught that its fiber gets raised, so that its output has a part more than its function
    returned. (Where the user has asked for that, they expect it.)"""
    task = getattr(node.call, "task", None)
    if task is None:
        return False
    from onceflow.authoring.fiber_tasks import stored_graphs  # as above

    return stored_graphs.is_caught(task)


def _why_not_saved(row: RunRow, checkpoint: bool) -> str:
    if not checkpoint:
        return "the task is not saved (checkpoint=False)"
    if row.status in AT_REST:
        return f"the run is {row.status}, and the task has not been done"
    return "the task has not been done yet"


def wake(state: Run, past: History) -> None:
    """Let core compute all states. Its commands are ignored: the run is not really resumed."""
    state.begin()
    if past.parked is not None:
        state.handle(events.RetryUndo(past.parked))
    elif past.finished is not None:
        state.handle(events.Resume())


def _stands(state: Run, past: History, node: str) -> bool:
    """Whether nothing can change this saved output any more, if the run went on now."""
    wake(state, past)
    row = state.rows.get(node)
    return row is None or (
        row.quiet and row.fully_saved and not row.doomed and not starting.may_be_taken_back(state, node)
    )


def _after_the_end(info: TaskInfo, past: History) -> TaskInfo:
    """The outcome of a task in a run that has ended."""
    done = info.state == "done" or past.finished == "succeeded"
    state: TaskState = "failed" if info.id in past.failed else "done" if done else "waiting"
    return msgspec.structs.replace(
        info,
        state=state,
        attempt=info.attempt if done else "",
        failures=past.failure_counts.get(info.id, 0),
        error=None if done else info.error,
        reason=info.reason if state == "waiting" and info.waits_for else "",
    )


def _with_wait(info: TaskInfo, past: History) -> TaskInfo:
    """What a task waits for that no worker carries out."""
    if info.state != "ready" or info.id not in past.deadlines:
        return info
    reason = wait_reasons.of_wait(past.awaited[info.id], past.deadlines[info.id])
    return msgspec.structs.replace(info, state="waiting", reason=reason)
