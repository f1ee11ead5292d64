"""The deadline of workers (design 2.6), if their engine holds a lease on which others on other hosts rely.

The engine renews its lease and writes the moment at which everything has to stop if no renewal follows. The moment is
in a file beside the lock of the workers, as a number of 8 bytes, in seconds of the clock that goes on while the machine
sleeps. 0 means: not known yet, and no other host relies on it.

The fork server reads the file about once a second and sets a timer of the kernel to that moment (`Deadline`). The timer
sends SIGKILL to the fork server, and the kernel then does the same to each worker, because its parent has died
(`PR_SET_PDEATHSIG`). So the workers end although engine, fork server and workers are stopped, hang or get no processor
time to renew anything: SIGKILL needs no code of theirs, ends stopped processes, and does not wait for an interpreter
lock that user code holds. Nothing is set in the workers themselves, whose signals and timers belong to user code.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import time
from pathlib import Path

from onceflow.storage import private_files

NAME = "leash"

AWAY = "away"
"""The same for workers on other hosts, which are not ended from here: when they will have ended by themselves."""

_FORMAT = struct.Struct("d")


class Leash:
    """Held by the engine."""

    def __init__(self, directory: Path, name: str = NAME) -> None:
        self._descriptor = private_files.open_file(directory / name, os.O_RDWR | os.O_CREAT)
        self.lengthen(0.0)

    def lengthen(self, moment: float) -> None:
        """Workers may run until then. From any thread, until it is closed."""
        if self._descriptor >= 0:
            os.pwrite(self._descriptor, _FORMAT.pack(moment), 0)

    def close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1


def find(directory: Path, name: str = NAME) -> int | None:
    """A descriptor for the fork server; None if there is no leash."""
    try:
        return os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def moment(descriptor: int) -> float:
    """The end of the leash; 0 if it has none."""
    (found,) = _FORMAT.unpack(os.pread(descriptor, _FORMAT.size, 0))
    return float(found)


def left(descriptor: int) -> float | None:
    """Seconds; None if there is no end."""
    end = moment(descriptor)
    return None if end == 0 else end - time.clock_gettime(time.CLOCK_BOOTTIME)


class _Event(ctypes.Structure):
    """`struct sigevent`."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    )


_TIMER_ABSTIME = 1


class Deadline:
    """A timer of the kernel that kills this process, even if it is stopped. A child does not inherit it. Raises
    `OSError` if the kernel refuses to make or set one."""

    def __init__(self) -> None:
        self._library = _library_with_timers()
        self._timer = ctypes.c_void_p()
        event = _Event(signal=signal.SIGKILL, notify=0)
        self._checked(
            self._library.timer_create(time.CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(self._timer)),
        )

    def set(self, moment: float) -> None:
        """Of the clock that goes on while the machine sleeps. One that is past kills at once; 0 never does."""
        nanoseconds = round(moment * 1e9)
        seconds, rest = divmod(nanoseconds, 1_000_000_000)
        times = (ctypes.c_long * 4)(0, 0, seconds, rest)
        self._checked(self._library.timer_settime(self._timer, _TIMER_ABSTIME, times, None))

    def _checked(self, status: int) -> None:
        if status != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"no kernel timer to end workers with their lease: {os.strerror(number)}")


def _library_with_timers() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "timer_create"):
        return library
    return ctypes.CDLL("librt.so.1", use_errno=True)  # glibc before 2.34
