"""Commands to runs that exist: methods of an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from onceflow.engine.parts import Parts
from onceflow.engine.run_commands.cancel import GRACE, Cancelling, ask_to_cancel, cancel
from onceflow.engine.run_commands.limit import Limiting, limit
from onceflow.engine.run_commands.pause import ask_to_pause, pause
from onceflow.errors import InvalidOption, RunActive
from onceflow.storage import failures
from onceflow.storage import logs as stored_logs
from onceflow.storage.journal import DeleteRun, Failed, Fenced, commit

if TYPE_CHECKING:
    from onceflow.engine.run_commands.send_event import Mail
    from onceflow.engine.statuses import Status


class Commanding(Parts):
    """What an engine can do with a run that exists, wherever it is driven."""

    _mail: Mail

    def send_event(self, run: str, key: str, payload: object = None, *, id: str | None = None) -> None:
        """Sends an event to a run, by id or name: `wait_event(key)` in its graph takes it, even if it starts to wait
        later. Returns when the event is durable; from then on it is taken exactly once. `id` is an idempotency key: an
        event sent twice under the same `id` counts once. A task that sends an event does so once, however often it
        runs.

        Raises `EventRefused` if the run has ended, or waits under this key for a payload of another type. What fibers
        and returned graphs wait for is known if the run is parked; else it is raised there, when the event is taken.

            send_event("order-17", "approval", True)
        """
        from onceflow.engine.run_commands.send_event import Letter

        self._check_open()
        self._mail.send([Letter(self._listing.row(run), key, payload, id)])

    def send_events(self, events: Iterable[tuple[str, str, Any]], *, ids: Iterable[str] | None = None) -> None:
        """Sends many events at once, each given as (run, key, payload), as `send_event` does, but many times faster.
        `ids` are theirs, in order. Returns when all are durable.

        All are checked first: if one is refused, or its run is not there, none is sent. If this is interrupted, some
        may have been sent: with `ids` it can be called again, and each event counts once.

            send_events([("order-17", "approval", True), ("order-18", "approval", False)])
        """
        from onceflow.engine.run_commands.send_event import Letter

        self._check_open()
        sent = list(events)
        named: list[str | None] = [None] * len(sent) if ids is None else list(ids)
        if len(named) != len(sent):
            raise InvalidOption("ids", f"there are {len(named)} ids for {len(sent)} events", kind="setting")
        rows = self._listing.rows({run for run, _, _ in sent})
        pairs = zip(sent, named, strict=True)
        self._mail.send([Letter(rows[run], key, payload, id) for (run, key, payload), id in pairs])

    def cancel(self, run: str, *, undo: bool = False, grace: float = GRACE) -> Status:
        """Stops a run, by id or name, wherever it is driven. Returns, when nothing of it runs any more, how it ended:
        `"cancelled"`, or what it was quicker to become.

        Nothing new starts. Tasks without effect are stopped at once. Undoable ones that have not finished are stopped
        and taken back; those that have finished stay, unless `undo=True`. Irrevocable ones that have begun have `grace`
        seconds to finish, then they are stopped, and `RunCancelled.uncertain` lists them. To be stopped means:
        `Stopped` is raised in the task, and if that does not help its worker is killed.
        """
        self._check_usable()
        how = Cancelling(undo, grace)
        return cancel(self._listing.row(run), how, self._reach, self._hub, self._attaching)

    def ask_to_cancel(self, runs: Iterable[str], *, undo: bool = False, grace: float = GRACE) -> None:
        """Begins to cancel runs, all at once, and does not wait. Call it before you cancel several one after another:
        else a run may start a task on the worker that the one before it has left."""
        self._check_usable()
        ask_to_cancel(self._listing.rows(runs).values(), Cancelling(undo, grace), self._reach)

    def pause(self, run: str) -> Status:
        """Pauses a run, by id or name, wherever it is driven: nothing more of it starts. Returns, when running tasks
        have ended and are saved, the status: `"paused"`, or the status that the run reached first.

        A paused run takes no memory. `resume` continues it; a caller that waits for its result meanwhile gets
        `RunPaused`. A pause does not extend a `timeout`.
        """
        self._check_usable()
        row = self._listing.row(run)
        status = pause(row, self._reach)
        self._hub.look_for_mail(row.id)  # callers that wait here for a run that was parked are notified
        return status

    def ask_to_pause(self, runs: Iterable[str]) -> None:
        """Begins to pause runs, all at once, and does not wait. See `ask_to_cancel`."""
        self._check_usable()
        ask_to_pause(self._listing.rows(runs).values(), self._reach)

    def set_result(self, run: str, task: str, value: object) -> None:
        """Gives the result of a task that has failed, by hand. When the run goes on (`resume`), the task is done with
        that and does not run; its consumers run as usual. The value is checked against what the task's function is
        declared to return. A task that returns several values needs a list of as many.

            set_result("order-17", "charge", {"receipt": "r-1"})
            resume("order-17")

        The result counts once: if the task has to run again after that, it runs. The effect of an undoable task that
        failed is undone first. Returns when it is durable. Raises `NoSuchTask`, and `ResultRefused` if the task has not
        failed, or its run goes on (`pause` it first).
        """
        from onceflow.engine.run_commands.set_result import supply

        self._check_usable()
        supply(self._listing.row(run), task, value, self._home, self._reading, self._reach)

    def limit(self, run: str, loop: str, spawn_limit: int) -> None:
        """Limits how many chunks of a loop may be in flight from now on, while the run is in progress, wherever it is
        driven. `loop` is the id of the loop's node (`each_fetch`; one that is not there yet is limited when it comes).
        Chunks in flight are not stopped. The limit is kept with the run. Raises `RunNotActive` if no engine drives the
        run."""
        self._check_usable()
        limit(self._listing.row(run), Limiting(loop, spawn_limit), self._reach)

    def delete(self, run: str) -> None:
        """Forgets a run, by id or name, with everything it saved. Its name can be used again. Raises `RunActive` while
        the run is going on."""
        self._check_open()
        row = self._listing.row(run)
        if not self._attaching.can_be_driven(row) or self._attaching.rests_here(row):
            raise RunActive(row.id, "it cannot be deleted before it has ended")
        outcome = commit(self._home.journal, [DeleteRun(row.id, row.epoch)])
        match outcome.refusal:
            case Failed(error):
                raise error
            case Fenced():
                raise RunActive(row.id, "another process has just resumed it")
        self._home.blobs.delete_run(row.id)
        log = stored_logs.of_run(self._home.path, row.id)
        with failures.told(log):
            stored_logs.delete(log)
