"""The pool's side of reports beside outcomes (see `output_sender` for the other side, and the theory)."""

from __future__ import annotations

import os
import select
import socket
import time

from onceflow.backends.local.messages import Beside, Hidden, Output, Progress, Receiver
from onceflow.backends.local.output_sender import CHUNK
from onceflow.backends.local.reports import Printed, Progressed, Stream
from onceflow.values import secret_masks

MESSAGES = 64
"""How many are read before others get their turn."""

Event = Printed | Progressed


class Capture:
    """The channel and the pipes of one worker. Nothing here blocks."""

    def __init__(self, connection: socket.socket, pipes: dict[int, Stream]) -> None:
        connection.setblocking(False)
        self.channel: Receiver[Beside] = Receiver(connection, Beside)
        self.pipes = pipes
        """Reading end → the stream it belongs to."""
        self.received = 0
        """Messages."""
        self.rests: dict[Stream, tuple[int, bytes]] = {}
        """Of each pipe, the beginning of a line, and whose it is."""
        self._poll = select.poll()
        for pipe in pipes:
            self._poll.register(pipe, select.POLLIN)

    def hear(self, until: int | None = None) -> tuple[list[Event], bool]:
        """What the next messages say, up to the one with this number, and whether there may be more some time."""
        events: list[Event] = []
        most = MESSAGES if until is None else until - self.received
        for _ in range(most):
            try:
                received = self.channel.receive()
            except BlockingIOError:
                break
            if received is None:
                return events, False
            self.received += 1
            self._take(received[0], events)
        return events, True

    def read(self, pipe: int, token: int, sent: int) -> tuple[list[Event], bool]:
        """What is in a pipe, and whether there may be more some time. It comes after the messages that were sent before
        it was read."""
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:  # the worker was quicker
            return [], True
        events, _ = self.hear(sent)
        self._add(events, token, self.pipes[pipe], data)
        return events, bool(data)

    def read_all(self, token: int, sent: int) -> list[Event]:
        """What is in all pipes."""
        events: list[Event] = []
        for pipe, _ in self._poll.poll(0) if self.pipes else ():
            events += self.read(pipe, token, sent)[0]
        return events

    def remaining(self, token: int) -> list[Event]:
        """All that a worker has left behind. What is in the pipes is this job's."""
        events: list[Event] = []
        while True:
            more, is_open = self.hear()
            events += more
            if not more or not is_open:
                break
        events += self.read_all(token, self.received)
        for stream in list(self.rests):
            self._flush(stream, events)
        return events

    def finish(self, token: int) -> list[Event]:
        """The rest of what this job wrote. Whatever it was to write is there already."""
        events: list[Event] = []
        for stream, (whose, _) in list(self.rests.items()):
            if whose == token:
                self._flush(stream, events)
        return events

    def close(self) -> None:
        self.channel.connection.close()
        for pipe in self.pipes:
            os.close(pipe)

    def _take(self, message: Beside, events: list[Event]) -> None:
        match message:
            case Progress(token, done, total, note):
                events.append(Progressed(token, done, total, secret_masks.mask(note)))
            case Hidden(texts):
                secret_masks.learn(texts)
            case Output(token, stream, data) if message.raw:
                self._add(events, token, stream, data)
            case Output(token):
                events += self.finish(token)
                events.append(printed(message))

    def _add(self, events: list[Event], token: int, stream: Stream, data: bytes) -> None:
        whose, rest = self.rests.get(stream, (token, b""))
        if whose != token:
            self._flush(stream, events)
            rest = b""
        whole = rest + data
        cut = len(whole) - secret_masks.uncertain(whole) if len(whole) > CHUNK else whole.rfind(b"\n") + 1
        if cut:
            text = secret_masks.mask_bytes(whole[:cut]).decode(errors="replace")
            events.append(Printed(token, stream, text, time.time()))
        self.rests.pop(stream, None)
        if cut < len(whole):
            self.rests[stream] = (token, whole[cut:])

    def _flush(self, stream: Stream, events: list[Event]) -> None:
        token, rest = self.rests.pop(stream)
        events.append(Printed(token, stream, secret_masks.mask_bytes(rest).decode(errors="replace"), time.time()))


def printed(output: Output) -> Printed:
    """What a worker has reported, in the form for others."""
    text = output.data.decode(errors="replace")
    return Printed(output.token, output.stream, text, output.time, output.level, output.logger)


def merged(events: list[Printed]) -> list[Printed]:
    """The same, with as few members as possible. Records of `logging` stay apart."""
    result: list[Printed] = []
    for event in events:
        last = result[-1] if result else None
        if last is not None and last.stream == event.stream != "log" and last.token == event.token:
            result[-1] = Printed(last.token, last.stream, last.text + event.text, last.time)
        else:
            result.append(event)
    return result
