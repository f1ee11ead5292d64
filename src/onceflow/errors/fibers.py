"""Fibers that are cancelled, or cannot be saved or go on."""

from __future__ import annotations

from onceflow.errors.base import OnceflowError


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
