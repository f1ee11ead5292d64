"""onceflow itself, asked and timed like its peers: with default tasks, each of which is saved and synced, and with
`@task.pure`, of which nothing is saved but the run and its result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from bench.peers import _serving
from onceflow import Engine, task

saved, saved_count = task(_serving.echo), task(_serving.count)
pure, pure_count = task.pure(_serving.echo), task.pure(_serving.count)


class Ours:
    def __init__(self, engine: Engine, echo: Any, count: Any) -> None:
        self._engine = engine
        self._echo = echo
        self._count = count

    def run_one(self, number: int) -> int:
        return self._engine.run(self._echo.bind(number))

    def run_chain(self, number: int) -> int:
        node = self._echo.bind(number)
        for _ in range(_serving.LENGTH - 1):
            node = self._echo.bind(node)
        return self._engine.run(node)

    def run_graphs(self, graphs: int) -> list[int]:
        return self._engine.run_many(
            self._count.bind([self._echo.bind(number) for number in range(_serving.WIDTH)]) for _ in range(graphs)
        )

    def run_many(self, runs: int) -> list[int]:
        return self._engine.run_many(self._echo.bind(number) for number in range(runs))


@contextlib.contextmanager
def opened() -> Iterator[_serving.Kinds]:
    with Engine("home", workers=_serving.CORES) as engine:
        yield {"": Ours(engine, saved, saved_count), "pure": Ours(engine, pure, pure_count)}


def main() -> None:
    _serving.serve(opened())
