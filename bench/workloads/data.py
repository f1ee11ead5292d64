"""What large values cost: how long they take from task to task, what saving them adds, and how much memory they take.

Limits are what one process needs for the same work, and one `pwrite` of that many bytes into fresh shared memory, all
measured in turns. To see what crossing from worker to worker costs, the bench has the pool prefer the worker that has
been silent for longest; otherwise a consumer goes where its producer was.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

from bench import limits
from bench.rows import Row
from bench.workloads import _measuring
from onceflow import Engine, task
from onceflow.backends.local import dispatch, locality
from onceflow.engine.runtime import pool_executor

KB, MB, GB = 10**3, 10**6, 10**9

ROUNDS = 15
LATENCIES = 200
READERS = 8
PATIENCE = 20
"""Seconds."""
OBJECTS = 10_000
STEPS = 12
"""Tasks of the pipeline that is saved."""
STEP = 0.06
"""Seconds that each of them computes, about."""
STEP_SIZE = 4 * MB
WARM_UP = 0.003
"""Seconds."""


@task.pure
def produce(size: int) -> Any:
    return numpy.arange(size // 8)


@task.pure
def consume(array: Any) -> int:
    return int(array.sum())


@task.pure
def send(size: int) -> Any:
    """Takes so long that the run itself has been saved by then."""
    payload = numpy.zeros(size, numpy.uint8) if size > 1 else b"x"
    end = time.perf_counter() + WARM_UP
    while time.perf_counter() < end:
        pass
    return os.getpid(), payload, time.perf_counter_ns()


@task.pure
def receive(sent: Any) -> tuple[bool, int]:
    now = time.perf_counter_ns()
    return sent[0] != os.getpid(), now - sent[2]


@task.pure
def collect(*sums: int) -> int:
    return sum(sums)


@task.pure
def touch(array: Any) -> Any:
    return array + 1


def work(previous: Any, seconds: float) -> Any:
    """Computes for about this long, and returns some megabytes."""
    value = numpy.ones(STEP_SIZE // 8)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        value = numpy.sqrt(value + 1)
    return value


MODES = {
    "no saves": (False, False),
    "asynchronous saves": (True, False),
    "selective saves, every fourth": (True, False),
    "synchronous saves": (True, True),
}


@contextlib.contextmanager
def crossing() -> Iterator[None]:
    """Whoever has been silent for longest comes first, nobody is at home anywhere, and nothing runs ahead."""
    load, stay, foresee = dispatch._load, locality.STAY, pool_executor.Workers.foresee
    dispatch._load = lambda worker: (worker.load.seconds, worker.heard)  # type: ignore[assignment,return-value]
    locality.STAY = False
    pool_executor.Workers.foresee = lambda *_: None  # type: ignore[method-assign,assignment,return-value]
    try:
        yield
    finally:
        dispatch._load, locality.STAY = load, stay
        pool_executor.Workers.foresee = foresee  # type: ignore[method-assign]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder) / "home", workers=2, output="inherit") as engine:
        for _ in range(3):
            engine.run(collect.bind(*[consume.bind(produce.bind(MB)) for _ in range(4)]))
        return [
            *_latencies(engine),
            *_arrays(engine, 100 * MB, ROUNDS),
            *_arrays(engine, GB, 3),
            *_readers(engine),
            *_saves(engine),
            *_stream(Path(folder)),
        ]


def _latencies(engine: Engine) -> list[Row]:
    rows = []
    with crossing(), tempfile.TemporaryDirectory() as folder, limits.SOCKET.opened(Path(folder)) as trip:
        for size, name, limit in ((1, "1 B", 0.4), (MB, "1 MB", 1.0)):
            found, trips = [], []
            for _ in range(LATENCIES):
                found.append(engine.run(receive.bind(send.bind(size))))
                trips.append(trip() * 1e3)
            crossed = [nanoseconds / 1e6 for elsewhere, nanoseconds in found if elsewhere]
            note = f"{len(crossed)} of {LATENCIES} crossed; p90 {_measuring.percentile(crossed, 90):.2f}"
            rows.append(
                _measuring.most(f"{name}: from return to entry, worker to worker, p50", crossed, "ms", limit, note)
            )
            rows.append(_measuring.most(f"{name}: a round trip to another process meanwhile", trips, "ms"))
        whole = [_seconds(lambda: engine.run(consume.bind(produce.bind(MB)))) * 1e3 for _ in range(LATENCIES)]
    return [*rows, _measuring.most("1 MB: a run of two tasks, worker to worker, p50", whole, "ms", 2.0)]


def _arrays(engine: Engine, size: int, rounds: int) -> list[Row]:
    name = f"{size // MB} MB" if size < GB else f"{size // GB} GB"
    alone, written, apart, together = [], [], [], []
    for _ in range(rounds + 1):
        alone.append(_seconds(lambda: consume.function(produce.function(size))))
        written.append(_pwrite(size))
        together.append(_seconds(lambda: engine.run(consume.bind(produce.bind(size)))))
        with crossing():
            apart.append(_seconds(lambda: engine.run(consume.bind(produce.bind(size)))))
    alone, written, apart, together = alone[1:], written[1:], apart[1:], together[1:]
    floor = statistics.median(alone) + statistics.median(written)
    return [
        _measuring.most(f"{name}: the same work in one process", [one * 1e3 for one in alone], "ms"),
        _measuring.most(f"{name}: one pwrite", [one * 1e3 for one in written], "ms"),
        _measuring.most(f"{name}: two workers", [one * 1e3 for one in apart], "ms"),
        _measuring.most(f"{name}: one worker", [one * 1e3 for one in together], "ms"),
        _ratio(f"{name}: two workers ÷ (one process + one pwrite)", statistics.median(apart) / floor, 1.15),
        _ratio(f"{name}: one worker ÷ one process", statistics.median(together) / statistics.median(alone), 1.1),
    ]


def _readers(engine: Engine) -> list[Row]:
    size = 100 * MB
    alone, written, parallel = [], [], []
    for _ in range(ROUNDS + 1):
        alone.append(_seconds(lambda: _read_in_threads(size)))
        written.append(_pwrite(size))
        parallel.append(_seconds(lambda: engine.run(_read_by_many(size))))
    floor = statistics.median(alone[1:]) + statistics.median(written[1:])
    return [
        _measuring.most(f"100 MB read by {READERS} tasks", [one * 1e3 for one in parallel[1:]], "ms"),
        _ratio(
            f"100 MB: {READERS} tasks ÷ ({READERS} sums on 2 threads + one pwrite)",
            statistics.median(parallel[1:]) / floor,
            1.3,
        ),
        *_copies(engine, size),
    ]


def _read_by_many(size: int) -> Any:
    array = produce.bind(size)
    return collect.bind(*[consume.bind(array) for _ in range(READERS)])


@task.pure
def weigh(array: Any) -> int:
    """Bytes of shared memory in use while the array is read."""
    array.sum()
    return _shared_memory()


def _copies(engine: Engine, size: int) -> list[Row]:
    found = []
    for _ in range(5):
        before = _shared_memory()
        array = produce.bind(size)
        most = engine.run(highest.bind(*[weigh.bind(array) for _ in range(READERS)]))
        found.append((most - before) / size)
    return [_measuring.most("copies in shared memory while they are read", found, "×", 1.1)]


@task.pure
def highest(*values: int) -> int:
    return max(values)


def _read_in_threads(size: int) -> int:
    array = produce.function(size)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda _: int(array.sum()), range(READERS)))


def _saves(engine: Engine) -> list[Row]:
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(5):
        for mode in MODES:
            times[mode].append(_seconds(lambda mode=mode: engine.run(_pipeline(mode))))  # type: ignore[misc]
    none = statistics.median(times["no saves"])
    return [_measuring.most(f"a pipeline of {STEPS} tasks, {mode}", found, "s") for mode, found in times.items()] + [
        _ratio("asynchronous saves ÷ no saves", statistics.median(times["asynchronous saves"]) / none, 1.05),
        _ratio("selective saves ÷ no saves", statistics.median(times["selective saves, every fourth"]) / none, None),
        _ratio("synchronous saves ÷ no saves", statistics.median(times["synchronous saves"]) / none, None),
    ]


def _pipeline(mode: str) -> Any:
    save, wait = MODES[mode]
    node: Any = None
    for number in range(STEPS):
        saved = save and (not mode.startswith("selective") or number % 4 == 0)
        # A task with an effect waits until what it reads is saved; those without do not.
        step = task(work, checkpoint=saved, effect="irrevocable" if wait else "none", deterministic=not wait)
        node = step.bind(node, STEP)
    return consume.bind(node)


def _stream(folder: Path) -> list[Row]:
    """Many objects, one after the other and a few at a time, in little memory."""
    width = 50
    with Engine(folder / "small", workers=2, output="inherit", object_memory=GB) as engine:
        engine.run(consume.bind(touch.bind(produce.bind(MB))))
        descriptors, shared = _descriptors(), _shared_memory()
        most = 0
        started = time.perf_counter()
        for _ in range(OBJECTS // 2 // width):
            engine.run(collect.bind(*[consume.bind(touch.bind(produce.bind(MB))) for _ in range(width)]))
            most = max(most, _shared_memory() - shared)
        seconds = time.perf_counter() - started
        left = _descriptors_left(descriptors)
    return [
        Row(f"{OBJECTS:,} objects of 1 MB through a pipeline", OBJECTS / seconds, "objects/s"),
        Row("shared memory at its highest", most / MB, "MB", "≤ 1,000", most <= GB),
        Row("descriptors that are left some seconds later", left, "", "≤ 0", left <= 0),
    ]


def _ratio(name: str, value: float, limit: float | None) -> Row:
    return Row(name, value, "×", "" if limit is None else f"≤ {limit:g}", limit is None or value <= limit)


def _seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _pwrite(size: int) -> float:
    """Seconds for writing so much into fresh shared memory."""
    content = numpy.ones(size, numpy.uint8)
    descriptor = os.memfd_create("bench")
    try:
        os.ftruncate(descriptor, size)
        started = time.perf_counter()
        written = 0
        view = memoryview(content)
        while written < size:
            written += os.pwrite(descriptor, view[written:], written)
        return time.perf_counter() - started
    finally:
        os.close(descriptor)


def _shared_memory() -> int:
    """Bytes, of the whole machine."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Shmem:"))


def _descriptors_left(before: int) -> int:
    """How many more there are when workers have had the time to give back memory that they do not need."""
    deadline = time.monotonic() + PATIENCE
    while (left := _descriptors() - before) > 0 and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
