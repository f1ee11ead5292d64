"""Packing: an output as bytes that others can map.

What pickle sets aside as buffers (the memory of a numpy array, an Arrow column, whatever has the buffer protocol) is
not copied into the pickle but laid out behind it, so that a process that has the bytes mapped builds upon them without
a copy:

    "onceflow"  number of buffers, size of the pickle, sizes of the buffers  pickle  buffer  buffer …

Pickle and buffers begin at multiples of 64, counted from the beginning. A value without buffers is a plain pickle, and
nothing else. The first byte distinguishes the two.

What is built upon buffers is read-only, whatever its size: others may be reading the same memory.

A *ref* in the value (`values.refs`) is set aside as well: its number stands in the pickle, and the code that unpacks it
says what goes there.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from onceflow.values import scripts, snapshot
from onceflow.values.buffers import Buffer
from onceflow.values.functions import is_named
from onceflow.values.refs import Ref
from onceflow.values.snapshot import PROTOCOL, Chunks

SMALL = 64 * 1024
"""Bytes of the largest value that travels in messages and stands in the journal itself (design 4)."""

MAGIC = b"onceflow"
ALIGNMENT = 64
_HEAD = struct.Struct("<8sQQ")
_ZEROS = bytes(ALIGNMENT)

SetAside = Callable[[Ref[Any]], int]
"""Takes note of a ref that a value holds, and says which number stands for it."""


class Ready:
    """Stands for a value that is packed already."""

    __slots__ = ("packed",)

    def __init__(self, packed: bytes) -> None:
        self.packed = packed


class Packed:
    """A value as a sequence of buffers, some of which are still the value's own memory."""

    __slots__ = ("chunks", "pieces", "size", "views")

    def __init__(self, chunks: Sequence[bytes], buffers: Sequence[pickle.PickleBuffer]) -> None:
        self.chunks = chunks
        """The pickle."""
        self.views: list[memoryview] = []
        """Those of the pieces that are the value's own memory."""
        self.pieces: list[Buffer] = list(chunks)
        """What has to be written, one after the other."""
        self.size = sum(map(len, chunks))
        """Bytes that this takes."""
        if buffers:
            self._lay_out(buffers)

    def _lay_out(self, buffers: Sequence[pickle.PickleBuffer]) -> None:
        chunks, pickled = self.pieces, self.size
        views = self.views = [buffer.raw() for buffer in buffers]
        head = _HEAD.pack(MAGIC, len(views), pickled)
        sizes = struct.pack(f"<{len(views)}Q", *[view.nbytes for view in views])
        self.pieces, self.size = [], 0
        groups: list[Sequence[Buffer]] = [[head, sizes], chunks]
        groups += [[view] for view in views]
        for group in groups:
            missing = -self.size % ALIGNMENT
            if missing:
                self.pieces.append(_ZEROS[:missing])
            self.pieces += group
            self.size += missing + sum([memoryview(piece).nbytes for piece in group])

    def joined(self) -> bytes:
        """In one piece, which is a copy unless it is one already."""
        first = self.pieces[0]
        return first if len(self.pieces) == 1 and isinstance(first, bytes) else b"".join(self.pieces)

    @property
    def is_fixed(self) -> bool:
        """Whether only `views` could still change."""
        return all(type(chunk) is bytes for chunk in self.chunks)

    def unpack(self, refs: Sequence[Any] = ()) -> Any:
        """The value once more, as `unpack` gives it: what is built upon buffers is the memory of the first one,
        read-only."""
        buffers = [view.toreadonly() for view in self.views]
        pickled = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
        return snapshot.load(pickled, refs, buffers) if refs else pickle.loads(pickled, buffers=buffers)


def pack(value: object, set_aside: SetAside | None = None) -> Packed:
    """Raises whatever pickling the value raises. Without `set_aside` refs are pickled as they see fit."""
    if type(value) is Ready:
        return Packed([value.packed], ())
    file = Chunks()
    buffers: list[pickle.PickleBuffer] = []
    try:
        _Plain(file, buffers, set_aside).dump(value)
    except (_NotPlain, pickle.PicklingError, AttributeError, TypeError):
        file = Chunks()
        buffers = []
        _pickle_thoroughly(value, file, buffers, set_aside)
    return Packed(file.chunks, buffers)


def unpack(packed: bytes | memoryview, refs: Sequence[Any] = (), *, ours: bool = False) -> Any:
    """The value. `refs[n]` goes where the n-th ref was. What is built upon buffers is not copied, and keeps
    `packed` alive. `ours`: there are no other readers of this memory, and what is built upon it may be changed."""
    if packed[0] != MAGIC[0]:
        return snapshot.load(bytes(packed), refs) if refs else scripts.loads(packed)
    view = memoryview(bytearray(packed) if ours and isinstance(packed, bytes) else packed)
    _, count, pickled = _HEAD.unpack_from(view)
    sizes = struct.unpack_from(f"<{count}Q", view, _HEAD.size)
    start = _aligned(_HEAD.size + 8 * count)
    end = start + pickled
    buffers = []
    place = end
    for size in sizes:
        place = _aligned(place)
        buffer = view[place : place + size]
        buffers.append(buffer if ours else buffer.toreadonly())
        place += size
    if refs:
        return snapshot.load(bytes(view[start:end]), refs, buffers)
    return scripts.loads(view[start:end], buffers)


def pickled_in(packed: bytes) -> bytes:
    """The pickle, without the buffers."""
    if packed[0] != MAGIC[0]:
        return packed
    _, count, pickled = _HEAD.unpack_from(packed)
    start = _aligned(_HEAD.size + 8 * count)
    return packed[start : start + pickled]


def dump(value: object) -> bytes:
    """A plain pickle, in one piece. Raises whatever pickling the value raises."""
    file = Chunks()
    try:
        _Plain(file, None, None).dump(value)
    except (_NotPlain, pickle.PicklingError, AttributeError, TypeError):
        file = Chunks()
        _pickle_thoroughly(value, file, None, None)
    return file.chunks[0] if len(file.chunks) == 1 else b"".join(file.chunks)


def _aligned(place: int) -> int:
    return place + -place % ALIGNMENT


class _NotPlain(Exception):
    """The plain pickler met something that has to go by value."""


class _Plain(pickle.Pickler):
    def __init__(self, file: Chunks, buffers: list[pickle.PickleBuffer] | None, set_aside: SetAside | None) -> None:
        super().__init__(file, PROTOCOL, buffer_callback=None if buffers is None else buffers.append)
        self._set_aside = set_aside

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)):
            if value.__module__ == "__main__" and not is_named(value):
                raise _NotPlain
        elif self._set_aside is not None and isinstance(value, Ref):
            return snapshot.placeholder, (self._set_aside(value),)
        return NotImplemented


def _pickle_thoroughly(
    value: object, file: Chunks, buffers: list[pickle.PickleBuffer] | None, set_aside: SetAside | None
) -> None:
    import cloudpickle  # slow to import, seldom needed

    class Thorough(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO):
                raise pickle.PicklingError("an open file belongs to this process")
            if isinstance(value, (type, FunctionType)) and value.__module__ == "__main__" and is_named(value):
                return value.__qualname__
            if set_aside is not None and isinstance(value, Ref):
                return snapshot.placeholder, (set_aside(value),)
            return super().reducer_override(value)

    Thorough(file, PROTOCOL, buffer_callback=None if buffers is None else buffers.append).dump(value)
