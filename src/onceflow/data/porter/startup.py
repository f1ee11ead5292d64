"""Starting a porter: the one message that the fork server has to understand."""

from __future__ import annotations

import msgspec


class Start(msgspec.Struct, tag=100, array_like=True):
    """To the fork server: become a porter, at the other end of the socket that comes with this."""

    blobs: str
    """Where it saves, as `storage.blob_stores.open_store` takes it."""
    spill: str
    """The folder for what it moves to disk. It is made when first needed, and never has a file with a name."""
    base: int
    """The number of the first segment that it makes itself."""
