"""Running attempts on a Ray cluster instead of this host alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from onceflow.driver.actors import Instance

if TYPE_CHECKING:
    from onceflow.backends.pools import AnyInstances, AnyPool, Told


class Cluster(msgspec.Struct, frozen=True):
    address: str
    """As in the setting `backend`."""
    store: int | None
    """Bytes for large values in a cluster that is started here."""
    silence: float
    """Seconds for which nodes work on if they hear nothing from this engine."""
    until: Callable[[], float | None]
    """When this engine has to have stopped everything, if others rely on that."""

    def open(
        self, folder: Path, size: int | None, lost_actor: Callable[[Instance], None], told: Told
    ) -> tuple[AnyPool, AnyInstances]:
        from onceflow.backends.ray.instances import RayInstances  # only this needs Ray
        from onceflow.backends.ray.pool import RayPool

        pool = RayPool(self.address, folder, size, store=self.store, silence=self.silence, until=self.until, **told)
        return pool, RayInstances(pool, lost_actor)
