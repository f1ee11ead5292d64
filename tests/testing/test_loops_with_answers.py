"""Found by reading: loops whose items fail, and what handlers say about that."""

from __future__ import annotations

import pytest

from onceflow import TaskFailed, for_each, task
from onceflow.testing import MemoryEngine, crash_everywhere


@task(threads=True)
def wait(number: int) -> int:
    if number == 0:
        raise ValueError("zero")
    return number


def test_an_item_behind_a_failed_one_of_a_chunk_waits_also_if_it_is_a_node_of_its_own() -> None:
    def scenario(engine: MemoryEngine) -> None:
        with pytest.raises(TaskFailed, match="ValueError: zero"):
            engine.run(for_each(wait, [1, 0, 2], chunk=3))

    crash_everywhere(scenario)
