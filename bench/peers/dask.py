"""dask.distributed: a scheduler and workers on this machine, on the loopback address only. It saves nothing.

Futures are passed on, so that a graph is dask's own. Of the ways to submit many equal tasks `map` was the quickest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import distributed

from bench.peers import _serving


class Dask:
    def __init__(self, client: distributed.Client) -> None:
        self._client = client

    def run_one(self, number: int) -> int:
        return self._client.submit(_serving.echo, number, pure=False).result()

    def run_chain(self, number: int) -> int:
        future = self._client.submit(_serving.echo, number, pure=False)
        for _ in range(_serving.LENGTH - 1):
            future = self._client.submit(_serving.echo, future, pure=False)
        return future.result()

    def run_graphs(self, graphs: int) -> list[int]:
        return self._client.gather(
            [
                self._client.submit(
                    _serving.count, self._client.map(_serving.echo, range(_serving.WIDTH), pure=False), pure=False
                )
                for _ in range(graphs)
            ]
        )

    def run_many(self, runs: int) -> list[int]:
        return self._client.gather(self._client.map(_serving.echo, range(runs), pure=False))


@contextlib.contextmanager
def opened() -> Iterator[_serving.Kinds]:
    cluster = distributed.LocalCluster(
        n_workers=_serving.CORES,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        local_directory=".",
    )
    with cluster, distributed.Client(cluster) as client:
        yield {"": Dask(client)}


def main() -> None:
    _serving.serve(opened())
