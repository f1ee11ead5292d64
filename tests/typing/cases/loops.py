"""Loops are typed by what they call and by their items."""

from typing import assert_type

from onceflow import for_each, reduce, run, task, workflow
from onceflow.loops import Partial


@task
def fetch(url: str) -> bytes:
    return url.encode()


@task
async def fetch_async(url: str) -> bytes:
    return url.encode()


@task.pure
def scale(number: int, factor: float = 1.0) -> float:
    return number * factor


@task.pure
def add(total: float, number: float) -> float:
    return total + number


@task.pure
def urls() -> list[str]:
    return []


@workflow
def mirror(url: str) -> bytes:
    return fetch.bind(url)


assert_type(for_each(fetch, ["a"]), list[bytes])
assert_type(for_each(fetch, urls.bind()), list[bytes])
assert_type(for_each(fetch_async, urls.bind()), list[bytes])
assert_type(for_each(mirror, ["a"]), list[bytes])
assert_type(scale.partial(factor=2.0), Partial[float])
assert_type(for_each(scale.partial(factor=2.0), [1, 2]), list[float])
assert_type(run(for_each(scale, range(3))), list[float])
assert_type(reduce(add, for_each(scale, [1]), 0.0), float)

for_each(fetch, [1])  # E: arg-type
for_each(fetch, ["a"], on_error="ignore")  # E: call-overload
