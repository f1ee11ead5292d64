"""Cancelling a run whose code is gone: possible as long as nothing has to be taken back.

A run that is cancelled starts nothing new, so its code is needed for undos only. What the run wants to start before it
hears that it is cancelled is reported as ended at once: it never began here. Begun irrevocable attempts cannot be given
time to finish; they may have happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from onceflow.core.model import commands, events
from onceflow.core.run import Run
from onceflow.errors import CodeMissing


def cancel(run: Run, decided: Iterable[commands.Command], missing: CodeMissing) -> list[commands.Command]:
    """Returns the remaining commands of a run that is being cancelled. Raises `CodeMissing` if something has to
    be taken back; `missing` says what is not there."""
    left: list[commands.Command] = []
    waiting = deque([*decided, *run.handle(events.GiveUp())])
    while waiting:
        command = waiting.popleft()
        match command:
            case commands.Start(node, private=True):
                raise _needed(missing, f"{node!r} has to run again for something that has to be taken back")
            case commands.Start(node, attempt):
                waiting += run.handle(events.Ended(node, attempt))
            case commands.Wait(node, attempt):
                waiting += run.handle(events.Elapsed(node, attempt))
            case commands.Stop() | commands.Ask():
                pass
            case commands.Undo(node):
                raise _needed(missing, f"{node!r} has to be taken back")
            case _:
                left.append(command)
    return left


def _needed(missing: CodeMissing, why: str) -> CodeMissing:
    advice = f"Cancelling the run needs its code, because {why}. Bring it back."
    error = CodeMissing(missing.task, missing.module, missing.reason, advice)
    error.__cause__ = missing
    return error
