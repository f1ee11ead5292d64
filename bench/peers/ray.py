"""Ray: a node of its own on this machine, on the loopback address only and without a dashboard. It saves nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else it takes an address that others reach for its own
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray

from bench.peers import _serving

STORE = 200 * 2**20
"""Bytes of shared memory for objects: more than is needed, and not a third of the machine."""

echo = ray.remote(_serving.echo)


@ray.remote
def count(*values: int) -> int:
    """Ray waits for arguments that are results themselves, not for those in a list."""
    return len(values)


class Ray:
    def run_one(self, number: int) -> int:
        return ray.get(echo.remote(number))

    def run_chain(self, number: int) -> int:
        ref = echo.remote(number)
        for _ in range(_serving.LENGTH - 1):
            ref = echo.remote(ref)
        return ray.get(ref)

    def run_graphs(self, graphs: int) -> list[int]:
        return ray.get(
            [count.remote(*[echo.remote(number) for number in range(_serving.WIDTH)]) for _ in range(graphs)]
        )

    def run_many(self, runs: int) -> list[int]:
        return ray.get([echo.remote(number) for number in range(runs)])


@contextlib.contextmanager
def opened() -> Iterator[_serving.Kinds]:
    ray.init(
        address="local",
        num_cpus=_serving.CORES,
        include_dashboard=False,
        object_store_memory=STORE,
        log_to_driver=False,
        logging_level="error",
        _node_ip_address="127.0.0.1",
        _temp_dir=str(Path.cwd()),
    )
    try:
        yield {"": Ray()}
    finally:
        ray.shutdown()


def main() -> None:
    _serving.serve(opened())
