"""A Spark frame that is cached in an actor, and tasks that share it."""

from __future__ import annotations

import os
import time
from typing import Any

from onceflow import Exclusive, actor, const, create, task

COLUMNS = 8
ROWS = 4_000_000
"""With 8 columns of 8 bytes each: 256 MB."""

MEMORY = "1g"
"""Of the Java machine."""

SHARE = 0.05
"""Of the rows, that a consumer looks at."""


def open_session() -> Any:
    """On the loopback address, with two cores and without pages."""
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
def consume(frame: Frame, seed: int, _: Any) -> tuple[float, float, float]:
    """What it found, and when it began and ended."""
    began = time.time()
    found = frame.sample(seed)
    return found, began, time.time()


@task
def gather(before: dict[int, Any], consumers: int, *found: Any) -> dict[int, Any]:
    """Number of consumers → seconds from the first one's start to the last one's end, and what they found."""
    seconds = max(ended for _, _, ended in found) - min(began for _, began, _ in found)
    return {**before, consumers: (seconds, [total for total, _, _ in found])}


def graph(rows: int, stages: tuple[int, ...]) -> Any:
    """One stage of consumers after the other, all of one frame."""
    frame = clean.bind(load.bind(), rows)
    result: Any = {}
    for consumers in stages:
        found = [consume.bind(frame, seed, result) for seed in range(consumers)]
        result = gather.bind(result, consumers, *found)
    return result


def natively(rows: int, stages: tuple[int, ...]) -> dict[int, Any]:
    """The same with Spark alone, in this process."""
    session = open_session()
    try:
        frame = generate(session, rows)
        found = {}
        for consumers in stages:
            began = time.time()
            totals = [sample(frame, seed) for seed in range(consumers)]
            found[consumers] = (time.time() - began, totals)
        return found
    finally:
        session.stop()
