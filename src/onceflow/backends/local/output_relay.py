"""What jobs print, log and report of their progress, on its way from the workers to its listeners.

Channels and pipes of the workers are watched by the pool's selector (`output_receiver` has the theory). A pipe is not
read here while a job has only just begun: its worker empties it at the end of each job, and a short one might be over
while its pipe is read, so that what is found is another's.
"""

from __future__ import annotations

import contextlib
import functools
import selectors
import socket
import time
from collections.abc import Callable, Container

import msgspec

from onceflow.backends.local.output_receiver import Event, merged
from onceflow.backends.local.reports import Printed, Progressed
from onceflow.backends.local.workers import Worker

SLOW = 0.05
"""Seconds after which what a job has written past Python's streams is looked for while it runs."""


class Listening:
    """`known` are the tokens of jobs that have not been reported: output of others belongs to no job."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        known: Container[int],
        printed: Callable[[list[Printed]], None] | None,
        progressed: Callable[[Progressed], None] | None,
    ) -> None:
        self._selector = selector
        self._known = known
        self._printed = printed
        self._progressed = progressed
        self._workers: set[Worker] = set()
        self._hosts: set[Worker] = set()
        """Those in which actors live. They speak for the jobs that call them."""
        self.due: dict[int, tuple[Worker, float]] = {}
        """Pipes that have something in them, and when they are read."""

    def add(self, worker: Worker) -> None:
        self._workers.add(worker)
        if worker.host:
            self._hosts.add(worker)
        channel = worker.capture.channel.connection
        self._selector.register(channel, selectors.EVENT_READ, functools.partial(self._heard, worker))
        for pipe in worker.capture.pipes:
            self._watch(worker, pipe)

    def remove(self, worker: Worker) -> None:
        self._workers.discard(worker)
        self._hosts.discard(worker)
        self._unwatch(worker.capture.channel.connection)
        for pipe in worker.capture.pipes:
            self._unwatch(pipe)
            self.due.pop(pipe, None)

    def turn(self, now: float) -> list[float]:
        """Reads what is due. Returns when more will be."""
        for pipe, (worker, due) in list(self.due.items()):
            if due <= now:
                del self.due[pipe]
                if self._read(worker, pipe):
                    self._watch(worker, pipe)
        return [due for _, due in self.due.values()]

    def catch_up(self, worker: Worker) -> None:
        """Passes on what a worker had to say before it reported outcomes, and actors that its jobs have called."""
        for speaker in (worker, *self._hosts):
            if (sent := speaker.sent) > speaker.capture.received:
                self._pass_on(speaker.capture.hear(sent)[0])

    def end(self, worker: Worker, token: int) -> None:
        """Passes on the rest of what a job has written that is about to be reported."""
        capture = worker.capture
        if not worker.shared and not capture.rests:  # as mostly
            return
        if capture.pipes and token in worker.shared and worker.printing == token:
            self._pass_on(capture.read_all(token, worker.sent))
        if capture.rests:
            self._pass_on(capture.finish(token))

    def drain(self, worker: Worker) -> None:
        """Passes on all that a worker has left behind."""
        self._pass_on(worker.capture.remaining(worker.printing))

    def _heard(self, worker: Worker) -> None:
        """Its channel has something to read."""
        connection = worker.capture.channel.connection
        if connection.fileno() >= 0:
            events, is_open = worker.capture.hear()
            if not is_open:
                self._unwatch(connection)
            self._pass_on(events)

    def _heard_pipe(self, worker: Worker, pipe: int) -> None:
        if worker not in self._workers:  # removed by another callback of the same turn of the loop
            return
        age = time.time() - worker.started
        if age < SLOW:
            self._unwatch(pipe)
            self.due[pipe] = (worker, time.monotonic() + SLOW - max(0.0, age))
        elif not self._read(worker, pipe):
            self._unwatch(pipe)

    def _read(self, worker: Worker, pipe: int) -> bool:
        """Whether there may be more some time."""
        events, is_open = worker.capture.read(pipe, worker.printing, worker.sent)
        self._pass_on(events)
        return is_open

    def _pass_on(self, events: list[Event]) -> None:
        printed: list[Printed] = []
        for event in events:
            if isinstance(event, Printed):
                known = not event.token or event.token in self._known
                printed.append(event if known else msgspec.structs.replace(event, token=0))
            elif self._progressed is not None and event.token in self._known:
                self._progressed(event)
        if printed and self._printed is not None:
            self._printed(merged(printed))

    def _watch(self, worker: Worker, pipe: int) -> None:
        self._selector.register(pipe, selectors.EVENT_READ, functools.partial(self._heard_pipe, worker, pipe))

    def _unwatch(self, descriptor: int | socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):  # it is not watched, or is closed already
            self._selector.unregister(descriptor)
