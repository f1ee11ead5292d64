"""A program with a cluster of several nodes, all on this host and on the loopback address, of which it kills some.

    python -m tests.backends.ray.nodes <folder>

Prints what came out, a line of JSON for each thing that was tried. It is a program by itself, because a process has one
connection to Ray.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ |= {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A node that is dead is to be noticed soon.
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "300",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}

import ray
from ray.cluster_utils import Cluster

from onceflow import Engine
from tests.backends.ray import places, sockets
from tests.helpers.doors import Door
from tests.helpers.processes import is_running
from tests.helpers.traces import traces
from tests.helpers.waiting import until

LOOPBACK = "127.0.0.1"

STORE = 100 * 1024 * 1024

LEASE = 4.0


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Nodes:
    """A head with what is `here`, and a node with what is `there`, which can be killed and replaced."""

    def __init__(self) -> None:
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "memory": 100_000_000,  # too little for an actor
                "resources": {"here": 1},
                "object_store_memory": STORE,
                "include_dashboard": False,
                "node_ip_address": LOOPBACK,
            },
        )
        self.there: Any = None
        self.add()

    def add(self) -> None:
        self.there = self.cluster.add_node(
            num_cpus=1,
            memory=1_000_000_000,
            resources={"there": 1},
            object_store_memory=STORE,
            node_ip_address=LOOPBACK,
        )

    def kill(self) -> None:
        """As if somebody had pulled the plug."""
        self.cluster.remove_node(self.there, allow_graceful=False)

    def pids(self) -> list[int]:
        nodes = [self.cluster.head_node, self.there]
        return [process.process.pid for node in nodes for all in node.all_processes.values() for process in all]


@contextmanager
def opened(path: Path) -> Iterator[Door]:
    door = Door(path)
    yield door
    door.close()


def lose_an_output(engine: Engine, nodes: Nodes, folder: Path) -> None:
    """The node with an output that is not saved is killed before somebody reads it."""
    ledger = str(folder / "outputs")
    with opened(folder / "outputs.door") as door:
        drawn = places.draw.bind(ledger)
        handle = engine.run_async(places.pick.bind(drawn, places.wait_here.bind(door.path)))
        door.wait()
        until(lambda: {task.id: task.state for task in engine.list_tasks(handle.id)}["draw"] == "done")
        nodes.kill()
        nodes.add()
        door.open()
        tell(tried="output", result=handle.result(), drawn=traces(ledger))


def lose_a_running_task(engine: Engine, nodes: Nodes, folder: Path) -> None:
    """The node is killed where something irrevocable runs: it is repeated, with the same key."""
    ledger = str(folder / "tasks")
    with opened(folder / "tasks.door") as door:
        handle = engine.run_async(places.charge.bind(ledger, door.path))
        process = door.wait()
        nodes.kill()
        still = Path(f"/proc/{process}").exists()
        nodes.add()
        door.wait()
        ended = not Path(f"/proc/{process}").exists() or not still
        door.open()
        handle.result()
        tell(tried="task", ended=ended, keys=traces(ledger))


def lose_an_actor(engine: Engine, nodes: Nodes, folder: Path) -> None:
    """The node is killed where a saved actor lives, the only one with room for it: it is restored on the next one."""
    ledger = str(folder / "actors")
    with opened(folder / "actors.door") as door:
        till = places.pay.bind(places.open_till.bind(ledger), 5)
        handle = engine.run_async(places.look_into.bind(till, places.wait_here.bind(door.path)))
        door.wait()
        until(lambda: {task.id: task.state for task in engine.list_tasks(handle.id)}["pay"] == "done")
        nodes.kill()
        nodes.add()
        door.open()
        tell(tried="actor", cents=handle.result(), opened=traces(ledger))


def lose_the_node_of_a_fiber(engine: Engine, nodes: Nodes, folder: Path) -> None:
    """Each node has room for one task: of two fibers that are at a door, one is where it cannot go on."""
    with opened(folder / "fibers.door") as first, opened(folder / "fibers.second") as second:
        handles = [engine.run_async(places.wander.bind(first.path, second.path)) for _ in range(2)]
        first.wait()
        first.wait()
        first.open(2)
        second.wait()
        gone = nodes.there.node_id
        nodes.kill()
        nodes.add()
        second.open(2)
        results = [handle.result() for handle in handles]
        before, after = [result[0] for result in results], [result[1] for result in results]
        tell(tried="fiber", began_there=before.count(gone), went_on_there=after.count(gone))


def share_with_others(engine: Engine, nodes: Nodes) -> None:
    """Somebody who knows nothing of the engine has the only cpu of a node: what could run there goes elsewhere. Each
    node in turn, whichever the engine would have chosen."""
    elsewhere = []
    for node, what in ((nodes.cluster.head_node, places.HERE), (nodes.there, places.THERE)):
        other: Any = ray.remote(Other).options(num_cpus=1, resources=what).remote()
        ray.get(other.greet.remote())
        elsewhere.append(engine.run(places.stroll.bind()) != node.node_id)
        ray.kill(other)
    tell(tried="others", elsewhere=elsewhere)


class Other:
    def greet(self) -> None: ...


def lose_the_engine(nodes: Nodes, folder: Path) -> None:
    """Another process drives a run, and is killed. Nothing of it runs any more when the next engine goes on."""
    ledger = str(folder / "engines")
    with opened(folder / "engines.door") as door:
        other = subprocess.Popen(
            [sys.executable, "-m", "tests.backends.ray.nodes", str(folder), nodes.cluster.address, ledger, door.path],
            stdout=subprocess.PIPE,
        )
        process = door.wait()
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        with Engine(folder / "home", backend=nodes.cluster.address, lease=LEASE) as engine:
            handle = engine.resume_async("charge")
            door.wait()
            ended = not is_running(process)
            door.open(2)
            handle.result()
        tell(tried="engine", ended=ended, keys=traces(ledger))


def wait_for_a_node(engine: Engine, nodes: Nodes) -> None:
    """A task needs what no node has: it waits until one joins that has it, and says so."""
    handle = engine.run_async(places.observe.bind())
    until(lambda: "no node" in str(engine.why(handle.id)))
    told = str(engine.why(handle.id))
    nodes.cluster.add_node(num_cpus=1, resources={"telescope": 1}, object_store_memory=STORE, node_ip_address=LOOPBACK)
    tell(tried="room", told=told, result=handle.result())


def drive(folder: Path, address: str, ledger: str, door: str) -> None:
    with Engine(folder / "home", backend=address, lease=LEASE) as engine:
        engine.run(places.charge.bind(ledger, door), name="charge")


def main(folder: Path) -> None:
    nodes = Nodes()
    ray.init(nodes.cluster.address, log_to_driver=False, logging_level=50)
    with Engine(folder / "home", backend=nodes.cluster.address, lease=LEASE) as engine:
        lose_an_output(engine, nodes, folder)
        lose_a_running_task(engine, nodes, folder)
        lose_an_actor(engine, nodes, folder)
        lose_the_node_of_a_fiber(engine, nodes, folder)
        share_with_others(engine, nodes)
        wait_for_a_node(engine, nodes)
        tell(tried="network", elsewhere=sockets.elsewhere([os.getpid(), *nodes.pids()]))
    lose_the_engine(nodes, folder)
    ray.shutdown()
    nodes.cluster.shutdown()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        drive(Path(sys.argv[1]), *sys.argv[2:])
    else:
        main(Path(sys.argv[1]))
