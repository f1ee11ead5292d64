"""How runs end, and what cannot be asked of them, of queues, of schedules and of engines."""

from __future__ import annotations

from collections.abc import Sequence

from onceflow.errors.base import OnceflowError


class NameTaken(OnceflowError):
    """Raised when a name is used for a run whose graph differs from the one that already has it. `run` is the id of
    the run that has it."""

    def __init__(self, name: str, run: str) -> None:
        self.name = name
        self.run = run
        super().__init__(
            f"the name {name!r} belongs to run {run}, which has another graph (other tasks, options or arguments). "
            "A name stands for one piece of work: choose another one, or delete that run."
        )


class NoSuchRun(OnceflowError, LookupError):
    """Raised when there is no run of this id or name. `run` is what was asked for."""

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"there is no run {run!r}")


class NoSuchTask(OnceflowError, LookupError):
    """Raised when a run has no task of this id (or not yet, or not any more). `run` and `task` are
    what was asked for."""

    def __init__(self, run: str, task: str, known: Sequence[str] = ()) -> None:
        self.run = run
        self.task = task
        listed = f"; it has {', '.join(known[:5])}{' and others' if len(known) > 5 else ''}" if known else ""
        super().__init__(f"there is no task {task!r} in run {run}, or not yet, or not any more{listed}")


class NoSuchQueue(OnceflowError, LookupError):
    """Raised when a queue is asked for that has not been declared. `queue` is its name."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"there is no queue {queue!r}: it was never declared. `onceflow queue list` shows those that there are"
        )


class QueueFull(OnceflowError):
    """Raised when a run is submitted and too many wait already: nothing has happened. `queue` is its queue, None if it
    is the engine that has enough; `limit` is how many may wait."""

    def __init__(self, queue: str | None, limit: int) -> None:
        self.queue = queue
        self.limit = limit
        where = "for this engine (max_pending)" if queue is None else f"for queue {queue!r} (max_pending)"
        more = "raise max_pending" if queue is None else f"raise it: onceflow queue set {queue} --max-pending N"
        super().__init__(f"the run was not submitted: {limit} runs wait {where}. Submit it again later, or {more}")


class NoSuchSchedule(OnceflowError, LookupError):
    """Raised when there is no schedule of this id. `schedule` is what was asked for."""

    def __init__(self, schedule: str) -> None:
        self.schedule = schedule
        super().__init__(f"there is no schedule {schedule!r}")


class AmbiguousRun(OnceflowError, LookupError):
    """Raised when the beginning of an id or a name could mean several runs. `run` is what was asked for, `candidates`
    some of those that it could mean."""

    def __init__(self, run: str, candidates: tuple[str, ...], *, more: bool = False) -> None:
        self.run = run
        self.candidates = candidates
        super().__init__(f"{run!r} could be {', '.join(candidates)}{', …' if more else ''}: give more of it")


class EventRefused(OnceflowError):
    """Raised by `send_event` if the run cannot take the event: it has ended, or waits under this key for something of
    another type. Raised where the event is taken, at the await in a fiber say, if that was not known when it was sent.
    `run` and `key` say which."""

    def __init__(self, run: str, key: str, reason: str, *, is_taken: bool = False) -> None:
        self.run = run
        self.key = key
        what = "cannot be used, and is taken" if is_taken else f"was not sent to run {run}"
        super().__init__(f"event {key!r} {what}: {reason}")


class ResultRefused(OnceflowError):
    """Raised by `set_result` if the task cannot be given this result: it has not failed, its run goes on, or the task
    is declared to return something else. `run` and `task` say which."""

    def __init__(self, run: str, task: str, reason: str) -> None:
        self.run = run
        self.task = task
        super().__init__(f"the result of {task} in run {run} was not set: {reason}")


PINNED = (
    "had begun in code that has changed since, and went on in it. To let it go on in the code that is there now, write "
    '@fiber(on_change="move") and resume the run; to begin anew, rerun it.'
)
"""What is said of functions in which a fiber has failed, as the end of a note on the exception."""


class TaskFailed(OnceflowError):
    """Raised when a run failed because one of its tasks did. The task's own exception is the `__cause__`.

    `run` is the run's id, `task` the id of the task that failed first, `failed` all that failed. If the failed run was
    to be undone, `undone` says whether all of it was; `kept` lists effects that were not taken back because something
    irrevocable stands on them. `uncertain` lists irrevocable tasks that were begun and did not finish: their effects
    may have happened.
    """

    def __init__(
        self,
        run: str,
        failed: tuple[str, ...],
        *,
        name: str | None = None,
        reason: str = "",
        hint: str = "",
        undone: bool = False,
        kept: tuple[str, ...] = (),
        uncertain: tuple[str, ...] = (),
    ) -> None:
        self.run = run
        self.task = failed[0] if failed else ""
        self.failed = failed
        self.undone = undone
        self.kept = kept
        self.uncertain = uncertain
        others = f" (and {', '.join(failed[1:])})" if len(failed) > 1 else ""
        because = reason.removesuffix(".")
        text = f"task {self.task}{others} of run {name or run} failed{f': {because}' if because else ''}."
        if hint:
            text += f" {hint}"
        if undone:
            text += " Everything it had done outside was taken back."
        if kept:
            text += f" Not taken back, because something irrevocable stands on it: {', '.join(kept)}."
        if uncertain:
            text += f" May or may not have happened: {', '.join(uncertain)}."
        again = "start it afresh" if undone else "go on from what is saved"
        super().__init__(f"{text} When the cause is removed, resume({name or run!r}) will {again}.")


class RunCancelled(OnceflowError):
    """Raised when the result of a run is asked for that was cancelled. `run` is its id. `fibers` are the ids of those
    that have let `Cancelled` out of the run: they have ended by that, and `resume` cannot go on with them."""

    def __init__(
        self,
        run: str,
        kept: tuple[str, ...] = (),
        uncertain: tuple[str, ...] = (),
        fibers: tuple[str, ...] = (),
    ) -> None:
        self.run = run
        self.kept = kept
        self.uncertain = uncertain
        self.fibers = fibers
        text = f"run {run} was cancelled."
        if kept:
            text += f" Not taken back, because something irrevocable stands on it: {', '.join(kept)}."
        if uncertain:
            text += f" May or may not have happened: {', '.join(uncertain)}."
        if fibers:
            text += (
                f" It cannot go on, because its fiber {', '.join(fibers)} was told that and has ended: "
                f"onceflow.runs.rerun({run!r}, from_task={fibers[0]!r}) starts it again, in a new run."
            )
        else:
            text += f" resume({run!r}) would go on with it."
        super().__init__(text)


class RunTimedOut(RunCancelled, TimeoutError):
    """Raised when the result of a run is asked for that ran out of time and was therefore cancelled. `timeout` is how
    many seconds it had."""

    def __init__(
        self,
        run: str,
        timeout: float,
        kept: tuple[str, ...] = (),
        uncertain: tuple[str, ...] = (),
        fibers: tuple[str, ...] = (),
    ) -> None:
        super().__init__(run, kept, uncertain, fibers)
        self.timeout = timeout
        self.args = (f"it ran out of time after {timeout:g} seconds: {self.args[0]}",)


class RunPaused(OnceflowError):
    """Raised when the result of a run is asked for that waits for a user: because it was paused, or because an
    undo keeps failing. `task` is the task that cannot be undone, or None; what its rollback function raised last is the
    `__cause__`."""

    def __init__(self, run: str, task: str | None) -> None:
        self.run = run
        self.task = task
        if task is None:
            why = f"it was paused. resume({run!r}) goes on"
        else:
            why = (
                f"the effect of task {task} cannot be taken back, its rollback function keeps failing. Remove the "
                f"cause, then call resume({run!r})"
            )
        super().__init__(f"run {run} is paused: {why}.")


class RunInterrupted(OnceflowError):
    """Raised when the result of a run is asked for whose engine was closed before the run ended. `run` is its id,
    `reason` says why."""

    def __init__(self, run: str, reason: str) -> None:
        self.run = run
        self.reason = reason
        super().__init__(
            f"run {run} was interrupted: {reason}. Nothing that was saved is lost; resume({run!r}) goes on."
        )


class RunActive(OnceflowError):
    """Raised when something is asked for that must not happen while a run goes on. `run` is its id."""

    def __init__(self, run: str, problem: str) -> None:
        self.run = run
        super().__init__(f"run {run} is still going on: {problem}")


class RunNotActive(OnceflowError):
    """Raised when something is asked for that makes sense only while a run goes on. `run` is its name or id, and
    `status` how it stands."""

    def __init__(self, run: str, status: str) -> None:
        self.run = run
        self.status = status
        super().__init__(f"run {run} is {status}: no engine drives it now. Go on with it first: resume({run!r})")


class NoOutput(OnceflowError, LookupError):
    """Raised by `get_output` when there is nothing (yet) that could be handed out. `run` and `task` are ids."""

    def __init__(self, run: str, task: str, reason: str) -> None:
        self.run = run
        self.task = task
        super().__init__(f"there is no output of {task} of run {run} to hand out: {reason}")


class EngineClosed(OnceflowError):
    """Raised when something is asked of an engine that is closed or has failed."""


class WorkersUnavailable(OnceflowError):
    """Raised when no worker can be started."""
