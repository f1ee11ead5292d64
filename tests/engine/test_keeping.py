"""Large values while nobody reads them: saved, and moved to disk, by the porter."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from onceflow import Engine, put, task
from onceflow.backends.local.forkserver import PORTER
from tests.tools.chaos.kills import children, name_of

MB = 1_000_000


@task.pure
def produce(number: int) -> Any:
    return numpy.full(MB, number, numpy.uint8)


@task.pure
def together(*arrays: Any) -> list[int]:
    return [int(array[0]) + len(array) for array in arrays]


@task
def saved(number: int) -> Any:
    return numpy.full(MB, number, numpy.uint8)


@task(can_rollback=True)
def kill_porter(first: Any, pid: int) -> Any:
    for porter in porters(pid):
        os.kill(porter, signal.SIGKILL)
    return first


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Engine]:
    """An engine with little memory for large values."""
    with Engine(tmp_path / "home", workers=2, object_memory=5 * MB) as engine:
        yield engine


def porters(engine: int) -> list[int]:
    return [child for server in children(engine) for child in children(server) if name_of(child) == PORTER]


def moved(engine: Engine) -> int:
    objects = engine.statistics().objects
    return 0 if objects is None else objects.moved


@task.pure
def pass_gate(path: str) -> int:
    with open(path) as gate:  # a named pipe: opened when somebody opens the other end
        gate.read()
    return 0


@task.pure
def read(gate: int, *arrays: Any) -> list[int]:
    return [int(array[0]) for array in arrays]


def run_and_wait_until_moved(engine: Engine, size: int, gate: Path, count: int) -> list[int]:
    """What tasks read that start when so many bytes have been moved to disk."""
    os.mkfifo(gate)
    arrays = [produce.bind(number) for number in range(count)]
    handle = engine.run_async(read.bind(pass_gate.bind(str(gate)), *arrays))
    while moved(engine) < size:
        os.sched_yield()
    gate.open("w").close()
    return handle.result()


def test_what_has_no_room_in_memory_comes_back_from_disk(small: Engine, tmp_path: Path) -> None:
    assert run_and_wait_until_moved(small, 10 * MB, tmp_path / "gate", 20) == list(range(20))
    assert list((small.settings.home / "spill").iterdir()) == []


@task.pure
def add_up(gate: int, *arrays: Any) -> list[int]:
    return [int(array.sum()) for array in arrays]


def damage_spill_file() -> None:
    """Flips a bit of each object that was moved to disk."""
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        with contextlib.suppress(OSError):
            if "/spill/" in os.readlink(path):
                with open(path, "r+b", buffering=0) as file:
                    for offset in range(MB // 2, os.fstat(file.fileno()).st_size, MB // 2):
                        (byte,) = os.pread(file.fileno(), 1, offset)
                        os.pwrite(file.fileno(), bytes([byte ^ 1]), offset)
                return
    raise AssertionError("there is no spill file")


def test_what_was_damaged_on_disk_is_made_anew(small: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    handle = small.run_async(add_up.bind(pass_gate.bind(str(gate)), *[produce.bind(number) for number in range(20)]))
    while moved(small) < 10 * MB:
        os.sched_yield()
    damage_spill_file()
    gate.open("w").close()
    assert handle.result() == [number * MB for number in range(20)]
    assert "was moved to disk is damaged" in caplog.text


def test_what_waits_for_too_long_is_moved_to_disk(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=2, object_patience=0) as engine:
        assert run_and_wait_until_moved(engine, 2 * MB, tmp_path / "gate", 2) == [0, 1]


def test_nothing_of_it_is_left_when_the_engine_is_closed(tmp_path: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    with Engine(tmp_path / "home", workers=2, object_memory=5 * MB) as engine:
        engine.run(together.bind(*[saved.bind(number) for number in range(10)]))
        assert porters(os.getpid())
    assert not porters(os.getpid())
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_when_the_porter_is_killed_what_it_was_saving_is_saved_by_the_next_one(small: Engine) -> None:
    @task
    def collect(*arrays: Any) -> list[int]:
        return [int(array[0]) for array in arrays]

    small.run(saved.bind(1))
    before = porters(os.getpid())
    killed = [kill_porter.bind(saved.bind(number), os.getpid()) for number in range(6)]
    assert small.run(collect.bind(*killed)) == list(range(6))
    assert before
    assert porters(os.getpid()) != before


def test_attempts_wait_while_saving_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onceflow.engine.runtime import object_budget

    monkeypatch.setattr(object_budget, "BEHIND", MB // 2)
    paused: list[bool] = []
    original = object_budget.Keeping._note_saving

    def note(self: Any, size: int) -> None:
        original(self, size)
        paused.append(self._pool.paused)

    monkeypatch.setattr(object_budget.Keeping, "_note_saving", note)
    with Engine(tmp_path / "home", workers=2, object_memory=MB) as engine:
        firm = saved.options(can_rollback=True)
        assert engine.run(together.bind(*[firm.bind(number) for number in range(20)]))[3] == 3 + MB
    assert True in paused
    assert not paused[-1]


def test_a_full_disk_keeps_values_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on; nothing is lost."""
    home = tmp_path / "home"
    with Engine(home, workers=2, object_memory=2 * MB) as engine:
        (home / "spill").write_text("not a folder")  # nothing can be moved there
        arrays = [put(numpy.full(MB, number, numpy.uint8)) for number in range(8)]

        @task.pure
        def total(found: list[Any]) -> int:
            return sum(int(one.get()[0]) for one in found)

        assert engine.run(total.bind(arrays)) == 28
