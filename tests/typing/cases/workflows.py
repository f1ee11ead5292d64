"""What a type checker says about workflows. Lines without a mark must be free of errors."""

from __future__ import annotations

from typing import assert_type

from onceflow import check, task, workflow
from onceflow.tasks import Graph


@task
def charge(user: str, cents: int) -> str:
    return f"{user} {cents}"


@workflow
def pay(user: str, cents: int = 1) -> str:
    return charge.bind(user, cents)


@workflow(name="pay twice")
def twice(user: str) -> str:
    return charge.bind(pay.bind(user), 2)


@workflow
def wrong(user: str) -> int:
    return charge.bind(user, 1)  # E: return-value


def a_workflow_is_typed_like_a_task() -> None:
    assert_type(pay.bind("ann"), str)
    assert_type(pay("ann", cents=3), str)
    assert_type(twice.bind("ann"), str)
    assert_type(check(pay.bind("ann")), Graph)
    charge.bind(twice.bind("ann"), 1)
    pay.bind()  # E: call-arg
    pay.bind(3)  # E: arg-type
    twice.bind("ann", 3)  # E: call-arg
    charge.bind("ann", twice.bind("ann"))  # E: arg-type
