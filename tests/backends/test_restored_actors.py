"""Actors that are restored: what they are restored from is held for them."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from onceflow.backends.local.actors.instances import Instances
from onceflow.driver.actors import Version
from onceflow.values.actors import ActorOptions


class Starting:
    """Stands for a pool whose processes are slow to come."""

    def host(self, name: str, job: Any, listener: int) -> None:
        self.job = job


class Snapshot: ...


def test_it_is_there_although_the_job_that_wanted_the_actor_is_over() -> None:
    # given an actor that a job wanted, whose process is not there yet
    pool: Any = Starting()
    instances = Instances(pool, itertools.count(1).__next__, lambda function: "hash", died=lambda instance: None)
    snapshot = Snapshot()
    seen = weakref.ref(snapshot)
    version = Version(None, b"snapshot")
    instances.use(7, version, lambda: (b"", ActorOptions(), seen()))
    del snapshot

    # when the job has ended
    instances.job_ended(7)

    # then what the actor is restored from stays until its own job is over
    assert seen() is not None
    instances.host_ended(pool.job.token)
    assert seen() is None
