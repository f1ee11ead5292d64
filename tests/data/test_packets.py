"""Packets: everything arrives, in order, with its descriptor, and nobody waits."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator

import msgspec
import pytest

from onceflow.data import packets
from onceflow.data.packets import DESCRIPTORS, Incoming, Outgoing
from tests.data.common import descriptors


class Note(msgspec.Struct, tag=1, array_like=True):
    number: int
    text: str = ""
    described: bool = False


class Way:
    """From one end to the other."""

    def __init__(self) -> None:
        self.near, self.far = packets.pair()
        for end in (self.near, self.far):
            end.setblocking(False)
        self.outgoing = Outgoing(self.near)
        self.incoming: Incoming[Note] = Incoming(self.far, Note)

    def receive_all(self) -> list[tuple[Note, int | None]]:
        received = []
        while messages := self.incoming.receive():
            received += messages
        return received


@pytest.fixture
def way() -> Iterator[Way]:
    made = Way()
    yield made
    made.outgoing.close()
    made.near.close()
    made.far.close()


def memory(content: bytes) -> int:
    descriptor = os.memfd_create("test")
    os.write(descriptor, content)
    return descriptor


def test_messages_arrive_in_order_and_many_at_once(way: Way) -> None:
    for number in range(100):
        way.outgoing.add(Note(number))

    assert way.outgoing.send()

    received = way.incoming.receive()
    assert received == [(Note(number), None) for number in range(100)]
    assert way.incoming.receive() == []


def test_what_does_not_fit_is_sent_when_there_is_room(way: Way) -> None:
    for number in range(200):
        way.outgoing.add(Note(number, "x" * 10_000))

    received: list[int] = []
    rounds = 0
    while not way.outgoing.send():
        rounds += 1
        received += [note.number for note, _ in way.receive_all()]
    received += [note.number for note, _ in way.receive_all()]

    assert rounds > 1
    assert received == list(range(200))


def test_each_descriptor_arrives_with_its_message(way: Way) -> None:
    before = descriptors()
    for number in range(3 * DESCRIPTORS):
        is_described = number % 3 > 0
        way.outgoing.add(Note(number, "", is_described), memory(b"%d" % number) if is_described else None)

    assert way.outgoing.send()

    received = way.receive_all()
    assert [note.number for note, _ in received] == list(range(3 * DESCRIPTORS))
    for note, descriptor in received:
        assert (descriptor is not None) == note.described
        if descriptor is not None:
            assert os.pread(descriptor, 10, 0) == b"%d" % note.number
            os.close(descriptor)
    assert descriptors() == before


def test_a_descriptor_for_which_there_is_no_room_is_missing(way: Way) -> None:
    for number in range(10):
        way.outgoing.add(Note(number, "", True), memory(b"%d" % number))
    assert way.outgoing.send()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    filler = [os.dup(0) for _ in range(max(map(int, os.listdir("/proc/self/fd"))))]  # no lower one is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(filler) + 4, limits[1]))
    try:
        received = way.receive_all()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in filler:
            os.close(descriptor)

    there = [(note, descriptor) for note, descriptor in received if descriptor is not None]
    assert len(received) == 10
    assert [note.number for note, _ in there] == [0, 1, 2]
    for note, descriptor in there:
        assert os.pread(descriptor, 10, 0) == b"%d" % note.number
        os.close(descriptor)


def test_when_too_many_descriptors_are_under_way_it_is_tried_again() -> None:
    class Crowded:
        is_crowded = True

        def sendmsg(self, *arguments: object) -> None:
            if self.is_crowded:
                raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))

    connection = Crowded()
    outgoing = Outgoing(connection)  # type: ignore[arg-type]
    before = descriptors()
    outgoing.add(Note(1, "", True), memory(b""))

    assert not outgoing.send()
    assert len(outgoing) == 1
    connection.is_crowded = False
    assert outgoing.send()

    assert descriptors() == before


def test_what_was_sent_before_the_end_arrives_before_the_end(way: Way) -> None:
    way.far.send(b"unread")
    way.outgoing.add(Note(1))
    way.outgoing.send()
    way.near.close()

    assert way.incoming.receive() == [(Note(1), None)]
    assert way.incoming.receive() is None


def test_sending_to_nobody_raises(way: Way) -> None:
    way.far.close()
    way.outgoing.add(Note(1))

    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        way.outgoing.send()


def test_closing_lets_go_of_descriptors_that_were_not_sent(way: Way) -> None:
    before = descriptors()
    way.outgoing.add(Note(1, "", True), memory(b""))

    way.outgoing.close()

    assert descriptors() == before
    assert not way.outgoing
