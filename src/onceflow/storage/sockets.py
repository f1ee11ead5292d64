"""Sockets: one engine asks another, on the same host, about the runs that it drives.

A Unix socket beside the engine's lock, which only its user may open; both ends check the other's user. The path of a
home directory may well be longer than the 107 bytes that the name of a socket may have, so the folder is opened, and
the socket is named through it: `/proc/self/fd/<number>/<name>`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from onceflow.storage import failures, forks, names

SUFFIX = ".socket"

BACKLOG = 64
"""Connections that wait to be accepted."""


class Listener:
    """An engine's own socket. `fileno()` becomes readable when a peer has connected."""

    def __init__(self, folder: Path, engine: str) -> None:
        self._path = folder / (engine + SUFFIX)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            with failures.told(folder), _address(folder, engine) as address:
                self._socket.bind(address)
                self._path.chmod(0o600)
                self._socket.listen(BACKLOG)
        except BaseException:
            self._socket.close()
            raise
        forks.watch(self)

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> socket.socket | None:
        """A connection that does not block; None if there is none, or it is not one of this user's."""
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        connection.setblocking(False)
        if _user_of(connection) not in (os.geteuid(), 0):
            connection.close()
            return None
        return connection

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._path.unlink(missing_ok=True)
            self._socket.close()

    def leave_to_parent(self) -> None:
        self._socket.close()


def connect(folder: Path, engine: str, seconds: float) -> socket.socket:
    """A connection to another engine. Whatever is done with it raises an `OSError` after so many (whole) seconds."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Python's own timeout would not wait at all while too many others want to be accepted.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds), 0))
        with _address(folder, engine) as address:
            connection.connect(address)
        if _user_of(connection) not in (os.geteuid(), 0):
            raise PermissionError(errno.EPERM, "another user answers there")
        connection.settimeout(seconds)
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _address(folder: Path, engine: str) -> Iterator[str]:
    opened = os.open(folder, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}/{names.check_engine(engine)}{SUFFIX}"
    finally:
        os.close(opened)


def _user_of(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", credentials)[1]
    return user
