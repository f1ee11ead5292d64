"""Where an object's bytes are.

A segment is known by a number, which is unique within one engine. Whoever is sent a place in a segment that it does not
know is sent the segment's descriptor with it.
"""

from __future__ import annotations

import mmap

import msgspec

PAGE = mmap.PAGESIZE


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    segment: int
    offset: int
    """Bytes from the segment's start; whole pages, so that the object can be mapped by itself."""
    size: int
    """Bytes. What follows up to the end of the page belongs to nobody."""


def whole_pages(size: int) -> int:
    """The bytes that something of this size takes up. Even an empty object has a page, and so a place of its own."""
    return max(PAGE, (size + PAGE - 1) // PAGE * PAGE)
