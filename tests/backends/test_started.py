"""What runs now, since when, and what the others wait for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.backends.common import gate, nothing, pass_gate, running_pool


@pytest.mark.parametrize("options", [{}, {"threads": True}], ids=["lane", "thread"])
def test_a_job_that_runs_has_a_time_at_which_it_began(tmp_path: Path, options: dict[str, bool]) -> None:
    with running_pool(tmp_path, 1) as loop, gate(tmp_path / "gate") as door:
        loop.warm_up()
        before = time.time()
        token = loop.start(pass_gate, door.path, **options)
        assert loop.pool.started(token) is None
        assert loop.pool.running() == []

        door.wait(loop)
        began = loop.pool.started(token)
        assert began is not None
        assert before <= began <= time.time()
        assert loop.pool.running() == [token]

        door.open()
        loop.result(token)
        assert loop.pool.started(token) is None
        assert loop.pool.running() == []


def test_a_job_behind_another_has_not_begun(tmp_path: Path) -> None:
    with running_pool(tmp_path, 1) as loop, gate(tmp_path / "gate") as door:
        loop.warm_up()
        first, second = loop.start(pass_gate, door.path), loop.start(nothing)
        door.wait(loop)
        assert loop.pool.running() == [first]
        assert loop.pool.started(second) is None
        assert not loop.pool.lacks_room(second)
        door.open()
        loop.result(second)


def test_a_job_for_which_there_is_no_room_is_told_from_one_for_which_there_is_no_worker(tmp_path: Path) -> None:
    with running_pool(tmp_path, 2, cpus=2.0) as loop, gate(tmp_path / "gate") as door:
        loop.warm_up()
        first = loop.start(pass_gate, door.path)
        door.wait(loop)
        large = loop.start(nothing, cpus=2.0)
        loop.pool.turn()
        assert loop.pool.lacks_room(large)
        second = loop.start(pass_gate, door.path)
        door.wait(loop)
        assert not loop.pool.lacks_room(large)  # both workers are busy: that is what it waits for first
        door.open(2)
        for token in (first, second, large):
            loop.result(token)
        assert not loop.pool.lacks_room(large)
