"""Workers for one job each: a job that says what it needs, or where, gets a Ray actor with just that.

Ray finds room for it, now or whenever there is some. Then the agent of that node is notified to expect it, and it joins
as any worker does.

If no node has so much, even with nothing else to do, the job waits for one that joins the cluster, and that is
reported. No node joins a cluster that was started here for development: there the rules are those of a single host, so
that more cpus or memory than there are count as all there are, and a job that needs what there is none of fails.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from onceflow.backends.ray.messages import Alone
from onceflow.backends.ray.worker import RayWorker
from onceflow.errors import InvalidOption, OnceflowError

if TYPE_CHECKING:
    from onceflow.backends.local.messages import Job
    from onceflow.backends.ray.agent import AgentSettings
    from onceflow.backends.ray.inbox import Inbox
    from onceflow.backends.ray.nodes import Station

log = logging.getLogger(__name__)

SPREAD = "spread"
"""A placement: wherever little runs."""

GPU = "gpu"
"""A resource that Ray counts apart from others."""

CPUS, MEMORY, GPUS = "CPU", "memory", "GPU"
"""What Ray calls what it counts by itself."""


class _Single:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.worker: Any = None
        """The Ray actor, if it has been asked for."""
        self.station: Station | None = None
        """Where that is, once Ray has found room for it."""
        self.exceeds = False
        """Whether no node has so much."""


class Singles:
    """Belongs to the engine's loop. `give` gives a station the message that announces a job's worker, and returns the
    call; `fail` is called with jobs that can never run, and why."""

    def __init__(
        self,
        inbox: Inbox,
        settings: AgentSettings,
        stations: Mapping[str, Station],
        keeper: Callable[[], Any],
        give: Callable[[Station, Job, Alone], Any],
        fail: Callable[[Job, OnceflowError], None],
    ) -> None:
        self._inbox = inbox
        self._settings = settings
        self._stations = stations
        self._keeper = keeper
        self._give = give
        self._fail = fail
        self._all: dict[int, _Single] = {}
        self._nodes: Mapping[str, Mapping[str, float]] = {}
        """Node → what it has if it has nothing to do."""
        self._grows = True
        """Whether nodes may join."""
        self.halted = False
        """Whether none of them starts any more. From any thread."""

    def add(self, job: Job) -> None:
        single = self._all[job.token] = _Single(job)
        if self._stations:  # else there is no cluster yet
            self._ask(single)

    def stop(self, token: int) -> bool:
        """Whether there was such a job, of which no station has heard."""
        single = self._all.get(token)
        if single is None or single.station is not None:
            return False
        if single.worker is not None:
            ray.kill(single.worker)
        del self._all[token]
        return True

    def forget(self, token: int) -> None:
        self._all.pop(token, None)

    @property
    def waiting(self) -> int:
        """Jobs that Ray has found no room for yet."""
        return sum(single.station is None for single in self._all.values())

    @property
    def may_fit(self) -> bool:
        """Whether one of those would find room if others made some."""
        return any(single.station is None and not single.exceeds for single in self._all.values())

    def lacks_room(self, token: int) -> bool:
        single = self._all.get(token)
        return single is not None and single.station is None

    def exceeds(self, token: int) -> bool:
        """Whether this job needs more than any node has."""
        single = self._all.get(token)
        return single is not None and single.station is None and single.exceeds

    def joined(self) -> None:
        """There is one station more."""
        for single in list(self._all.values()):
            if single.worker is None:
                self._ask(single)

    def looked(self, nodes: Mapping[str, Mapping[str, float]], grows: bool) -> None:
        """Which nodes there are now, and what each has in all."""
        self._nodes = nodes
        self._grows = grows
        for single in list(self._all.values()):
            if single.station is None:
                self._compare(single)
                if single.worker is None and self._stations:
                    self._ask(single)

    def _compare(self, single: _Single) -> None:
        missing = self._missing(single.job) if self._nodes else ""
        if missing and not single.exceeds and self._grows:
            log.warning("%s waits: no node of the cluster has %s", single.job.task, missing)
        single.exceeds = bool(missing)

    def _is_nowhere(self, job: Job) -> bool:
        """Whether it wants to be on a node that is not there."""
        return job.placement not in ("", SPREAD) and job.placement not in self._nodes

    def _missing(self, job: Job) -> str:
        """What no node has of what a job needs."""
        if self._is_nowhere(job):
            return f"the id {job.placement}"
        return self.lacking(self._needs(job))

    def lacking(self, needs: Mapping[str, float]) -> str:
        """What no node has of this."""
        if any(all(has.get(name, 0) >= amount for name, amount in needs.items()) for has in self._nodes.values()):
            return ""
        lacking = {name: amount for name, amount in needs.items() if not self._has_any(name, amount)}
        return " and ".join([f"{amount:g} {name}" for name, amount in (lacking or needs).items()])

    def _has_any(self, name: str, amount: float) -> bool:
        return any(has.get(name, 0) >= amount for has in self._nodes.values())

    def _needs(self, job: Job) -> dict[str, float]:
        needs: dict[str, float] = {CPUS: 1 if job.cpus is None else job.cpus, MEMORY: job.memory}
        needs |= {GPUS if name == GPU else name: amount for name, amount in job.resources.items()}
        if not self._grows:
            for name in (CPUS, MEMORY):
                needs[name] = min(needs[name], max(has.get(name, 0) for has in self._nodes.values()))
        return {name: amount for name, amount in needs.items() if amount}

    def _ask(self, single: _Single) -> None:
        job = single.job
        self._compare(single)
        if single.exceeds and not self._grows:
            del self._all[job.token]
            problem = f"no node of the cluster has {self._missing(job)}, and none will join one that was started here"
            self._fail(job, InvalidOption(job.task, problem))
            return
        if self._is_nowhere(job):
            return  # Ray would refuse it
        needs = self._needs(job)
        options: dict[str, Any] = {"num_cpus": needs.pop(CPUS, 0), "num_gpus": needs.pop(GPUS, 0)}
        if memory := needs.pop(MEMORY, 0):
            options["memory"] = memory
        options["resources"] = needs
        if job.placement == SPREAD:
            options["scheduling_strategy"] = "SPREAD"
        elif job.placement:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(job.placement, soft=False)
        worker: Any = ray.remote(RayWorker).options(**options).remote()
        single.worker = worker
        worker.place.remote().future().add_done_callback(
            lambda future: self._inbox.post(lambda: self._found_room(single, worker, future))
        )

    def _found_room(self, single: _Single, worker: Any, future: Any) -> None:
        job = single.job
        if self.halted or self._all.get(job.token) is not single or single.worker is not worker:
            return
        station = None if future.exception() is not None else self._stations.get(future.result())
        if station is None:  # its node is not there any more, or not yet
            single.worker = None
            if self._stations:
                self._ask(single)
            return
        single.station = station
        name = f"single-{job.token}"
        alone = msgspec.structs.replace(job, cpus=None, memory=0)  # Ray counts it
        told = self._give(station, job, Alone(name, alone))
        # Not in the thread that reports it: a handle of Ray's client may have to wait for that very thread.
        told.future().add_done_callback(lambda _: self._inbox.post(lambda: self._join(single, station, name)))

    def _join(self, single: _Single, station: Station, name: str) -> None:
        """The agent expects it."""
        settings = self._settings
        mark = os.urandom(8).hex()
        single.worker.serve.remote(
            station.door, name, mark, self._keeper(), station.agent, settings.environment, settings.preload
        )
