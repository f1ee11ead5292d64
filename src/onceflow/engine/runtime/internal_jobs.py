"""Errands: jobs of workers that are no attempts of a task, needed because user code has to run for the engine."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from onceflow.backends.local import delegated_runs, refs
from onceflow.backends.local.messages import Job
from onceflow.backends.local.reports import Died, Finished, Raised, Report
from onceflow.backends.pools import AnyPool
from onceflow.data.objects import Object
from onceflow.errors import WorkerDied
from onceflow.values import variables
from onceflow.values.failures import dump
from onceflow.values.variables import Updates

Kept = Callable[[bytes | Object | None, bytes | None], None]
"""Called with the kept form of a ref (`values.refs`), or what it raised. Neither, if what it refers to is gone."""

Replied = Callable[[Sequence[bytes | Object], bytes | None], None]
"""Called with the parts of what an errand returned, or with what it raised."""

Reported = Callable[[delegated_runs.Report | None], None]
"""Called with the outcome of a delegation, if that is known."""


class Errand:
    """One that is under way. `task` is the one that it is for."""

    __slots__ = ("deaths", "job", "most_deaths", "task", "then")

    def __init__(self, job: Job, task: str, most_deaths: int, then: Replied) -> None:
        self.job = job
        self.task = task
        self.most_deaths = most_deaths
        self.then = then
        self.deaths = 0
        """Of workers that it is certainly to blame for."""


class Errands:
    """Those of one pool. `tokens` are those of its jobs, and `ship` makes a function known to it."""

    def __init__(self, pool: AnyPool, tokens: Iterator[int], ship: Callable[[Any], str]) -> None:
        self._pool = pool
        self._tokens = tokens
        self._ship = ship
        self._under_way: dict[int, Errand] = {}
        """By the tokens of their jobs."""
        self._delegated: dict[int, tuple[int, Reported]] = {}
        """The same of delegations: of how many runs."""

    def __contains__(self, token: int) -> bool:
        return token in self._under_way or token in self._delegated

    @property
    def delegated(self) -> int:
        """How many runs workers have. From any thread."""
        return sum([count for count, _ in list(self._delegated.values())])

    def checkpoint(self, node: str, live: bytes, most_deaths: int, then: Kept) -> None:
        """Ask a ref of a user's, in a worker, what has to be saved of it. If so many workers die of that, one after the
        other, it has failed with `WorkerDied`."""

        def told(parts: Sequence[bytes | Object], failure: bytes | None) -> None:
            then(parts[0] or None if parts else None, failure)

        job = self._job(refs.keep, live, f"the save of a ref of {node}", 1)
        self._send(Errand(job, f"the save of a ref of {node}", most_deaths, told))

    def update(self, updates: Updates, most_deaths: int, then: Replied) -> None:
        """Compute new values of task variables with functions of users, in a worker. The same holds for the deaths of
        workers."""
        job = self._job(variables.apply, msgspec.msgpack.encode(updates), "an update of variables", updates.parts)
        nodes = ", ".join([node for node, _ in updates.tasks])
        self._send(Errand(job, f"the update of variables by {nodes}", most_deaths, then))

    def delegate(self, runs: delegated_runs.Delegation, then: Reported) -> int:
        """Have a worker continue runs. Returns a number for `give_up`."""
        job = self._job(delegated_runs.drive, delegated_runs.encode(runs), f"{len(runs.runs)} runs that were woken", 1)
        self._delegated[job.token] = (len(runs.runs), then)
        self._pool.start(job)
        return job.token

    def give_up(self, token: int) -> None:
        """The worker that has these runs shall not continue them, if it still has them."""
        if token in self._delegated:
            self._pool.stop(token)

    def _job(self, function: Any, argument: bytes, title: str, parts: int) -> Job:
        return Job(next(self._tokens), self._ship(function), title, pickle.dumps(((argument,), {})), parts=parts)

    def _send(self, errand: Errand) -> None:
        self._under_way[errand.job.token] = errand
        self._pool.start(errand.job)

    def came_back(self, token: int, report: Report) -> None:
        """The outcome of an errand or a delegation."""
        if token in self._delegated:
            self._delegated_came_back(token, report)
            return
        errand = self._under_way.pop(token)
        match report:
            case Finished():
                errand.then(report.parts, None)
                return
            case Raised(_, failure):
                errand.then((), failure)
                return
            case Died(_, _, status, "certain"):
                errand.deaths += 1
                if errand.deaths >= errand.most_deaths:
                    errand.then((), dump(WorkerDied(errand.task, status, errand.deaths), "the engine"))
                    return
        errand.job.token = next(self._tokens)
        self._send(errand)

    def _delegated_came_back(self, token: int, report: Report) -> None:
        _, then = self._delegated.pop(token)
        match report:
            case Finished(_, [bytes() as encoded]):
                then(delegated_runs.decode_report(encoded))
            case _:  # perhaps it was the fault of one of them
                then(None)
