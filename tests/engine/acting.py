"""Actors and tasks that the tests of the engine and of the memory engine share."""

from __future__ import annotations

import os
from typing import Any

from onceflow import actor, task
from onceflow.actors import Exclusive, const, create, later
from tests.helpers.doors import knock
from tests.helpers.traces import note, traces


@actor
class Counter:
    """Counts, and says in which process."""

    def __init__(self, start: int = 0) -> None:
        if start < 0:
            raise ValueError("a counter starts at 0 at least")
        self.count = start

    def add(self, more: int = 1) -> int:
        self.count += more
        return self.count

    def get(self) -> int:
        return self.count

    @const
    def value(self) -> int:
        return self.count

    @const
    def process(self) -> int:
        return os.getpid()

    @const
    def echo(self, value: Any) -> Any:
        return value

    def fail(self) -> None:
        raise KeyError("no such thing")

    def leave(self) -> None:
        os._exit(3)


@actor(idle=0.0)
class Diary:
    """Knows what has to be saved of it."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.restored = 0

    def write(self, line: str) -> None:
        self.lines.append(line)

    @const
    def read(self) -> tuple[list[str], int]:
        return self.lines, self.restored

    @const
    def process(self) -> int:
        return os.getpid()

    def _checkpoint(self) -> list[str]:
        return self.lines

    @classmethod
    def _restore(cls, lines: list[str]) -> Diary:
        restored = cls(lines)
        restored.restored = 1
        return restored


# -- tasks -----------------------------------------------------------------------------------------------------------


@task.pure
def make(start: int = 0, trace: str = "") -> Counter:
    if trace:
        note(trace, "made")
    return create(Counter, start)


@task(can_rollback=True)
def make_saved(start: int = 0, trace: str = "") -> Counter:
    return make(start, trace)


@task.pure
def add(counter: Exclusive[Counter], more: int = 1, trace: str = "", wait: Any = None) -> Counter:
    if trace:
        note(trace, f"added {more}")
    counter.add(more)
    return counter


@task(can_rollback=True)
def add_and_save(counter: Exclusive[Counter], more: int = 1, trace: str = "", wait: Any = None) -> Counter:
    return add(counter, more, trace)


@task.pure
def look(counter: Counter, trace: str = "", wait: Any = None) -> int:
    if trace:
        note(trace, "looked")
    return counter.value()


@task(can_rollback=True)
def where(counter: Counter) -> int:
    return counter.process()


@task(can_rollback=True)
def add_without_leave(counter: Counter) -> int:
    return counter.add(1)


@task(can_rollback=True)
def pass_on(counter: Counter) -> Counter:
    return counter


@task(can_rollback=True)
def keep_for_oneself(counter: Exclusive[Counter]) -> int:
    return counter.add(1)


@task(can_rollback=True)
def leave_calls_open(counter: Exclusive[Counter]) -> Counter:
    later(counter.add, 1)
    return counter


@task(can_rollback=True)
def add_many(counter: Exclusive[Counter], times: int) -> tuple[list[int], Counter]:
    answers = [later(counter.add, 1) for _ in range(times)]
    return [answer.result() for answer in answers], counter


@task(can_rollback=True)
async def add_async(counter: Exclusive[Counter]) -> Counter:
    await later(counter.add, 5)
    return counter


@task(can_rollback=True)
def fail_inside(counter: Exclusive[Counter]) -> Counter:
    counter.fail()
    return counter


@task(can_rollback=True)
def echo_large(counter: Counter, size: int) -> bool:
    import numpy

    sent = numpy.arange(size, dtype=numpy.int64)
    back = counter.echo(sent)
    back[0] = 7  # whoever gets it may do with it what they like
    return bool((back[1:] == sent[1:]).all() and sent[0] == 0)


@task(can_rollback=True)
def gather(*values: Any) -> list[Any]:
    return list(values)


@task(can_rollback=True)
def through_door(path: str, wait: Any = None) -> None:
    knock(path)


@task(can_rollback=True)
def add_at_door(counter: Exclusive[Counter], path: str, trace: str) -> Counter:
    note(trace, counter.process())
    counter.add(10)
    if len(traces(trace)) == 1:
        knock(path)
    counter.add(1)
    return counter


@task(can_rollback=True, retry=2)
def add_and_raise_once(counter: Exclusive[Counter], trace: str) -> Counter:
    counter.add(100)
    note(trace, "tried")
    if len(traces(trace)) == 1:
        raise RuntimeError("not this time")
    return counter


@task(can_rollback=True)
def begin_diary() -> Diary:
    return create(Diary, ["begun"])


@task(can_rollback=True)
def write(diary: Exclusive[Diary], line: str, wait: Any = None) -> Diary:
    diary.write(line)
    return diary


@task(can_rollback=True)
def read(diary: Diary, wait: Any = None) -> tuple[list[str], int]:
    return diary.read()


@task(can_rollback=True)
def note_process(diary: Diary, trace: str) -> None:
    note(trace, diary.process())


# -- an actor that dies when it is saved -------------------------------------------------------------------------------


@actor
class Mortal:
    """Dies whenever it is saved."""

    def __init__(self, path: str) -> None:
        self.path = path

    def _checkpoint(self) -> str:
        note(self.path, "asked")
        os._exit(3)

    @classmethod
    def _restore(cls, path: str) -> Mortal:
        return cls(path)


@task(can_rollback=True, worker_deaths=3)
def make_mortal(path: str) -> Mortal:
    return create(Mortal, path)
