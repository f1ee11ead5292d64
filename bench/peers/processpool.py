"""`concurrent.futures.ProcessPoolExecutor`: what Python itself has. It saves nothing and has no graphs: the results of
tasks come back to the program, which gives them to the next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from bench.peers import _serving


class Pool:
    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def run_one(self, number: int) -> int:
        return self._pool.submit(_serving.echo, number).result()

    def run_chain(self, number: int) -> int:
        for _ in range(_serving.LENGTH):
            number = self._pool.submit(_serving.echo, number).result()
        return number

    def run_graphs(self, graphs: int) -> list[int]:
        submitted = [
            [self._pool.submit(_serving.echo, number) for number in range(_serving.WIDTH)] for _ in range(graphs)
        ]
        sinks = [self._pool.submit(_serving.count, [future.result() for future in futures]) for futures in submitted]
        return [sink.result() for sink in sinks]

    def run_many(self, runs: int) -> list[int]:
        return [future.result() for future in [self._pool.submit(_serving.echo, number) for number in range(runs)]]


@contextlib.contextmanager
def opened() -> Iterator[_serving.Kinds]:
    with ProcessPoolExecutor(_serving.CORES) as pool:
        yield {"": Pool(pool)}


def main() -> None:
    _serving.serve(opened())
