"""What goes wrong in tasks, and on the way to and from their workers."""

from __future__ import annotations

from onceflow.errors.base import OnceflowError


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


class NotInTask(OnceflowError, RuntimeError):
    """Raised when `current()`, or a `Variable`, is asked by code that does not run as a task of a run."""

    def __init__(self, what: str = "current()") -> None:
        if what == "current()":
            hint = "a task that is called as a plain function has none"
        else:
            hint = "a program finds its value in `handle.variables`"
        super().__init__(f"{what} is only known while a task runs as part of a run; {hint}")


class EventTimedOut(OnceflowError, TimeoutError):
    """Raised for a task that waited for an event which has not come in time. `task` is its id, `key` the event's, and
    `seconds` how long it waited."""

    def __init__(self, task: str, key: str, seconds: float) -> None:
        self.task = task
        self.key = key
        self.seconds = seconds
        super().__init__(f"{task}: no event {key!r} has come within {seconds:g} seconds")


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
