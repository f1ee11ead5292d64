"""What is kept on disk cannot be read or written."""

from __future__ import annotations

from onceflow.errors.base import OnceflowError


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
