"""Load balancing over the nodes of a cluster: the jobs that a station gets and returns, and its number of workers."""

from __future__ import annotations

import time
from collections.abc import Sequence

from onceflow.backends.local.send_ahead import AHEAD, LONG
from onceflow.backends.ray.messages import Return, Size
from onceflow.backends.ray.nodes import Station

HORIZON = 0.020
"""Seconds of expected work for each worker beyond which a station gets no more: a call there and back takes some
milliseconds."""

IDLE = 5.0
"""Seconds without a job after which a station's workers are given back to Ray."""


def admits(station: Station, load: list[float], expected: float, now: float) -> bool:
    """Whether a station that has so many jobs, of so many seconds, may be given one more."""
    jobs, seconds = load
    cpus = station.cpus
    if station.is_held_up(now):
        jobs, cpus = jobs - len(station.alone), station.workers
    return jobs < cpus or (seconds < HORIZON * cpus and expected < LONG and jobs < AHEAD * cpus)


def recall(stations: Sequence[Station]) -> None:
    """Jobs are returned that wait for a worker of their station, and may have one elsewhere sooner."""
    waiting = [
        station
        for station in stations
        if station.workers < min(station.cpus, station.shared) and not station.recalled and not station.has_none
    ]
    if not waiting:
        return
    now = time.monotonic()
    held_up = {station.node for station in stations if station.is_held_up(now)}
    ready = sum([min(station.ready, station.room) for station in stations])
    room = ready + sum([station.room for station in stations if not station.ready and station.node not in held_up])
    for station in waiting:
        most = station.shared - station.workers
        if station.node not in held_up:
            most = min(most, ready)
        elif station.workers:  # which are soon done with what is short
            most = min(most, room)
        if most > 0:
            ready, room = ready - most, room - most
            station.recalled = station.has_none = True
            station.say(Return(most))


def resize(stations: Sequence[Station], most: int | None, *, is_queued: bool, wanted_elsewhere: bool) -> None:
    """Each station has as many workers as there is work for, and no more than `most`. `is_queued`: jobs wait that no
    station has; `wanted_elsewhere`: another program needs more than Ray has room for."""
    now = time.monotonic()
    some_come = is_queued or any(station.recalled for station in stations)
    for station in stations:
        size = min(station.cpus if most is None else min(station.cpus, most), station.shared)
        needed = some_come and station.room > 0
        spare = not needed and (wanted_elsewhere or (not size and now - station.used >= IDLE))
        if size > station.size or (size < station.size and spare):
            station.size = size
            station.say(Size(size))
