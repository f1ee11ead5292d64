"""Fibers of a real engine whose process is killed."""

from __future__ import annotations

import ast
import signal
from pathlib import Path

import pytest

from onceflow import Engine
from tests.fibers.killed import patient
from tests.helpers.scripts import kill, run_script, start_script, started
from tests.helpers.traces import traces
from tests.helpers.waiting import LONG, until

LOTTERY = """
    import os, sys
    from onceflow import run
    from tests.fibers.killed import lottery
    if len(sys.argv) > 1:
        open("kill", "w").write(f"{sys.argv[1]} {os.getpid()}")
    print(run(lottery.bind(os.getcwd()), name="lottery"))
"""


@pytest.mark.parametrize("task", ["first", "look", "second", "third", "fourth"])
def test_what_depends_on_chance_is_what_it_was_when_the_effect_began(task: str, tmp_path: Path) -> None:
    # given an engine that is killed in a task
    process = start_script(tmp_path, LOTTERY, task)
    process.communicate(timeout=LONG)
    assert process.returncode == -signal.SIGKILL
    # when another one goes on
    result = ast.literal_eval(run_script(tmp_path, LOTTERY))
    # then every effect that was begun is that of the result, and was there before with the same key, or not at all
    effects = [line.rsplit(" ", 2) for line in traces(tmp_path / "traces")]
    assert {name: float(chance) for name, _, chance in effects} == result
    assert len({tuple(effect) for effect in effects}) == 4


def test_classes_of_a_script_are_the_same_for_its_fibers_and_for_itself(tmp_path: Path) -> None:
    script = """
        from dataclasses import dataclass
        from onceflow import TaskFailed, fiber, run, task
        from onceflow.fibers import fork, join

        @dataclass
        class Order:
            number: int

        class Declined(Exception): ...

        @task
        def place(number):
            return Order(number)

        @task
        def decline(order):
            raise Declined(order) if isinstance(order, Order) else TypeError(order)

        @fiber
        async def shop(order):
            assert isinstance(order, Order)
            placed = await place.call(order.number + 1)
            assert isinstance(placed, Order)
            return [order, placed, await join(await fork(pass_on, Order(3)))]

        @fiber
        async def pass_on(order):
            return await place.call(order.number)

        @fiber
        async def refused(order):
            await decline.call(order)

        if __name__ == "__main__":
            assert run(shop.bind(Order(1))) == [Order(1), Order(2), Order(3)]
            try:
                run(refused.bind(Order(1)))
            except TaskFailed as error:
                print(isinstance(error.__cause__, Declined), error.__cause__.args == (Order(1),))
    """
    assert run_script(tmp_path, script) == "True True\n"


def test_a_fiber_of_a_script_goes_on_in_its_workers(tmp_path: Path) -> None:
    script = """
        from onceflow import fiber, run, task

        class Declined(Exception): ...

        @task
        def charge(cents):
            if cents > 5:
                raise Declined(cents)
            return cents + 1

        @fiber
        async def pay(cents: int) -> int:
            paid = await charge.call(cents)
            try:
                await charge.call(7)
            except Declined:
                return await charge.call(paid)

        if __name__ == "__main__":
            print(run(pay.bind(1), name="pay"))
    """
    for _ in range(2):
        assert run_script(tmp_path, script) == "3\n"


PATIENT = """
    import os
    from onceflow import run_async
    from tests.fibers.killed import patient
    handle = run_async(patient.bind(os.getcwd()), name="patient")
    print("here", flush=True)
    handle.result()
"""


def test_a_parked_fiber_is_woken_by_another_process(tmp_path: Path) -> None:
    # given a fiber that waits in an engine which is killed
    with started(tmp_path, PATIENT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        with Engine(tmp_path / "home", workers=1) as other:
            until(lambda: other.status("patient") == "waiting")
            kill(process)
            # when events come to another one
            handle = other.run_async(patient.bind(str(tmp_path)), name="patient")
            for number in (3, 4, -1):
                other.send_event("patient", "number", number)
            # then
            assert handle.result(timeout=LONG) == "7 in the end"
    assert [line.split()[:2] for line in traces(tmp_path / "traces")] == [["number", "3"], ["number", "4"]]
