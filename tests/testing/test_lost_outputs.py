"""Outputs and refs that are lost before somebody reads them."""

from __future__ import annotations

from typing import Any

import pytest

from onceflow import Ref, put, task
from onceflow.errors import StorageFull
from onceflow.testing import MemoryEngine


@task.pure
def make() -> Any:
    return [put("first"), put("second")]


@task(can_rollback=True)
def choose(found: list[Ref[str]]) -> Ref[str]:
    return found[1]


@task
def charge(found: Ref[str]) -> str:
    return found.get()


@task.pure
def read(found: Ref[str]) -> str:
    return found.get()


def test_a_ref_that_is_lost_is_traced_to_the_task_that_made_it(onceflow_engine: MemoryEngine) -> None:
    unsaved = choose.options(checkpoint=False, deterministic=True)
    onceflow_engine.lose_output(make, ref=1, before=read)
    assert onceflow_engine.run(read.bind(unsaved.bind(make.bind()))) == "second"
    onceflow_engine.assert_ran(make, times=2)
    onceflow_engine.assert_ran(choose, times=1)  # it only passed the ref on


def test_what_is_saved_is_not_lost(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.lose_output(choose, before=charge)
    assert onceflow_engine.run(charge.bind(choose.bind(make.bind()))) == "second"
    onceflow_engine.assert_ran(make, times=1)
    onceflow_engine.assert_ran(choose, times=1)


def test_a_lost_value_is_made_again(onceflow_engine: MemoryEngine) -> None:
    @task.pure
    def number() -> int:
        return 7

    @task.pure
    def double(value: int) -> int:
        return 2 * value

    onceflow_engine.lose_output(number, before=double)
    assert onceflow_engine.run(double.bind(number.bind())) == 14
    onceflow_engine.assert_ran(number, times=2)


def test_a_save_that_fails_interrupts_the_run_and_loses_nothing(onceflow_engine: MemoryEngine) -> None:
    onceflow_engine.fail_save(choose)
    with pytest.raises(StorageFull, match="the save of choose"):
        onceflow_engine.run(charge.bind(choose.bind(make.bind())), name="again")
    onceflow_engine.assert_not_ran(charge)
    assert onceflow_engine.run(charge.bind(choose.bind(make.bind())), name="again") == "second"
    onceflow_engine.assert_ran(charge, times=1)


def test_a_loss_that_never_happens_is_told() -> None:
    engine = MemoryEngine()
    engine.lose_output(make, before="absent")
    engine.run(read.bind(choose.bind(make.bind())))
    with pytest.raises(AssertionError, match=r"lose_output\('make', before='absent'\) never happened"):
        engine.assert_faults_happened()
