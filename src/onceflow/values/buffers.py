"""Buffers: bytes of any kind."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence

Buffer = bytes | bytearray | memoryview | pickle.PickleBuffer

MOST_BUFFERS = os.sysconf("SC_IOV_MAX")
"""In one system call."""


def flat(buffer: Buffer) -> memoryview:
    """Its bytes, one after the other."""
    if isinstance(buffer, pickle.PickleBuffer):
        return buffer.raw()
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")


def write_all(descriptor: int, views: Sequence[memoryview]) -> None:
    """Writes them one after the other, from the start of the file on."""
    views = list(views)
    offset = first = 0
    while first < len(views):
        written = os.pwritev(descriptor, views[first : first + MOST_BUFFERS], offset)
        offset += written
        while first < len(views) and written >= views[first].nbytes:
            written -= views[first].nbytes
            first += 1
        if written:
            views[first] = views[first][written:]
