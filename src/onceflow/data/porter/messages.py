"""Messages between an engine and its porter.

The engine numbers the requests that it wants an answer to. Requests are looked at in order, but what takes time is
answered when it is done.
"""

from __future__ import annotations

import msgspec

from onceflow.data.places import Place
from onceflow.errors import StorageDamaged, StorageError, StorageFull, StorageReadOnly
from onceflow.storage.blobs import Author

_ERRORS = {kind.__name__: kind for kind in (StorageError, StorageFull, StorageReadOnly, StorageDamaged)}


class _Message(msgspec.Struct, array_like=True, gc=False):
    @property
    def described(self) -> bool:
        """Whether a descriptor comes with it."""
        return False


class Keep(msgspec.Struct, tag=1, array_like=True, gc=False):
    """Hold this object. Its segment's descriptor comes with it unless the porter has it already."""

    object: int
    place: Place
    described: bool


class Fetch(_Message, tag=2):
    """Where is this object? Answered by `Fetched` or `Failed`."""

    number: int
    object: int


class Save(_Message, tag=3):
    """Make a blob of this object. Answered by `Saved` or `Failed`; until then its memory must stay as it is."""

    number: int
    object: int
    author: Author
    name: str
    checksum: int | None = None
    """Of an object that was moved to disk: what it had when it was written. If it has another one, it is damaged."""


class Spill(_Message, tag=4):
    """Move this object to disk. Answered by `Spilled` or `Failed`; until then its memory must stay as it is."""

    number: int
    object: int


class Free(_Message, tag=5):
    """These objects are no longer needed."""

    objects: list[int]


class Forget(_Message, tag=6):
    """There will be nothing in these segments any more."""

    segments: list[int]


class Count(_Message, tag=7):
    """Answered by `Counted`."""

    number: int


class Load(_Message, tag=8):
    """Bring a blob that is no file into memory. Answered by `Fetched`, with a segment of its own, or `Failed`."""

    number: int
    reference: str


class Hello(msgspec.Struct, tag=20, array_like=True, gc=False):
    """The first thing that a porter says. A pidfd of it comes with this."""

    pid: int
    described: bool = True


class Fetched(msgspec.Struct, tag=21, array_like=True, gc=False):
    """The descriptor of its segment comes with this."""

    number: int
    place: Place
    described: bool = True


class Saved(_Message, tag=22):
    """It is durable."""

    number: int
    reference: str


class Spilled(_Message, tag=23):
    """From now on this is where the object is; `Fetch` has the descriptor. Its memory may be used again."""

    number: int
    place: Place
    checksum: int
    """Of its bytes in memory, before they were written."""


class Failed(_Message, tag=24):
    """Nothing has changed."""

    number: int
    path: str
    reason: str
    kind: str | None = None
    """Which error of storage it was; None if there is no such object."""
    run: str | None = None
    task: str | None = None
    """What is damaged, if something is."""

    def error(self) -> StorageError:
        error = _ERRORS[self.kind or StorageDamaged.__name__](self.path, self.reason)
        if isinstance(error, StorageDamaged):
            error.run, error.task = self.run, self.task
        return error


class Refused(_Message, tag=25):
    """This object is not kept: there was no descriptor left for its segment."""

    object: int


class Counted(_Message, tag=26):
    number: int
    objects: int
    """That are in memory."""
    size: int
    """Bytes of these."""
    spilled: int
    """Objects that are on disk."""
    spilled_size: int
    """Bytes of these."""
    saving: int
    """Objects that are being saved, or wait for it."""
    saving_size: int
    """Bytes of these."""
    segments: int
    """Each of them needs a descriptor, until it is closed."""


Request = Keep | Fetch | Save | Spill | Free | Forget | Count | Load
Reply = Hello | Fetched | Saved | Spilled | Failed | Refused | Counted
