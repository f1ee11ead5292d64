"""Messages of workers to a pool: outcomes of their jobs, jobs given back, and requests of jobs."""

from __future__ import annotations

import time
from collections.abc import Callable

from onceflow.backends.local.dispatch import Dispatcher
from onceflow.backends.local.live_publishing import Publishing
from onceflow.backends.local.locality import Homes
from onceflow.backends.local.messages import (
    Definition,
    FromWorker,
    Host,
    Outcome,
    Outcomes,
    Read,
    Returned,
    Told,
    Wanted,
)
from onceflow.backends.local.output_relay import Listening
from onceflow.backends.local.reports import Ended, Report, report_of
from onceflow.backends.local.workers import Worker
from onceflow.data.objects import Shelf

Ask = Callable[[int, str, Callable[[bytes | None], None]], None]
"""Passes on a job's question (by its token) for a value by name."""

Define = Callable[[str, Callable[[bytes | None], None]], None]


class WorkerMessages:
    """`report` and those behind it are as the pool has them. `over` gets a worker that has nothing left but a job that
    was stopped: the end of that is reported with the worker's."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        homes: Homes,
        shelf: Shelf,
        listening: Listening,
        publishing: Publishing,
        *,
        report: Callable[[Report], None],
        over: Callable[[Worker], None],
        grace: float,
        missing: Callable[[list[int]], None] | None,
        variable: Ask | None,
        define: Define,
        asked_for_host: Callable[[Host, int], None] | None,
    ) -> None:
        self._dispatcher = dispatcher
        self._homes = homes
        self._shelf = shelf
        self._listening = listening
        self._publishing = publishing
        self._report = report
        self._over = over
        self._grace = grace
        self._missing = missing
        self._variable = variable
        self._define = define
        self._asked_for_host = asked_for_host
        self.withdrawn: set[int] = set()
        """Tokens of jobs that workers have and that shall not start."""
        self.returned = 0
        """Jobs that workers have given back."""

    def handle(self, worker: Worker, message: FromWorker, descriptors: tuple[int, ...] = ()) -> None:
        match message:
            case Outcomes(outcomes):
                if outcomes:
                    worker.heard = time.monotonic()
                self._listening.catch_up(worker)
                for segment, descriptor in zip(message.segments, descriptors, strict=True):
                    self._shelf.open(segment, descriptor, worker.pid)
                worker.note_lingering(message.number, message.lingering, self._shelf)
                if message.closed:
                    self._shelf.give_up(worker.pid, message.closed)
                for published in message.published:
                    self._publishing.answered(published)
                for outcome in outcomes:
                    self._ended(worker, outcome)
            case Returned(number, tokens):
                worker.answered = worker.recalled is not None and number == worker.recalls
                self.returned += len(tokens)
                for token in tokens:
                    self.give_back(worker, token)
            case Read(number, token, name):
                if token in self._dispatcher.holders and self._variable is not None:
                    self._variable(token, name, lambda value: worker.tell(Told(number, value)))
                else:
                    worker.tell(Told(number, None, known=False))
            case Wanted(name):
                self._define(name, lambda payload: worker.tell(Definition(name, payload)))
            case Host():
                assert self._asked_for_host is not None
                self._asked_for_host(message, descriptors[0] if descriptors else -1)

    def _ended(self, worker: Worker, outcome: Outcome) -> None:
        token = outcome.token
        if worker.shared or worker.capture.rests:  # seldom
            self._listening.end(worker, token)
        if outcome.cancelled and not _leaves_worker_clean(worker, outcome):
            worker.retired = True
            if worker.has_nothing_but(token):
                worker.stopping.setdefault(token, time.monotonic() + self._grace)
                worker.over = token
                self._over(worker)
                return
        given = worker.take(token)
        self.withdrawn.discard(token)
        worker.retired = worker.retired or bool(worker.host)  # it was for this job alone
        if self._homes.readers:
            self._homes.forget(token)
        del self._dispatcher.holders[token]
        assert given is not None
        if outcome.gone and self._missing is not None:
            self._missing(outcome.gone)
        if outcome.skipped:
            self._report(Ended(token, started=False))
            return
        if given.place and not outcome.cancelled and not worker.was_hurried(given):
            self._dispatcher.estimates.learn(given.job.function, outcome.ended - outcome.started)
        if outcome.cancelled:
            self._report(Ended(token, started=True))
        else:
            self._report(report_of(outcome, self._shelf, worker.pid))

    def give_back(self, worker: Worker, token: int) -> None:
        """The worker has not started this job and will not."""
        stopped = token in worker.stopping or token in self.withdrawn
        self.withdrawn.discard(token)
        given = worker.take(token)
        del self._dispatcher.holders[token]
        assert given is not None
        if stopped or given.job.follows:
            self._homes.forget(token)
            self._report(Ended(token, started=False))
        elif not self._homes.take_back(token):
            self._dispatcher.put_back(given.job)


def _leaves_worker_clean(worker: Worker, outcome: Outcome) -> bool:
    """Whether a worker can go on as if the stopped job had never been there. An exception that comes out of nowhere may
    have left locks held and things half done; and processes may be left that the job started."""
    return outcome.token in worker.shared and worker.shared[outcome.token].job.is_async and not outcome.children
