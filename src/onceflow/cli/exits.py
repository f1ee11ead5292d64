"""How the command ends: documented exit codes, and errors that are one line.

0    fine
1    the run failed, was cancelled or undone, or is paused
2    wrong usage or input
3    no such run or schedule, or several that could be meant
4    refused: still going on, not to be resumed, name taken, unsafe graph, lost fibers, nothing to hand out, not
     confirmed
5    trouble with the storage or the environment
130  interrupted from the keyboard
"""

from __future__ import annotations

import click

from onceflow import errors
from onceflow.values.texts import one_line

FINE = 0
FAILED = 1
WRONG = 2
UNKNOWN = 3
REFUSED = 4
TROUBLE = 5
INTERRUPTED = 130


class Wrong(click.ClickException):
    """What was typed, or a file that it names, makes no sense."""

    exit_code = WRONG


class Refused(click.ClickException):
    """It could be done, but must not."""

    exit_code = REFUSED


class Trouble(click.ClickException):
    """The machine, not the user, is in the way."""

    exit_code = TROUBLE


_CODES: tuple[tuple[type[Exception], int], ...] = (
    (errors.TaskFailed, FAILED),
    (errors.RunCancelled, FAILED),
    (errors.RunPaused, FAILED),
    (errors.NoSuchRun, UNKNOWN),
    (errors.NoSuchSchedule, UNKNOWN),
    (errors.NoSuchQueue, UNKNOWN),
    (errors.AmbiguousRun, UNKNOWN),
    (errors.NoSuchTask, UNKNOWN),
    (errors.RunActive, REFUSED),
    (errors.RunNotActive, REFUSED),
    (errors.NameTaken, REFUSED),
    (errors.QueueFull, REFUSED),
    (errors.UnsafeGraph, REFUSED),
    (errors.BrokenPromise, REFUSED),
    (errors.NotDeterministic, REFUSED),
    (errors.CodeMissing, REFUSED),
    (errors.NoOutput, REFUSED),
    (errors.RunInterrupted, TROUBLE),
    (errors.StorageError, TROUBLE),
    (errors.EngineClosed, TROUBLE),
    (errors.WorkersUnavailable, TROUBLE),
    (errors.OnceflowError, WRONG),
)
"""The first class that fits counts."""


def code_of(error: Exception) -> int:
    """What is not one of ours is trouble: the system's, or a mistake of ours."""
    if isinstance(error, click.ClickException):
        return error.exit_code
    return next((code for kind, code in _CODES if isinstance(error, kind)), TROUBLE)


def line_of(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, click.UsageError):
        path = "onceflow" if error.ctx is None else error.ctx.command_path
        return one_line(f"{error.format_message().rstrip('.')} (see {path} --help)")
    if isinstance(error, click.ClickException):
        return one_line(error.format_message())
    if isinstance(error, errors.UnsafeGraph):
        return one_line(f"unsafe graph: {str(error).splitlines()[0]} (onceflow check shows why, and what would help)")
    if isinstance(error, errors.OnceflowError):
        return one_line(str(error))
    if isinstance(error, OSError):
        return one_line(f"the system says: {error}")
    return one_line(f"unexpected {type(error).__name__}: {error} (--debug shows where)")
