"""DBOS: durable workflows as a library, each step of which is saved. Its steps run in the program's own process, there
are no workers.

Steps that run at the same time are async steps in one event loop. Of the ways to have many workflows at once (async,
`start_workflow`, threads) that was the quickest, too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

from dbos import DBOS

from bench.peers import _dbos_database, _serving

echo = DBOS.step()(_serving.echo)


@DBOS.step()
async def echo_async(value: int) -> int:
    return value


@DBOS.step()
async def count_async(values: list[int]) -> int:
    return len(values)


@DBOS.workflow()
def one(number: int) -> int:
    return echo(number)


@DBOS.workflow()
def chain(number: int) -> int:
    for _ in range(_serving.LENGTH):
        number = echo(number)
    return number


@DBOS.workflow()
async def one_async(number: int) -> int:
    return await echo_async(number)


@DBOS.workflow()
async def graph() -> int:
    return await count_async(await asyncio.gather(*[echo_async(number) for number in range(_serving.WIDTH)]))


class Dbos:
    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner

    def run_one(self, number: int) -> int:
        return one(number)

    def run_chain(self, number: int) -> int:
        return chain(number)

    def run_graphs(self, graphs: int) -> list[int]:
        return self._runner.run(_all(graph() for _ in range(graphs)))

    def run_many(self, runs: int) -> list[int]:
        return self._runner.run(_all(one_async(number) for number in range(runs)))


async def _all(workflows: Iterator[Coroutine[Any, Any, int]]) -> list[int]:
    return await asyncio.gather(*workflows)


@contextlib.contextmanager
def opened() -> Iterator[_serving.Kinds]:
    _dbos_database.configure()
    with asyncio.Runner() as runner:  # one for all: DBOS shares its threads with the first loop that it sees
        DBOS.launch()
        try:
            yield {"": Dbos(runner)}
        finally:
            DBOS.destroy()


def main() -> None:
    _serving.serve(opened())
