"""The lock that proves that the workers of a pool are gone (design 2.6).

An flock belongs to an open file description, which forked processes share: it is released by the kernel when the
last process that has it is gone, however it ended. The pool opens and locks the file, the fork server inherits the
description, and its workers inherit it from there; the pool then closes its own. A child that user code forked (without
exec) keeps it as well, and rightly: it may still have effects.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from onceflow.storage import private_files

NAME = "workers.lock"


def hold(directory: Path) -> int:
    """A descriptor of a fresh description that holds the lock, beside others that do (a fork server's successor)."""
    descriptor = private_files.open_file(directory / NAME, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def all_gone(directory: Path, *, wait: bool = False) -> bool:
    """Whether no worker that was started with this directory is left. With `wait`, returns when that is so."""
    try:
        descriptor = os.open(directory / NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
