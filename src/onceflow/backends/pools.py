"""The interface that a backend offers to an engine to run its jobs."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypedDict

from onceflow.backends.local.live_publishing import Then
from onceflow.backends.local.messages import Job
from onceflow.backends.local.reports import Printed, Progressed, Report, Statistics
from onceflow.backends.local.reservations import Reservations
from onceflow.data.objects import Object, Shelf
from onceflow.data.places import Live, Place
from onceflow.data.porter.startup import Start
from onceflow.driver.actors import Instance, Version
from onceflow.values.actors import ActorOptions
from onceflow.values.functions import Shipped


class AnyPool(Protocol):
    """Used from one thread, which calls `turn` before every wait. For what each method means, see
    `backends.local.pool.Pool`."""

    paused: bool

    @property
    def shelf(self) -> Shelf: ...

    @property
    def reservations(self) -> Reservations: ...

    def ship(self, shipped: Shipped) -> None: ...

    def start_porter(self, start: Start, connection: socket.socket) -> None: ...

    def start(self, job: Job, live: Mapping[int, Object] | None = None) -> None: ...

    def publish(self, object: Object, then: Then) -> None: ...

    def follow(self, token: int, jobs: list[Job]) -> bool: ...

    def count_change(self) -> None: ...

    def is_short(self, function: str) -> bool: ...

    def has_started(self, token: int) -> bool: ...

    def started(self, token: int) -> float | None: ...

    def lingering(self) -> set[Object]: ...

    def running(self) -> list[int]: ...

    def is_queued(self, token: int) -> bool: ...

    def lacks_room(self, token: int) -> bool: ...

    def exceeds(self, token: int) -> bool: ...

    def stop(self, token: int, *, now: bool = False) -> None: ...

    def withdraw(self, token: int) -> None: ...

    def halt(self) -> None: ...

    def turn(self) -> float | None: ...

    def close(self) -> None: ...

    def statistics(self) -> Statistics: ...


class Told(TypedDict):
    """What a pool is given by its engine: see `backends.local.pool.Pool`."""

    selector: selectors.BaseSelector
    report: Callable[[Report], None]
    progressed: Callable[[Progressed], None]
    died: Callable[[int, int | None], None]
    lost: Callable[[list[Object]], None]
    variable: Callable[[int, str, Callable[[bytes | None], None]], None]
    printed: Callable[[list[Printed]], None] | None
    log_level: int
    preload: Sequence[str]
    environment: Mapping[str, str]


class AnyInstances(Protocol):
    """The actors of an engine that live: see `backends.local.actors.instances.Instances`."""

    used: bool
    """Whether there may be, or may have been, any."""

    def __len__(self) -> int: ...

    def use(
        self, token: int, version: Version, content: Callable[[], tuple[bytes | Place | Live, ActorOptions, object]]
    ) -> Instance: ...

    def returned(self, name: str) -> Instance: ...

    def job_ended(self, token: int) -> None: ...

    def is_host(self, token: int) -> bool: ...

    def host_ended(self, token: int) -> None: ...

    def turn(self) -> float | None: ...
