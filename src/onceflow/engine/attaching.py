"""Joining a run that exists: take its result, wait for it, or go on with it.

    succeeded                               its result is read
    driven by this engine                   wait together with whoever waits already
    driven by another engine                look again now and then, and tell how it ends there
    failed, cancelled, undone, paused       go on with it
    its engine is dead                      go on with it, once its workers are proved dead as well

Going on means: load the journal, let core say what to do, and drive that in the next epoch. The claim is part of the
driver's first batch, so nothing is decided twice: if somebody else was quicker, the batch is refused, nothing of it
happened, and we look again. Loading needs no claim, because a run without a driver does not change.

All of this happens in the thread of whoever asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

import msgspec

from onceflow.authoring import storing
from onceflow.core import events
from onceflow.core.run import Run
from onceflow.driver.driver import Driver, Ending, Status
from onceflow.driver.history import History, find_values, load_values
from onceflow.driver.outputs import Part
from onceflow.engine import deaths
from onceflow.engine.describing import TaskInfo, TaskState, describe, outline
from onceflow.engine.handles import Completion
from onceflow.engine.hub import Adoption, Hub, Redirected, Store
from onceflow.engine.submission import Settings, Submission
from onceflow.errors import InvalidOption, NoOutput, NoSuchRun, OnceflowError
from onceflow.storage.home import Home
from onceflow.storage.journal import Claim, Loaded, RunRow

ENDED = frozenset(("succeeded", "failed", "undone", "cancelled", "paused"))
"""Statuses of runs that nobody drives."""

FIRST_LOOK, LAST_LOOK = 0.005, 0.25
"""Seconds between two looks at a run that another engine drives; twice as long each time."""


class Attaching:
    def __init__(self, home: Home, hub: Hub) -> None:
        self._home = home
        self._hub = hub

    def attach(
        self,
        run: str,
        completion: Completion,
        again: Submission | None = None,
        cancel: events.Cancel | None = None,
    ) -> None:
        """Returns as soon as the run is driven here, or has ended; `completion` then tells, or will tell, how it comes
        out. `again`, if given, is the same submission with the code as it is now. With `cancel`, a run that nobody
        drives is cancelled instead of going on."""
        pause = FIRST_LOOK
        waited = False
        while True:
            row = self._home.journal.get_run(run)
            if row is None:
                raise NoSuchRun(run)
            driven = self._hub.find(run)
            if row.status == "succeeded" or (waited and row.status in ENDED):
                completion.end(self.read_ending(row))
                return
            if driven is not None:
                driven.wait_until_accepted()
                if isinstance(driven.error, Redirected):  # another engine was quicker
                    continue
                completion.follow(driven)
                return
            if self.can_be_driven(row):
                if row.status not in ENDED and row.owner is not None and row.owner != self._home.engine:
                    deaths.wait_for_workers(self._home.path, row.owner)
                if self._go_on(row, completion, again, cancel):
                    return
            else:
                waited = waited or not self._hub.is_busy_with(run)
                time.sleep(pause)
                pause = min(2 * pause, LAST_LOOK)

    def can_be_driven(self, row: RunRow) -> bool:
        """Whether nobody drives it."""
        if self._hub.is_busy_with(row.id):
            return False
        return (
            row.status in ENDED
            or row.owner is None
            or row.owner == self._home.engine
            or not self._home.engines.is_alive(row.owner)
        )

    def _go_on(
        self, row: RunRow, completion: Completion, again: Submission | None, cancel: events.Cancel | None
    ) -> bool:
        """False if somebody else was quicker."""
        try:
            make = self._load(row, again, cancel)
        except OnceflowError as error:
            completion.end(None, error)
            return True
        driven = Completion(row.id, row.name, completion.feeds)
        self._hub.adopt(make, driven)
        driven.wait_until_accepted()
        if isinstance(driven.error, Redirected):
            return False
        driven.when_done(lambda: completion.end(driven.ending, driven.error))
        return True

    def _load(self, row: RunRow, again: Submission | None, cancel: events.Cancel | None) -> Adoption:
        journal, store = self._home.journal, Store(self._home, row.id)
        with journal.load(row.id) as loaded:
            stored = storing.decode(loaded.graph, store.read, None if again is None else again.graph)
            settings = msgspec.msgpack.decode(loaded.settings, type=Settings)
            past = History.read(loaded.entries, store.read)
        if again is not None and again.settings.on_failure != settings.on_failure:
            raise InvalidOption(
                "on_failure",
                f"run {row.name} was started with {settings.on_failure!r}, which holds until its end, and is now asked "
                f"for with {again.settings.on_failure!r}",
                kind="setting",
            )
        storing.renew(loaded.graph, past.graphs())
        run = Run.load(
            stored.graph, past.records, epoch=row.epoch + 1, on_failure=settings.on_failure, changed=stored.changed
        )
        decided = run.begin()
        if cancel is not None:
            decided += run.handle(cancel)
        elif past.parked is not None:
            decided += run.handle(events.RetryUndo(past.parked))
        elif past.finished is not None:
            decided += run.handle(events.Resume())
        with journal.load(row.id) as loaded:
            outputs, carried = load_values(loaded.entries, run)

        left = settings.timeout
        if left is not None and past.finished is None and past.parked is None and not past.resumed:
            left -= time.time() - row.created  # else somebody has resumed it, and it has all its time again

        def make(hub: Hub) -> tuple[Driver, Callable[[], None], float | None, float | None]:
            driver = Driver(
                row.id,
                run,
                hub,
                store,
                opening=[Claim(row.id, self._home.engine, row.epoch)],
                outputs=outputs,
                carried=carried,
                blobs=past.blobs,
                failed=past.failures,
                due=past.due,
                status=row.status,
            )
            return driver, lambda: driver.begin(decided), settings.timeout, left

        return make

    # -- reading what has ended ----------------------------------------------------------------------------------------

    def read_ending(self, row: RunRow) -> Ending:
        """How a run came out that nobody drives any more."""
        if row.status == "succeeded":
            return Ending("succeeded", self.read_output(row.id, None))
        with self._home.journal.load(row.id) as loaded:
            past = History.read(loaded.entries, Store(self._home, row.id).read)
        failed = (past.parked,) if past.parked is not None else tuple(past.failed)
        failure = past.failures.get(failed[0]) if failed else None
        return Ending(cast("Status", row.status), (), failed, past.kept, past.uncertain, failure)

    def read_tasks(self, run: str) -> list[TaskInfo]:
        """The tasks of a run as the journal has them."""
        store = Store(self._home, run)
        with self._home.journal.load(run) as loaded:
            graph = storing.decode_structure(loaded.graph)
            past = History.read(loaded.entries, store.read)
        state = Run.load(graph, past.records, epoch=loaded.run.epoch + 1)
        tasks = outline(state)
        if past.finished != "succeeded":
            _wake(state, past)
        infos = describe(state, tasks, driven_here=False)
        if past.finished is None:
            return infos
        return [_after_the_end(info, past) for info in infos]

    def read_output(self, run: str, task: str | None) -> tuple[Part, ...]:
        """The parts of a task's output, if it is saved and can never change any more; of the whole run's by default.
        Raises `NoOutput`."""
        store = Store(self._home, run)
        with self._home.journal.load(run) as loaded:
            graph = storing.decode_structure(loaded.graph)
            past = History.read(loaded.entries, store.read)
        state = Run.load(graph, past.records, epoch=loaded.run.epoch + 1)
        found = state.ends()[0] if task is None else state.rows.get(task)
        if found is None:
            raise NoOutput(run, str(task), "there is no such task in this run (or not yet, or not any more)")
        while found.nested is not None:
            found = found.nested.sink
        if not found.fully_saved or found.doomed:
            raise NoOutput(run, found.id, _why_not_saved(loaded, found.checkpoint))
        if past.finished != "succeeded" and not _stands(state, past, found.id):
            raise NoOutput(run, found.id, "it is saved, but something before it may have to run again and change it")
        wanted = {(found.id, part) for part in range(found.node.parts)}
        with self._home.journal.load(run) as loaded:
            values = find_values(loaded.entries, wanted, store.read)
        return tuple([values[key] for key in sorted(wanted)])


def _why_not_saved(loaded: Loaded, checkpoint: bool) -> str:
    if not checkpoint:
        return "the task is not saved (checkpoint=False)"
    if loaded.run.status in ENDED:
        return f"the run is {loaded.run.status}, and the task has not been done"
    return "the task has not been done yet"


def _wake(state: Run, past: History) -> None:
    """Let core say how everything stands. What it wants to do about it is ignored: the run is not really resumed."""
    state.begin()
    if past.parked is not None:
        state.handle(events.RetryUndo(past.parked))
    elif past.finished is not None:
        state.handle(events.Resume())


def _after_the_end(info: TaskInfo, past: History) -> TaskInfo:
    """What became of a task in a run that has ended."""
    done = info.state == "done" or past.finished == "succeeded"
    state: TaskState = "failed" if info.id in past.failed else "done" if done else "waiting"
    return msgspec.structs.replace(
        info,
        state=state,
        attempt=info.attempt if done else "",
        failures=past.failure_counts.get(info.id, 0),
    )


def _stands(state: Run, past: History, node: str) -> bool:
    """Whether nothing can change this saved output any more, if the run went on now."""
    _wake(state, past)
    row = state.rows.get(node)
    return row is None or (row.quiet and row.fully_saved and not row.doomed)
