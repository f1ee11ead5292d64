"""Looking into runs that another engine drives."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from onceflow import Engine, task
from onceflow.engine.handles import RunHandle
from onceflow.engine.inspect.overview import Overview
from onceflow.engine.peers import client, messages, server
from onceflow.engine.peers.server import MOST_CONNECTIONS
from onceflow.runs import Event, Progress, TaskInfo
from onceflow.storage import sockets
from onceflow.storage.home import ENGINES
from tests.engine.common import add, keep, pass_door, walk
from tests.helpers.doors import Door
from tests.helpers.scripts import kill, started
from tests.helpers.waiting import until

SCRIPT = """
import sys
from tests.engine.test_asking import walk
from tests.engine.common import keep
from onceflow import run
run(keep.bind(walk.bind(sys.argv[1])), name="walk")
"""


@task
def fail(text: str) -> None:
    raise ValueError(text)


@pytest.fixture
def other(home: Path) -> Iterator[Engine]:
    """Another engine on the same home. Engines of one process know no more of each other than those of two."""
    made = Engine(home, workers=1)
    yield made
    made.close()


def infos(engine: Engine, run: str) -> dict[str, TaskInfo]:
    return {info.id: info for info in engine.list_tasks(run)}


def test_a_run_of_another_process_tells_what_runs_there_and_how_far(tmp_path: Path, door: Door) -> None:
    with started(tmp_path, SCRIPT, door.path) as process:
        door.wait()
        with Engine(tmp_path / "home", workers=1) as engine:
            until(lambda: infos(engine, "walk")["walk"].progress is not None)
            seen = infos(engine, "walk")
            assert (seen["walk"].state, seen["walk"].progress) == ("running", Progress(1, 4, "miles"))
            assert seen["walk"].started is not None
            assert (seen["keep"].state, seen["keep"].reason) == ("waiting", "waits for walk")
            assert all(info.live for info in seen.values())
            # and when its engine is dead, it says that it does not know
            kill(process)
            seen = infos(engine, "walk")
            assert (seen["walk"].state, seen["walk"].live) == ("ready", False)


def test_an_overview_tells_numbers_and_what_runs(engine: Engine, other: Engine, door: Door) -> None:
    handle = engine.run_async(add.bind(keep.bind(1), walk.bind(door.path)))
    door.wait()
    for asked in (engine, other):
        until(lambda asked=asked: asked.survey(handle.id).counts == {"done": 1, "running": 1, "waiting": 1})
        seen = asked.survey(handle.id)
        assert [task.id for task in seen.running] == ["walk"]
        assert [(task.id, task.reason) for task in seen.others] == [("add", "waits for walk")]
        assert (seen.total, seen.finished, seen.live) == (3, 1, True)
    handle.cancel()
    seen = other.survey(handle.id)
    assert (seen.counts, seen.live) == ({"done": 1, "waiting": 2}, False)


def test_events_of_a_run_that_is_driven_elsewhere(engine: Engine, other: Engine, door: Door) -> None:
    # given
    handle = engine.run_async(keep.bind(pass_door.bind(door.path)))
    door.wait()
    # when
    elsewhere = other.resume_async(handle.id)
    until(lambda: len(engine._hub.find(handle.id).feeds) == 2)  # type: ignore[union-attr]
    door.open()
    told = [(event.kind, event.task or event.detail) for event in elsewhere]
    # then
    assert told == [("finished", "pass_door"), ("started", "keep"), ("finished", "keep"), ("status", "succeeded")]
    assert elsewhere.result(60) == "through"


def test_events_of_an_engine_that_dies_are_followed_by_those_of_its_successor(tmp_path: Path, door: Door) -> None:
    with started(tmp_path, SCRIPT, door.path) as process:
        door.wait()
        with Engine(tmp_path / "home", workers=1) as engine:
            handle = engine.resume_async("walk")
            kill(process)
            door.wait()
            door.open()
            kinds = [(event.kind, event.task) for event in handle if event.kind != "progress"]
            assert kinds[-5:] == [
                ("started", "walk"),
                ("finished", "walk"),
                ("started", "keep"),
                ("finished", "keep"),
                ("status", ""),
            ]
            assert handle.result(60) == "there"


def test_who_cannot_be_heard_is_said_to_be(engine: Engine, other: Engine, door: Door, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise client.NotAnswered("it is deaf")

    monkeypatch.setattr(client, "Events", refuse)
    handle = engine.run_async(pass_door.bind(door.path))
    door.wait()
    events = iter(other.resume_async(handle.id))
    said = next(events)
    assert (said.kind, said.detail) == ("unheard", "it is deaf")
    door.open()
    assert list(events) == []


def test_a_run_that_has_moved_is_found_again(engine: Engine, other: Engine, monkeypatch) -> None:
    """Between the look at the journal and the question the run ends."""
    handle = engine.run_async(keep.bind(1))
    handle.result(60)
    row = other._listing.row(handle.id)
    stale = msgspec.structs.replace(row, status="running")
    monkeypatch.setattr(other._listing, "row", _first(stale, row))
    assert infos(other, handle.id)["keep"].state == "done"


def _first(first: object, then: object):
    answers = iter([first])
    return lambda _: next(answers, then)


# -- whoever asks cannot do harm ---------------------------------------------------------------------------------------


@pytest.fixture
def raw(engine: Engine, home: Path) -> Iterator[socket.socket]:
    with connected(engine, home) as connection:
        yield connection


def connected(engine: Engine, home: Path) -> socket.socket:
    return sockets.connect(home / ENGINES, engine._home.engine, 30)


def answer(connection: socket.socket) -> messages.Answer | None:
    received = bytearray()
    while (message := messages.take(received, messages.MOST_ANSWERED)) is None:
        some = connection.recv(65536)
        if not some:
            return None
        received += some
    said: messages.Answer = messages.decode(message, messages.Answer)  # type: ignore[arg-type]
    return said


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def message(version: int, body: object) -> bytes:
    return framed(msgspec.msgpack.encode({"version": version, "body": body}))


@pytest.mark.parametrize(
    "said",
    [
        framed(b""),
        framed(b"\xc1nonsense"),
        framed(msgspec.msgpack.encode([1, 2])),
        framed(b"\x91" * 60_000),
        struct.pack(">I", messages.MOST_ASKED + 1) + b"x",
        message(messages.VERSION + 1, {"type": "describe", "run": "r"}),
        message(messages.VERSION, {"type": "explode", "run": "r"}),
        message(messages.VERSION, {"type": "describe", "run": 3}),
    ],
)
def test_what_is_not_understood_is_refused(engine: Engine, raw: socket.socket, said: bytes) -> None:
    raw.sendall(said)
    refused = answer(raw)
    assert isinstance(refused, messages.Refused)
    assert refused.why == "unable"
    assert engine.run(keep.bind(1)) == 1


def test_a_run_that_is_not_driven_there(engine: Engine, raw: socket.socket, home: Path) -> None:
    for request in (messages.Describe("none"), messages.Survey("none"), messages.Follow("none")):
        with connected(engine, home) as connection:
            connection.sendall(messages.encode(request))
            assert answer(connection) == messages.Refused("elsewhere")


def test_a_request_may_come_byte_by_byte(engine: Engine, raw: socket.socket) -> None:
    for byte in messages.encode(messages.Describe("none")):
        raw.sendall(bytes([byte]))
    assert answer(raw) == messages.Refused("elsewhere")


def test_who_says_more_than_a_request_is_not_listened_to(engine: Engine, raw: socket.socket, door: Door) -> None:
    handle = engine.run_async(pass_door.bind(door.path))
    raw.sendall(messages.encode(messages.Follow(handle.id)))
    assert answer(raw) == messages.Told([])
    raw.sendall(b"and another thing")
    assert raw.recv(1) == b""
    door.open()
    handle.result(60)


def test_there_may_be_many_who_say_nothing(engine: Engine, home: Path) -> None:
    crowd = [connected(engine, home) for _ in range(MOST_CONNECTIONS + 8)]
    try:
        until(lambda: len(answering_of(engine)._connections) == MOST_CONNECTIONS)
        assert engine.run(keep.bind(1)) == 1
    finally:
        for connection in crowd:
            connection.close()
    until(lambda: not answering_of(engine)._connections)


def answering_of(engine: Engine) -> server.Answering:
    found: server.Answering = engine._hub.server  # type: ignore[attr-defined]
    return found


def test_who_dawdles_is_dropped(engine: Engine, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.0)
    monkeypatch.setattr(server, "SWEEP", 0.01)
    with connected(engine, home) as connection:
        assert connection.recv(1) == b""


def test_who_does_not_read_misses_events_and_is_told_so(
    engine: Engine, raw: socket.socket, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given somebody who follows a run and reads nothing
    monkeypatch.setattr(server, "MOST_KEPT", 1000)
    handle: RunHandle[str] = engine.run_async(pass_door.bind(door.path))
    raw.sendall(messages.encode(messages.Follow(handle.id)))
    assert answer(raw) == messages.Told([])
    # when more happens than the socket holds
    completion = engine._hub.find(handle.id)
    assert completion is not None
    for number in range(10_000):
        engine._hub._loop.post(lambda number=number: completion.tell("status", detail=f"{number}" * 10))
    door.open()
    handle.result(60)
    # then the rest is counted
    received = bytearray()
    while some := raw.recv(65536):
        received += some
    events: list[Event] = []
    while (body := messages.take(received, messages.MOST_ANSWERED)) is not None:
        told = messages.decode(body, messages.Told)
        events += told.events
    missed = sum(int(event.detail) for event in events if event.kind == "missed")
    assert missed > 0
    assert len([event for event in events if event.kind == "status"]) + missed >= 10_000


def test_an_answer_that_is_too_long_is_refused(
    engine: Engine, other: Engine, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MOST_ANSWERED", 100)
    handle = engine.run_async(pass_door.bind(door.path))
    door.wait()
    with pytest.raises(client.NotAnswered, match="too long"):
        client.describe(other._home.path, engine._home.engine, handle.id)
    assert not infos(other, handle.id)["pass_door"].live
    door.open()
    handle.result(60)


def test_trouble_while_answering_ends_the_connection_and_nothing_else(
    engine: Engine,
    home: Path,
    raw: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def break_down(_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(answering_of(engine), "_answer_to", break_down)
    for connection in [raw, *[connected(engine, home) for _ in range(5)]]:  # some are answered later than asked
        connection.sendall(messages.encode(messages.Describe("any")))
        assert answer(connection) is None
        connection.close()
    assert engine.run(keep.bind(1)) == 1
    assert caplog.text.count("could not be answered") == 6


def test_an_engine_without_descriptors_goes_on(engine: Engine, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    failures = iter([OSError(24, "Too many open files")])
    accept = engine._home.listener.accept  # type: ignore[attr-defined]

    def fail_once() -> socket.socket | None:
        for error in failures:
            raise error
        found: socket.socket | None = accept()
        return found

    monkeypatch.setattr(server, "TROUBLE", 0.01)
    monkeypatch.setattr(engine._home.listener, "accept", fail_once)  # type: ignore[attr-defined]
    # then whoever has knocked is heard a little later
    with connected(engine, home) as connection:
        connection.sendall(messages.encode(messages.Describe("none")))
        assert answer(connection) == messages.Refused("elsewhere")


def test_the_messages_of_one_version_never_change() -> None:
    """Engines of several versions of onceflow may share a home directory. What an older one says is understood."""
    asked = message(1, {"type": "survey", "run": "r"})
    assert messages.decode(asked[4:], messages.Request) == messages.Survey("r")  # type: ignore[arg-type]
    told = {"type": "told", "events": [{"kind": "finished", "task": "t", "something new": 1}]}
    assert messages.decode(message(1, told)[4:], messages.Told) == messages.Told([Event("finished", "t")])
    overview = Overview({"done": 3}, [TaskInfo("a", "a", "running", "none", False, progress=Progress(1, 2))], [])
    encoded = messages.encode(messages.Surveyed(overview))
    assert messages.decode(encoded[4:], messages.Surveyed) == messages.Surveyed(overview)


def test_nothing_is_left_when_engines_are_closed(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        connection = connected(engine, tmp_path / "home")
    assert connection.recv(1) == b""
    connection.close()
    assert os.listdir(tmp_path / "home" / ENGINES) == []
