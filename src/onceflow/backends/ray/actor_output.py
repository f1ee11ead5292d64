"""Output and logs of a user's actor, on their way to the engine.

It is captured as in any worker (`local.output_sender`, `local.output_receiver`), but both ends are in the actor's
process: a thread there brings what it finds to the keeper, which passes it on to the engine. What was printed in a call
is with the keeper before the call is answered, so it is not lost with an actor that ends when it is no longer needed.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import Any

import ray

from onceflow.backends.local.output_receiver import Capture, Event, merged
from onceflow.backends.local.output_sender import Channel, Streams, take_over
from onceflow.backends.local.reports import STANDARD, Printed
from onceflow.backends.ray import messages
from onceflow.backends.ray.store import LOST
from onceflow.data.packets import pair
from onceflow.values import secret_masks


class Outlet:
    def __init__(self, keeper: Any, log_level: int) -> None:
        self._keeper = keeper
        ours, theirs = pair()
        pipes = [os.pipe(), os.pipe()]
        for reader, _ in pipes:
            os.set_blocking(reader, False)
        take_over(writer for _, writer in pipes)
        streams = dict(zip([reader for reader, _ in pipes], STANDARD, strict=True))
        self._sent = memoryview(bytearray(8)).cast("Q")
        self._channel = Channel(theirs, self._sent, streams)
        self._capture = Capture(ours, streams)
        self._passed = 0
        """Messages that the keeper has."""
        self._passing = threading.Condition()
        secret_masks.listeners.append(self._channel.hide)
        os.register_at_fork(after_in_child=self._channel.become_copy)
        self._streams = Streams(self._channel, log_level)
        threading.Thread(target=self._pass_on, name="onceflow outlet", daemon=True).start()

    def speak_for(self, token: int) -> None:
        """What is printed from now on counts as this job's; with 0, as no job's."""
        self._streams.end(self._channel.lane)
        self._channel.lane = token

    def flush(self) -> None:
        """Returns when the keeper has all that jobs have had printed until now."""
        sent = self._sent[0]
        with self._passing:
            self._passing.wait_for(lambda: self._passed >= sent)

    def _pass_on(self) -> None:
        arrival = select.poll()
        for source in (self._capture.channel.connection.fileno(), *self._capture.pipes):
            arrival.register(source, select.POLLIN)
        while True:
            arrival.poll()
            events: list[Event] = self._capture.hear()[0]
            events += self._capture.read_all(self._channel.lane, self._sent[0])
            pieces = merged([event for event in events if isinstance(event, Printed)])
            if pieces:
                with contextlib.suppress(*LOST):  # this process ends with the keeper
                    ray.get(self._keeper.tell.remote(messages.encode(pieces)))
            with self._passing:
                self._passed = self._capture.received
                self._passing.notify_all()
