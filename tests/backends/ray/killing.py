"""Chaos: trips on a Ray cluster with two nodes, with PostgreSQL and S3, while processes are killed at random.

    python -m tests.backends.ray.killing <folder> <kills> <seed>

Prints a line of JSON: what was killed how often, and what is wrong with what has happened. Killed are workers, actors,
agents, the keeper, the node that is not the head, and the engine, which is then started anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.backends.ray import nodes, trips
from tests.backends.ray.sockets import below

AT_ONCE = 6
"""Trips for each kill that is to come."""

TARGETS = {"worker": "ray::RayWorker", "actor": "ray::Host", "agent": "ray::Agent", "keeper": "ray::Keeper"}

PAUSE = 6.0
"""Seconds between two kills, at most."""

LEASE = 10.0
"""Seconds. A busy machine must not take part in the killing."""


def drive(folder: Path, address: str, journal: str, blobs: str, count: int) -> None:
    """The engine: all trips, each under its name."""
    from onceflow import Engine

    ledger = str(folder / "ledger")
    with Engine(folder / "home", backend=address, journal=journal, blobs=blobs, lease=LEASE, output="store") as engine:
        names = [f"trip-{trip}" for trip in range(count)]
        found = engine.run_many([trips.graph(trip, ledger) for trip in range(count)], names=names)
    assert all(trip == number and purse == cents for number, (trip, purse, cents) in enumerate(found)), found


class Chaos:
    def __init__(self, folder: Path, kills: int, seed: int) -> None:
        from onceflow.testing.servers.postgres import PostgresServer
        from onceflow.testing.servers.s3 import S3Server

        self.folder = folder
        self.left = kills
        self.count = max(4, kills * AT_ONCE // 4)
        self.random = random.Random(seed)
        self.since = time.time()
        self.killed: Counter[str] = Counter()
        self.nodes = nodes.Nodes()
        self.postgres, self.s3 = PostgresServer(), S3Server()
        self.arguments = [self.nodes.cluster.address, self.postgres.create_database(), self.s3.create_bucket()]
        self.engine = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "tests.backends.ray.killing",
            str(self.folder),
            *self.arguments,
            str(self.count),
        ]
        with (self.folder / "engine.log").open("ab") as log:
            return subprocess.Popen(command, env={**os.environ, **self.s3.environment}, stdout=log, stderr=log)

    def run(self) -> int:
        """Kills, until there has been enough of it, then waits for the engine. Returns its exit status."""
        while self.left:
            time.sleep(self.random.random() * PAUSE)
            self.kill()
            if self.engine.poll() is not None:
                if self.engine.returncode == 0:
                    return 0  # all trips are over
                self.engine = self.start()
        return self.engine.wait() and self.start().wait()

    def kill(self) -> None:
        target = self.random.choice([*TARGETS, "worker", "node", "engine"])
        if target == "engine":
            self.engine.kill()
            self.engine.wait()
        elif target == "node":
            self.nodes.kill()
            self.nodes.add()
        else:
            mine = below(self.nodes.pids())
            found = [
                pid for pid, name in trips.process_names().items() if pid in mine and name.startswith(TARGETS[target])
            ]
            if not found:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(found), signal.SIGKILL)
        self.killed[target] += 1
        print(f"{time.time() - self.since:.1f} s: killed {target}", file=sys.stderr, flush=True)
        self.left -= 1

    def close(self) -> None:
        self.engine.kill()
        self.engine.wait()
        self.nodes.cluster.shutdown()
        self.s3.close()
        self.postgres.close()


def main(folder: Path, kills: int, seed: int) -> None:
    chaos = Chaos(folder, kills, seed)
    try:
        status = chaos.run()
    finally:
        chaos.close()
    problems = trips.judge(folder / "ledger", chaos.count)
    print(json.dumps({"killed": chaos.killed, "status": status, "trips": chaos.count, "problems": problems}))


if __name__ == "__main__":
    folder, *rest = sys.argv[1:]
    if len(rest) > 2:
        address, journal, blobs, count = rest
        drive(Path(folder), address, journal, blobs, int(count))
    else:
        main(Path(folder), int(rest[0]), int(rest[1]))
