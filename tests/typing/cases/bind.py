"""What a type checker says about tasks and nodes. Lines without a mark must be free of errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Coroutine
from typing import Any, assert_type

from onceflow import RetryPolicy, task
from onceflow.tasks import AsyncTask, Task


@task
def price(item: str, *, tax: float = 0.2) -> int:
    return len(item)


@task(checkpoint=False, retry=RetryPolicy(3, on=OSError))
def label(amount: int, unit: str = "EUR") -> str:
    return f"{amount} {unit}"


@task.pure
def split(text: str) -> tuple[int, str]:
    return len(text), text


@task.pure(num_returns=2, checkpoint=True)
def names(text: str) -> list[str]:
    return text.split()


@task
async def fetch(url: str) -> bytes:
    return url.encode()


@task(name="load")
async def load(url: str) -> dict[str, int]:
    return {url: 1}


@task
def total(values: list[int], by_name: dict[str, int] | None = None) -> int:
    return sum(values)


@dataclasses.dataclass
class Order:
    amount: int


@task
def ship(order: Order, *boxes: int, **notes: str) -> None: ...


splits: Task[[str], tuple[int, str]] = split
fetches: AsyncTask[[str], bytes] = fetch


def the_decorator_keeps_parameters_and_return_type() -> None:
    assert_type(price("tea", tax=0.1), int)
    assert_type(label(3), str)
    assert_type(split("a"), tuple[int, str])
    _ = assert_type(fetch("a"), Coroutine[Any, Any, bytes])
    price(3)  # E: arg-type
    label()  # E: call-arg


def a_node_has_the_type_of_the_output() -> None:
    assert_type(price.bind("tea"), int)
    assert_type(price.bind(item="tea", tax=0.1), int)
    assert_type(fetch.bind("a"), bytes)
    assert_type(load.bind("a"), dict[str, int])


def nodes_pass_typed_through_arguments() -> None:
    amount = price.bind("tea")
    assert_type(label.bind(amount), str)
    assert_type(label.bind(amount, unit=label.bind(1)), str)
    assert_type(total.bind([amount, price.bind("milk")], by_name={"tea": amount}), int)
    ship.bind(Order(amount), amount, 3, note=label.bind(amount))
    label.bind(label.bind(1))  # E: arg-type
    label.bind(1, unit=amount)  # E: arg-type
    total.bind([fetch.bind("a")])  # E: list-item
    ship.bind(Order(label.bind(1)))  # E: arg-type
    ship.bind(Order(1), note=amount)  # E: arg-type


def bind_takes_what_the_function_takes() -> None:
    price.bind()  # E: call-arg
    price.bind("tea", 0.1)  # E: call-arg
    price.bind("tea", rate=0.1)  # E: call-arg
    price.bind(3)  # E: arg-type
    load.bind(3)  # E: arg-type


def nodes_can_be_indexed_and_unpacked() -> None:
    count, text = split.bind("a b")
    assert_type(count, int)
    assert_type(text, str)
    assert_type(split.bind("a")[0], int)
    assert_type(names.bind("a b")[1], str)
    label.bind(count, text)
    label.bind(text)  # E: arg-type
    _one, _two, _three = split.bind("a")  # E: misc
    price.bind("tea")[0]  # E: index


def options_keep_the_types() -> None:
    changed = label.options(checkpoint=True, name="other", after=[price.bind("tea")])
    assert_type(changed.bind(1), str)
    assert_type(changed(1), str)
    assert_type(fetch.options(retry=3).bind("a"), bytes)
    changed.bind("a")  # E: arg-type
    label.options(checkpoint="yes")  # E: call-overload
    label.options(chekpoint=True)  # E: call-overload


def decorators_know_their_options() -> None:
    task(deterministic=True, can_rollback=True, rollback=None, num_returns=2)
    task(effect="none")
    task(effect="nothing")  # E: call-overload
    task(after=[])  # E: call-overload
    task(checkpoint=3)  # E: call-overload
    task.pure(deterministic=True)  # E: call-overload
