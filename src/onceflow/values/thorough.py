"""The thorough pickler: functions and classes by value where a worker could not import them, large bytes set aside.

Imported only when needed, because cloudpickle is slow to import.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import cloudpickle

from onceflow.values import scripts, snapshot
from onceflow.values.functions import is_named
from onceflow.values.handles import Handle


class _Thorough(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    def __init__(self, file: Any, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(file, snapshot.PROTOCOL, buffer_callback=snapshot.keep_large(buffers))
        self.handles: list[Handle] = []
        self.held: dict[int, tuple[type, pickle.PickleBuffer]] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Handle):
            return snapshot.set_aside(self.handles, value)
        if isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO):
            raise pickle.PicklingError("an open file belongs to this process")  # cloudpickle would ship its content
        if scripts.by_name.get() and isinstance(value, type) and value.__module__ == "__main__" and is_named(value):
            return scripts.find, (scripts.name, value.__qualname__)
        return super().reducer_override(value)

    def persistent_id(self, value: Any) -> Any:
        """Called for every value. A large `bytes` or `bytearray` goes the way of other buffers, with its type beside
        it."""
        kind = type(value)
        if (kind is not bytes and kind is not bytearray) or len(value) <= snapshot.LARGE:
            return None
        # One identifier per object: the pickler then writes the second occurrence as a reference to the first.
        return self.held.setdefault(id(value), (kind, pickle.PickleBuffer(value)))


def take(value: object) -> snapshot.Snapshot:
    file = snapshot.Chunks()
    buffers: list[pickle.PickleBuffer] = []
    pickler = _Thorough(file, buffers)
    pickler.dump(value)
    return snapshot.Snapshot(b"".join(file.chunks), tuple(pickler.handles), tuple(buffers))
