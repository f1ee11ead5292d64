"""Which parts of a segment are free.

The lowest region that is large enough is taken first: what has been used before is used again before fresh memory is
touched, and the far end stays free.
"""

from __future__ import annotations

import bisect

from onceflow.data.places import whole_pages


class Regions:
    """The free regions of `size` bytes. Not thread-safe."""

    def __init__(self, size: int) -> None:
        self._starts = [0] if size else []
        """Of the free regions, in order."""
        self._lengths = {0: size} if size else {}
        """Start → bytes. No two regions touch."""
        self._most = size
        """No free region is larger."""
        self.taken = 0
        """Bytes."""

    def take(self, size: int) -> int | None:
        """The offset of a region of so many bytes, rounded up to whole pages. None if there is none."""
        size = whole_pages(size)
        if size > self._most:
            return None
        for place, start in enumerate(self._starts):
            length = self._lengths[start]
            if length >= size:
                del self._lengths[start]
                if length == size:
                    del self._starts[place]
                else:
                    self._starts[place] = start + size
                    self._lengths[start + size] = length - size
                self.taken += size
                return start
        self._most = max(self._lengths.values(), default=0)
        return None

    def give(self, offset: int, size: int) -> None:
        """This region, which was taken, is free again."""
        size = whole_pages(size)
        place = bisect.bisect_left(self._starts, offset)
        before = self._starts[place - 1] if place else None
        after = self._starts[place] if place < len(self._starts) else None
        assert before is None or before + self._lengths[before] <= offset, "it is free already"
        assert after is None or offset + size <= after, "it is free already"
        self.taken -= size
        if after == offset + size:
            size += self._lengths.pop(after)
            del self._starts[place]
        if before is not None and before + self._lengths[before] == offset:
            offset = before
            size += self._lengths[before]
        else:
            self._starts.insert(place, offset)
        self._lengths[offset] = size
        self._most = max(self._most, size)

    def extend(self, offset: int, size: int) -> None:
        """What is managed grows by these bytes at its end."""
        self.taken += size
        self.give(offset, size)
