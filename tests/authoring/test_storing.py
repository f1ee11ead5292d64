"""Graphs as bytes: what is stored, and what comes back after a restart."""

from __future__ import annotations

from typing import Any

from onceflow import task, workflow
from onceflow.authoring.building import build_graph


@task.pure
def make(number: int) -> Any: ...


@task
def join(*values: Any, **named: Any) -> Any: ...


@workflow
def joined(number: int) -> Any:
    return join.bind(make.bind(number))


def test_a_graph_with_checkpoints_still_knows_its_workflow_and_its_buffers() -> None:
    before = build_graph(join.bind(make.bind(1), bytes(100_000)))
    before.workflow = build_graph(joined.bind(1)).workflow
    assert before.consumers
    after = before.with_checkpoints({"make"})

    assert after.workflow is before.workflow
    assert after.buffers is before.buffers
    assert after.digest != before.digest
    assert [node.options.checkpoint for node in after.nodes] == [True, True]


def test_a_task_may_have_more_parts_than_an_integer_has_bits() -> None:
    many = task(num_returns=100, name="many")(lambda: range(100))
    node: Any = many.bind()
    digests = [build_graph(join.bind(value)).digest for value in (node, node[62], node[63], node[99])]

    assert len(set(digests)) == 4
