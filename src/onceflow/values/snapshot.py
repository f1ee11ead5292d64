"""Snapshots: a value frozen as bytes, with the handles and the large buffers in it set aside.

What is pickled cannot change afterwards, so a snapshot taken at bind is what the task will see, whatever happens to the
original. Two things are not copied:

- A *handle* is replaced by a numbered placeholder. The code that loads the snapshot says what stands there.
- A *buffer* above 64 KiB (the memory of a numpy array, a `bytes`, a `bytearray`) is held by identity, outside the
  pickle.

There are two picklers. The quick one is the standard library's in C; it never calls Python code for built-in values. It
gives up when it meets a function or class that a worker could not import (`__main__`, locals, lambdas), or when the
pickle turns out to be large; the thorough one (`onceflow.values.thorough`, built on cloudpickle) then starts over.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Collection, Sequence
from types import FunctionType
from typing import Any

from onceflow.values import scripts
from onceflow.values.handles import Handle

LARGE = 64 * 1024
"""Bytes. Buffers above it are held by identity instead of being copied."""

PROTOCOL = 5


class Snapshot:
    """A value as bytes. Immutable, except that the buffers still belong to their makers."""

    __slots__ = ("buffers", "handles", "payload")

    def __init__(
        self, payload: bytes, handles: tuple[Handle, ...] = (), buffers: tuple[pickle.PickleBuffer, ...] = ()
    ) -> None:
        self.payload = payload
        self.handles = handles
        """Placeholder number → handle, each once, in the order in which the pickler met them."""
        self.buffers = buffers

    def load(self, values: Sequence[Any] | None = None) -> Any:
        """A fresh copy, with `values[n]` in place of placeholder n (by default the handles themselves).

        What pickle builds upon a large buffer (a numpy array) shares that memory with the original."""
        return load(self.payload, self.handles if values is None else values, self.buffers)


def take(value: object) -> Snapshot:
    """Freezes a value. Raises whatever pickling it raises."""
    quick = _quickly(value)
    if quick is not None:
        return quick
    from onceflow.values import thorough  # slow to import, seldom needed

    return thorough.take(value)


def load(payload: bytes, values: Sequence[Any], buffers: Sequence[Any] = ()) -> Any:
    """The value of a pickle made here. `buffers` are bytes-like objects, in the order of the snapshot's."""
    return _Loader(payload, values, buffers).load()


def placeholder(number: int) -> Any:
    """Stands in pickles where a handle was. A loader answers for it; plain unpickling cannot."""
    raise pickle.UnpicklingError(f"placeholder {number} can only be filled by onceflow.values.snapshot.load")


def set_aside(handles: list[Handle], handle: Handle) -> tuple[Callable[[int], Any], tuple[int]]:
    """What a pickler writes instead of a handle. The pickler's memo sees to it that each is met once."""
    handles.append(handle)
    return placeholder, (len(handles) - 1,)


def keep_large(buffers: list[pickle.PickleBuffer]) -> Callable[[pickle.PickleBuffer], bool]:
    """A `buffer_callback` that sets large buffers aside and lets small ones be copied."""

    def callback(buffer: pickle.PickleBuffer) -> bool:
        if memoryview(buffer).nbytes <= LARGE:
            return True
        buffers.append(buffer)
        return False

    return callback


class Chunks:
    """A file to pickle into that copies nothing."""

    __slots__ = ("chunks", "write")

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.write = self.chunks.append


class _NotQuick(Exception):
    """The quick pickler met something that only the thorough one can do well."""


class _Quick(pickle.Pickler):
    def __init__(self, file: Any, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(file, PROTOCOL, buffer_callback=keep_large(buffers))
        self.handles: list[Handle] = []

    def reducer_override(self, value: Any) -> Any:
        """Called for everything but instances of the built-in types."""
        if isinstance(value, Handle):
            return set_aside(self.handles, value)
        if isinstance(value, (type, FunctionType)) and not importable(value):
            raise _NotQuick
        return NotImplemented


def importable(value: Any) -> bool:
    """Whether a worker finds this function or class by its name. Workers never run the user's script."""
    return value.__module__ != "__main__" and "<" not in value.__qualname__


def registered_by_value() -> Collection[str]:
    """The modules of which the user told cloudpickle that workers cannot import them. Another thread may be importing
    cloudpickle at this moment; no modules can have been registered with it then."""
    listed = getattr(sys.modules.get("cloudpickle"), "list_registry_pickle_by_value", None)
    return listed() if listed is not None else ()


def _quickly(value: object) -> Snapshot | None:
    if registered_by_value():
        return None
    file = Chunks()
    buffers: list[pickle.PickleBuffer] = []
    pickler = _Quick(file, buffers)
    try:
        pickler.dump(value)
    except (_NotQuick, pickle.PicklingError, AttributeError, TypeError):
        return None
    if len(file.chunks) > 1:  # written in pieces, so above 64 KiB: there may be large bytes in it
        return None
    return Snapshot(file.chunks[0], tuple(pickler.handles), tuple(buffers))


class _Loader(scripts.Unpickler):
    def __init__(self, payload: bytes, values: Sequence[Any], buffers: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(payload), buffers=buffers)
        self._fill = values.__getitem__
        self._held: dict[int, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        if name == "placeholder" and module == __name__:
            return self._fill
        return super().find_class(module, name)

    def persistent_load(self, held: tuple[type, Any]) -> Any:
        """A large `bytes` or `bytearray`: pickle itself sets no buffers of theirs aside."""
        key = id(held)  # the unpickler's memo keeps it alive; the same object twice stays one object
        if key not in self._held:
            kind, buffer = held
            owner = memoryview(buffer).obj
            self._held[key] = owner if kind is bytes and type(owner) is bytes else kind(buffer)
        return self._held[key]
