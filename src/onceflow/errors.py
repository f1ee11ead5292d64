"""Every error that onceflow raises on purpose. One family: `except OnceflowError` catches them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar


class OnceflowError(Exception):
    """Base of all errors of onceflow."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes with their text and attributes, whatever their constructor takes."""
        return _restore, (type(self), self.args), self.__dict__


def _restore(kind: type[OnceflowError], args: tuple[Any, ...]) -> OnceflowError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class InvalidGraph(OnceflowError):
    """Raised when nodes and edges do not make a graph (a cycle, a dead end, a part that does not exist)."""


class UnsafeGraph(OnceflowError):
    """Raised before a run when some task could never start without risking exactly-once.

    `blocked` names those tasks, `paths` draws for each why it is blocked, and `proposals` holds for each a smallest
    set of tasks that would free it if they were saved (`checkpoint=True`). `instead` lists tasks that would do as well
    as a single proposed one; `smallest` is False where the graph was too large to prove a proposal the smallest.
    """

    def __init__(
        self,
        blocked: tuple[str, ...],
        paths: Mapping[str, str],
        proposals: Mapping[str, tuple[str, ...]],
        instead: Mapping[str, tuple[str, ...]] | None = None,
        smallest: Mapping[str, bool] | None = None,
    ) -> None:
        self.blocked = blocked
        self.paths = dict(paths)
        self.proposals = dict(proposals)
        self.instead = dict(instead or {})
        self.smallest = dict(smallest or {})
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [
            f"{len(self.blocked)} task{'s' * (len(self.blocked) != 1)} could never start: {', '.join(self.blocked)}"
        ]
        for task in self.blocked:
            lines.append(f"\n{self.paths[task]}")
            names = ", ".join(self.proposals[task]) + "".join(f", or on {name}" for name in self.instead.get(task, ()))
            lines.append(f"  To free {task}, set checkpoint=True on {names}.")
            if not self.smallest.get(task, True):
                lines.append("  (The graph is too large to prove that no smaller set would do.)")
        return "\n".join(lines)


class IllegalEvent(OnceflowError):
    """Raised when a run is told of something that cannot have happened. The run is unchanged."""


class BrokenPromise(OnceflowError):
    """Raised when going on would take back or contradict something irrevocable, because a task did not keep what its
    options promise (or its code was changed). `node` is the irrevocable task, `cause` the one that changed under it."""

    def __init__(self, node: str, cause: str) -> None:
        self.node = node
        self.cause = cause
        super().__init__(
            f"{node!r} is irrevocable and has begun, but {cause!r}, which it builds on, would have to run again with a "
            f"possibly different result. Nothing was changed. Restore the code of {cause!r} and resume, or give the "
            "run up and start a new one under another name."
        )


class RunStuck(OnceflowError):
    """Raised when nothing of a run can go on: an outcome that a handler gave made a graph safe, was lost before it was
    saved, and the task that ran again is not saved; or what something was built on came of code that was edited
    since. `blocked` names the tasks that could never start, `waiting_for` what keeps the first of them from
    starting."""

    def __init__(self, blocked: tuple[str, ...], waiting_for: tuple[str, ...]) -> None:
        self.blocked = blocked
        self.waiting_for = waiting_for
        told = f" {blocked[0]!r} waits for {', '.join(map(repr, waiting_for))}." if waiting_for else ""
        super().__init__(
            f"{len(blocked)} task{'s' * (len(blocked) != 1)} can never start: {', '.join(blocked)}.{told} What a "
            "handler gave for a task above made that safe, but was lost before it was saved; or the code of a task "
            "above was edited. Resume the run to try once more (with the old code, if it was edited), or set "
            "checkpoint=True on the unsaved tasks above and start a new run."
        )


class NotDeterministic(OnceflowError):
    """Raised when a task that is declared deterministic ran again and returned another graph than before. `node`
    names it."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(
            f"{node!r} is declared deterministic, but when it ran again it returned a different graph. "
            "Remove deterministic=True from it, or make it return the same graph for the same inputs."
        )


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


class InvalidOption(OnceflowError, TypeError):
    """Raised when a task or workflow is declared with an option that does not exist, has the wrong kind of value, or
    contradicts another one. `name` is its name."""

    def __init__(self, name: str, problem: str, *, kind: str = "task") -> None:
        self.name = name
        super().__init__(f"{kind} {name!r}: {problem}")


class WrongArguments(OnceflowError, TypeError):
    """Raised at bind when the arguments do not fit. `task` is its name and `signature` what it takes."""

    def __init__(self, task: str, signature: str, problem: str) -> None:
        self.task = task
        self.signature = signature
        super().__init__(f"{task}.bind(): {problem}; it takes {task}{signature}")


class UnpicklableArgument(OnceflowError, TypeError):
    """Raised when an argument cannot be turned into bytes (or back), so that no worker could ever receive it.

    `task` is the task's name and `path` says where in its arguments the value stands, as in `rows[3].connection`.
    """

    def __init__(self, task: str, path: str, reason: str) -> None:
        self.task = task
        self.path = path
        super().__init__(
            f"{task}.bind(): the argument {path} cannot be sent to a worker: {reason}. Pass what is needed to make it "
            "(a path, a URL, settings) and make it inside the task."
        )


class NoValueYet(OnceflowError, TypeError):
    """Raised when a node is used as if it were its task's output. The output exists only while a run goes on."""


class NoAttributeYet(OnceflowError, AttributeError):
    """Raised when an attribute of a node is read as if the node were its task's output."""


class NoSuchPart(OnceflowError, IndexError):
    """Raised when a node is indexed with a part that its task does not return (see `num_returns`)."""


class UnusedNode(InvalidGraph):
    """Raised when a workflow function binds a task from which nothing leads to the result: it would never run.
    `workflow` is its name, `tasks` those of the tasks."""

    def __init__(self, workflow: str, tasks: tuple[str, ...]) -> None:
        self.workflow = workflow
        self.tasks = tasks
        super().__init__(
            f"workflow {workflow!r} binds {', '.join(tasks)}, but nothing leads from there to the result, so it would "
            "never run. Pass the node to a task, or let a task wait for it with .options(after=[node]); if it is not "
            "needed, do not bind it."
        )


class NotANode(OnceflowError, TypeError):
    """Raised where a node is needed, as `.bind(...)` gives it, and something else was given."""


class StorageError(OnceflowError):
    """Raised when what is kept on disk cannot be read or written. `path` is where, `reason` what the system said.

    Whatever was saved before is still saved. An engine whose journal cannot be written interrupts all its runs and
    starts nothing more; open it anew once the cause is removed.
    """

    advice = "What was saved before is still there. Remove the cause, then start again."

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"cannot use {path}: {reason.rstrip('.')}. {self.advice}")


class StorageFull(StorageError):
    """Raised when there is no room left: the disk is full, or a quota or limit is reached."""

    advice = (
        "There is no room left. What was saved before is still there: make room, then resume. An engine whose journal "
        "cannot be written has stopped: open it anew."
    )


class StorageReadOnly(StorageError):
    """Raised when the home directory, or a file in it, may not be written."""

    advice = "It must be writable. Give write permission to it, or choose another home directory."


class StorageNotTrusted(StorageError):
    """Raised when the home directory, a file in it, or a pyproject.toml with settings belongs to another user, or can
    be written or exchanged by one: what lies there is unpickled, so that user could run code as this one. `advice` is
    what can be done about it."""

    def __init__(self, path: str, reason: str, advice: str) -> None:
        self.advice = advice
        super().__init__(path, reason)


class StorageDamaged(StorageError):
    """Raised when something that was saved is not there any more, or is not what was saved. `run` and `task` are what
    it belongs to, as far as that is known.

    The run stays as it is: neither is a damaged value handed out, nor does the run fail because of one.
    """

    advice = (
        "It was changed or lost after it was written. Restore it from a backup, or delete the run and start it anew. "
        "onceflow doctor --deep lists everything that is damaged."
    )

    def __init__(self, path: str, reason: str, *, run: str | None = None, task: str | None = None) -> None:
        self.run = run or None
        self.task = task or None
        if self.run is not None:
            of_task = "" if self.task is None else f"task {self.task} of "
            shown = self.run if self.run.isprintable() else repr(self.run)  # whatever a damaged row has there
            reason = f"{reason.rstrip('.')} ({of_task}run {shown})"
        super().__init__(path, reason)


class StorageMoved(StorageError):
    """Raised when the home directory was moved, deleted or replaced while an engine used it: the engine has stopped.
    `path` is where the home directory was."""

    advice = (
        "The home directory was moved, deleted or replaced while this engine used it, so the engine has stopped. Move "
        "it back, or open an engine where it is now, then resume. What was deleted is lost."
    )


class StorageTooNew(StorageError):
    """Raised when the home directory was written by a newer onceflow. `found` is the version of what it holds,
    `known` the newest that this onceflow understands."""

    advice = "Nothing was changed. Use a newer onceflow, or another home directory."

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(path, f"it has version {found}, and this onceflow knows versions up to {known}")
        self.found = found
        self.known = known


class StorageBusy(StorageError):
    """Raised when other programs have kept the journal locked for longer than the setting `lock_timeout` allows: most
    often one that was stopped with Ctrl-Z in the middle of a commit. `processes` are their ids, as far as they are
    known.

    Nothing of what was asked for has happened, and the engine can still be used. Runs that an engine drives never meet
    this error: they wait.
    """

    advice = "Nothing was changed. Let that program go on, or end it; then try again."

    def __init__(self, path: str, reason: str, processes: tuple[int, ...] = ()) -> None:
        super().__init__(path, reason)
        self.processes = processes


class StorageClosed(StorageError):
    """Raised when something is written through an engine that is closed, or that belongs to a parent process."""

    advice = "Open it anew in this process."


class MissingPackage(OnceflowError, ImportError):
    """Raised when something needs a package that is not installed. `package` is its name, `extra` the extra of onceflow
    that brings it."""

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'onceflow[{extra}]'")


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
    """Raised when a queue is asked for that nobody has declared. `queue` is its name."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(
            f"there is no queue {queue!r}: nobody has declared it. `onceflow queue list` shows those that there are"
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


class ExceptionLost(OnceflowError):
    """Stands for an exception of user code that could not be sent from the process that raised it. `kind` is the name
    of its class and `text` what it said."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text
        super().__init__(f"{kind}: {text} (the exception itself could not be sent from its worker)")


class UnpicklableOutput(OnceflowError, TypeError):
    """Raised for a task whose output cannot be turned into bytes. `task` is its name, and `path` says where in its
    output the value stands that is to blame, as in `output['rows'][3].lock`."""

    def __init__(self, task: str, path: str, kind: str, reason: str) -> None:
        self.task = task
        self.path = path
        super().__init__(
            f"{task}: {path}, of type {kind}, cannot leave the worker: {reason}. Return what is needed to make it "
            "again (a path, a URL, settings)."
        )


class OutputNotSent(OnceflowError):
    """Raised for a task whose output could not be sent from its worker, because there is no room for it: it goes
    through shared memory. `task` is its name, `size` the bytes of its output."""

    def __init__(self, task: str, size: int, reason: str) -> None:
        self.task = task
        self.size = size
        super().__init__(
            f"{task}: its output of {size} bytes cannot leave the worker: {reason}. It goes through shared memory: "
            "look at the limits of memory and of file sizes (ulimit -f), or write it to a file and return the path."
        )


class InputNotSent(OnceflowError):
    """Raised for a task that cannot be given what another one returned, because there is no room for it: it goes
    through shared memory. `task` is its name."""

    def __init__(self, task: str, reason: str) -> None:
        self.task = task
        super().__init__(
            f"{task}: an output that it reads cannot leave the worker that made it: {reason}. It goes through shared "
            "memory: look at the limits of memory and of file sizes (ulimit -f), or write it to a file and return the "
            "path."
        )


class WrongParts(OnceflowError, TypeError):
    """Raised for a task that does not return as many parts as its `num_returns` says. `task` is its name."""

    def __init__(self, task: str, expected: int, got: str) -> None:
        self.task = task
        self.expected = expected
        super().__init__(f"{task}: num_returns={expected} asks for a tuple of {expected}, but it returned {got}")


class FunctionNotLoaded(OnceflowError):
    """Raised for a task whose function, or an argument of it, cannot be loaded in a worker: mostly because of a module
    that is not installed there. `task` is its name, `what` says what cannot be loaded."""

    def __init__(self, task: str, what: str, reason: str) -> None:
        self.task = task
        self.what = what
        super().__init__(
            f"{task}: {what} cannot be loaded: {reason}. Workers need the modules of the program that binds the task, "
            "in the same versions, and where Python looks for modules."
        )


class SecretUnavailable(OnceflowError, LookupError):
    """Raised when a `Secret` is asked for its clear text where that cannot be had. `secret` is what is known of it."""

    def __init__(self, secret: str, reason: str) -> None:
        self.secret = secret
        super().__init__(f"{secret} is not available: {reason}")


class CodeMissing(OnceflowError, LookupError):
    """Raised when a stored run needs a task whose code is not there any more, or cannot be imported. `task` is its
    name, `module` where it was defined, `reason` why it is not found."""

    def __init__(self, task: str, module: str, reason: str, advice: str) -> None:
        self.task = task
        self.module = module
        self.reason = reason
        super().__init__(f"task {task!r} of module {module!r} was not found: {reason}. {advice}")


class UnpicklableTask(OnceflowError, TypeError):
    """Raised when a task that cannot be imported (a lambda, a local function, one of the script itself) refers to
    something that cannot be turned into bytes, so that no run could outlive this process. `task` is its name."""

    def __init__(self, task: str, reason: str) -> None:
        self.task = task
        super().__init__(
            f"task {task!r} cannot be stored: {reason}. Define it in a module that can be imported, or make what it "
            "refers to inside its function."
        )


class InvalidRef(OnceflowError, ValueError):
    """Raised when a ref is used where it means nothing: outside of the run or the attempt that it belongs to."""


class InvalidActor(OnceflowError, TypeError):
    """Raised when a class is declared or used as an actor in a way that cannot work."""


class SharedActor(OnceflowError):
    """Raised by a task that shares an actor with others, and calls a method that might change it."""

    def __init__(self, actor: str, method: str, holder: str, others: tuple[str, ...] = ()) -> None:
        self.actor = actor
        self.method = method
        self.holder = holder
        """The task that called it."""
        self.others = others
        """The tasks that share the actor at that moment."""
        with_whom = f" with {', '.join(others)}" if others else ""
        super().__init__(
            f"{holder} shares actor {actor}{with_whom}, and called {method!r}, which is not const. Declare the "
            f"parameter as `Exclusive[{actor}]` and return the actor, or mark the method with `@const` if it changes "
            "nothing"
        )


class ActorNotReturned(OnceflowError):
    """Raised for a task that took an actor for itself and did not return it."""

    def __init__(self, task: str, actor: str) -> None:
        self.task = task
        super().__init__(
            f"{task} has actor {actor} for itself (`Exclusive`), and did not return it. Return it, alone or with other "
            "things; or share it, if nothing changes it"
        )


class UnfinishedCalls(OnceflowError):
    """Raised for a task that returned while calls of its actors were under way."""

    def __init__(self, task: str, actor: str, methods: tuple[str, ...]) -> None:
        self.task = task
        self.methods = methods
        super().__init__(
            f"{task} returned while calls of actor {actor} were under way: {', '.join(methods)}. Wait for `result()` "
            "of everything that `later` gave"
        )


class RefLost(OnceflowError, LookupError):
    """Raised by `Ref.get` when what the ref refers to is gone. The attempt that met it does not count, whatever it does
    with the exception: the task that made the ref runs again, and then this one."""

    noticed: ClassVar[list[Callable[[str], None]]] = []
    """Called with the id of the ref when it is made: it cannot be told by whether the exception comes through."""

    def __init__(self, ref: Any, reason: str) -> None:
        """`ref` is a `Ref`."""
        self.ref: str = ref._id
        self.reason = reason
        super().__init__(f"what {ref!r} refers to is gone: {reason}")
        for notice in self.noticed:
            notice(self.ref)


class ActorLost(RefLost):
    """Raised when the process of an actor has died. The attempt that met it does not count, whatever it does with the
    exception: the actor is restored as it was last saved, what was done with it since is done again, and then this."""


class LostForGood(OnceflowError):
    """Raised for a task whose refs were lost again and again, although what they refer to was made anew or restored."""

    def __init__(self, task: str, refs: str) -> None:
        super().__init__(
            f"what {refs} refers to was gone whenever {task} asked for it, even after it had been made anew or "
            "restored from what is saved of it. Look at the `_checkpoint` and `_restore` of the ref's class"
        )


class WorkersUnavailable(OnceflowError):
    """Raised when no worker can be started."""


class NotInTask(OnceflowError, RuntimeError):
    """Raised when `current()`, or a `Variable`, is asked by code that does not run as a task of a run."""

    def __init__(self, what: str = "current()") -> None:
        if what == "current()":
            hint = "a task that is called as a plain function has none"
        else:
            hint = "a program finds its value in `handle.variables`"
        super().__init__(f"{what} is only known while a task runs as part of a run; {hint}")


class Cancelled(BaseException):
    """Raised in a fiber, where it waits, when its run is cancelled. Like `asyncio.CancelledError` it is not covered by
    `except Exception`. A fiber may catch it to clean up, and raise it again. `run` is the run's id."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} is cancelled"


class NotInFiber(OnceflowError, RuntimeError):
    """Raised when something that belongs to a fiber is asked for by code that is not part of one. `what` names it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is for fibers: use it in a function that is decorated with @fiber, while it runs")
        self.what = what


class CannotJoin(OnceflowError):
    """Raised by `join` for a child that can give nothing. `child` is its id, and `reason` says why."""

    def __init__(self, child: str, reason: str) -> None:
        super().__init__(f"{child} cannot be joined: {reason}")
        self.child = child
        self.reason = reason


class EventTimedOut(OnceflowError, TimeoutError):
    """Raised for a task that waited for an event which has not come in time. `task` is its id, `key` the event's, and
    `seconds` how long it waited."""

    def __init__(self, task: str, key: str, seconds: float) -> None:
        self.task = task
        self.key = key
        self.seconds = seconds
        super().__init__(f"{task}: no event {key!r} has come within {seconds:g} seconds")


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


class InvalidVariable(OnceflowError):
    """Raised when a task variable is used in a way that it does not allow: a task writes it without saying so, reads it
    although it is declared deterministic, or gives it a value that it cannot hold. `task` and `variable` are their
    names."""

    def __init__(self, task: str, variable: str, problem: str) -> None:
        self.task = task
        self.variable = variable
        super().__init__(f"{f'{task}, ' if task else ''}variable {variable!r}: {problem}")


class Stopped(BaseException):
    """Raised inside a task that is cancelled or has run out of time, so that its `finally` blocks and context managers
    can clean up. They have about a second; then the process is killed. Do not catch it for good: the attempt counts as
    stopped whatever it returns. Async tasks get `asyncio.CancelledError` instead.

    It is not an `Exception`, and so no `OnceflowError` either: a task that says `except Exception` goes on for ever
    otherwise.
    """

    def __init__(self) -> None:
        super().__init__("this attempt has been told to stop")


class InsideTask(OnceflowError, RuntimeError):
    """Raised when a task or fiber tries to start or resume a run. `task` is its id."""

    def __init__(self, task: str, *, is_fiber: bool = False) -> None:
        self.task = task
        kind = "fiber" if is_fiber else "task"
        instead = "Return the node instead, and its result becomes the task's."
        if is_fiber:
            instead = "Await the node instead: `await call(node)`."
        super().__init__(
            f"{task} is a {kind} and cannot start a run of its own: that run would not be part of this one. {instead}"
        )


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
                f"rerun({run!r}, from_task={fibers[0]!r}) starts it again, in a new run."
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


class TaskTimedOut(OnceflowError, TimeoutError):
    """Raised for a task that ran out of time. `task` is its id, `timeout` how many seconds it had; `total` if that was
    for all its attempts together."""

    def __init__(self, task: str, timeout: float, *, total: bool = False) -> None:
        self.task = task
        self.timeout = timeout
        self.total = total
        if total:
            text = f"{task} was not done within {timeout:g} seconds, all its attempts together (total_timeout)"
        else:
            text = f"{task} ran for more than {timeout:g} seconds and was stopped (timeout)"
        super().__init__(text)


class RunPaused(OnceflowError):
    """Raised when the result of a run is asked for that waits for a person: because somebody paused it, or because an
    undo keeps failing. `task` is the task that cannot be undone, or None; what its rollback function raised last is the
    `__cause__`."""

    def __init__(self, run: str, task: str | None) -> None:
        self.run = run
        self.task = task
        if task is None:
            why = f"somebody paused it. resume({run!r}) goes on"
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
        super().__init__(f"run {run} is {status}: nobody drives it at the moment. Go on with it first: resume({run!r})")


class NoOutput(OnceflowError, LookupError):
    """Raised by `get_output` when there is nothing (yet) that could be handed out. `run` and `task` are ids."""

    def __init__(self, run: str, task: str, reason: str) -> None:
        self.run = run
        self.task = task
        super().__init__(f"there is no output of {task} of run {run} to hand out: {reason}")


class WorkerDied(OnceflowError):
    """Raised for a task whose workers died one after the other while they ran it. `task` is its id, `status` the exit
    status of the last worker process, negative for a signal, and `deaths` how many have died (`worker_deaths`)."""

    def __init__(self, task: str, status: int | None, deaths: int) -> None:
        self.task = task
        self.status = status
        self.deaths = deaths
        if status is None:
            how = "for an unknown reason"
        elif status < 0:
            how = f"by signal {-status}" + (" (SIGKILL: often the system is out of memory)" if status == -9 else "")
        else:
            how = f"with exit status {status}"
        times = "once" if deaths == 1 else f"{deaths} times in a row"
        super().__init__(
            f"the worker that ran {task} died {how}, {times}: mend the task, or give it more tries with worker_deaths="
        )


class EngineClosed(OnceflowError):
    """Raised when something is asked of an engine that is closed or has failed."""


class DurableSyntaxError(OnceflowError):
    """Raised when a function cannot be made durable. `file` and `line` say where, `problem` what is not supported."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        self.file = file
        self.line = line
        self.problem = problem
        super().__init__(f"{file}:{line}: {problem}")


class NotPersistable(OnceflowError, TypeError):
    """Raised when a fiber cannot be saved where it waits. `function`, `file` and `line` say where that is, `what` which
    of its values is to blame. The fiber itself is unharmed."""

    def __init__(self, text: str, *, function: str = "", file: str = "", line: int = 0, what: str = "") -> None:
        self.function = function
        self.file = file
        self.line = line
        self.what = what
        super().__init__(f"cannot save fiber: {text}")


class CodeChanged(OnceflowError):
    """Raised when a saved fiber stands in code that is not there any more. `ref` names the function, `saved` and
    `loaded` are the versions, `verdict` says why the fiber cannot go on in the new code."""

    def __init__(self, ref: str, saved: str, loaded: str | None, verdict: str) -> None:
        self.ref = ref
        self.saved = saved
        self.loaded = loaded
        self.verdict = verdict
        now = f"the loaded version is {loaded}" if loaded else "there is no such function any more"
        super().__init__(f"fiber was parked in {ref} version {saved}, {now}: {verdict}")


class BadSnapshot(OnceflowError, ValueError):
    """Raised when bytes are not a snapshot of a fiber, or not one that may be loaded here."""
