"""What a pool tells about the jobs it was given. For each job there is exactly one report, which proves that it has
ended or never started."""

from __future__ import annotations

import msgspec


class Finished(msgspec.Struct, frozen=True, gc=False):
    """It returned. `parts` are pickled; times are seconds since the epoch; `worker` is a process id. `graph`: it
    returned a node, and the only part is the graph that leads to it."""

    token: int
    parts: list[bytes]
    started: float
    ended: float
    worker: int
    graph: bool = False


class Raised(msgspec.Struct, frozen=True, gc=False):
    """It raised: `failures.load(failure)` is the exception. `permanent`: trying again can never help, because what it
    returned cannot be sent, or what it needs cannot be loaded."""

    token: int
    failure: bytes
    permanent: bool
    started: float
    ended: float
    worker: int


class Died(msgspec.Struct, frozen=True, gc=False):
    """The worker died while these jobs ran or before it could tell what became of them. `status` is its exit status,
    negative for a signal, None if nobody could learn it."""

    tokens: tuple[int, ...]
    worker: int
    status: int | None


class Ended(msgspec.Struct, frozen=True, gc=False):
    """It was stopped: it runs no more, or has never started (`started` is False)."""

    token: int
    started: bool


Report = Finished | Raised | Died | Ended


class Statistics(msgspec.Struct, frozen=True, gc=False):
    """A look at a pool."""

    workers: int
    """Processes that can take jobs now."""
    starting: int
    """Processes asked for that are not there yet."""
    queued: int
    """Jobs that no worker has."""
    taken: int
    """Jobs that a worker has, running or next."""
    dispatched: int
    """Jobs sent to workers since the pool was made, counting again those that were given back."""
    returned: int
    """Jobs given back by a worker since then, not started."""
    deaths: int
    """Workers that died since then without having been asked to."""
