"""The kit for tests keeps types."""

from __future__ import annotations

from typing import assert_type

from onceflow import Engine, task
from onceflow.testing import Attempt, Attempts, Ledger, MemoryEngine, crash_everywhere, crash_points, use


@task
def add(left: int, right: int) -> int:
    return left + right


def scenario(engine: MemoryEngine) -> None:
    assert_type(engine.run(add.bind(1, 2)), int)
    assert_type(engine.run_async(add.bind(1, 2)).result(), int)
    assert_type(engine.ran, Attempts)
    assert_type(engine.ran.of(add)[0], Attempt)
    assert_type(Ledger().holds, list[object])
    engine.crash_at(add, "sometimes")  # E: arg-type
    real: Engine = engine
    with use(engine) as used:
        assert_type(used, MemoryEngine)
    with use(real) as also_used:
        assert_type(also_used, Engine)


assert_type(crash_everywhere(scenario), int)
crash_everywhere(add)  # E: arg-type
for point in crash_points(scenario):
    assert_type(point.engine(), MemoryEngine)
