"""Where an object's bytes are.

An object is *live* as long as only its maker needs it, and has a place from then on. A segment is known by a
number, which is unique within one engine. A process that is sent a place in a segment that it does not know is sent the
segment's descriptor with it.
"""

from __future__ import annotations

import mmap

import msgspec

PAGE = mmap.PAGESIZE


class Place(msgspec.Struct, frozen=True, tag=1, array_like=True, gc=False):
    segment: int
    offset: int
    """Bytes from the segment's start; whole pages, so that the object can be mapped by itself."""
    size: int
    """Bytes. The rest of the page is unused."""


class Live(msgspec.Struct, frozen=True, tag=2, array_like=True, gc=False):
    """An object that has no place: only the worker that made it has it, in its own memory."""

    number: int
    """What that worker calls it. No other worker of the engine uses this number."""
    size: int
    """Bytes that it would take."""


class Missing(Exception):
    """What was to be found under this number is gone."""

    def __init__(self, number: int) -> None:
        super().__init__(f"object {number} is no more")
        self.number = number


def whole_pages(size: int) -> int:
    """The bytes that something of this size takes up. Even an empty object has a page, and so a place of its own."""
    return max(PAGE, (size + PAGE - 1) // PAGE * PAGE)
