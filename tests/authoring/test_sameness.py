"""Which graphs count as the same: structure, names, options, comparable arguments; not code, not the day."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from onceflow import task
from onceflow.authoring.graph_builder import build_graph


@task
def make(number: int, factor: int = 1) -> Any: ...


@task
def join(*values: Any, **named: Any) -> Any: ...


def digest(node: Any) -> str:
    return build_graph(node).digest


a, b = make.bind(1), make.bind(2)

SAME: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    (lambda: make.bind(1, 2), lambda: make.bind(factor=2, number=1)),
    (lambda: join.bind(x=1, y=2), lambda: join.bind(y=2, x=1)),
    (lambda: join.bind({"x": a, "y": b}), lambda: join.bind({"y": b, "x": a})),
    (lambda: join.bind({a, b}), lambda: join.bind({b, a})),
    (lambda: join.bind([make.bind(1), make.bind(2)]), lambda: join.bind([a, b])),
    (lambda: join.bind([1, 2]), lambda: join.bind(list(range(1, 3)))),
    (lambda: make.options(retry=1).bind(1), lambda: make.options(retry=1, checkpoint=True).bind(1)),
]

DIFFERENT: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    (lambda: make.bind(1), lambda: make.bind(2)),
    (lambda: make.bind(1), lambda: make.bind(1, 1)),
    (lambda: make.bind(1), lambda: make.options(name="other").bind(1)),
    (lambda: make.bind(1), lambda: make.options(checkpoint=False).bind(1)),
    (lambda: make.bind(1), lambda: make.options(num_returns=2).bind(1)),
    (lambda: join.bind(a, b), lambda: join.bind(b, a)),
    (lambda: join.bind(a, b), lambda: join.bind([a, b])),
    (lambda: join.bind(a, b), lambda: join.bind(a, x=b)),
    (lambda: join.bind([a, b, a]), lambda: join.bind([a, b, b])),
    (lambda: join.bind(a), lambda: join.options(after=[a]).bind()),
    (lambda: join.bind({"x": a, "y": b}), lambda: join.bind({"x": b, "y": a})),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_these_graphs_are_the_same(one: Callable[[], Any], other: Callable[[], Any]) -> None:
    assert digest(one()) == digest(other())


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_these_graphs_differ(one: Callable[[], Any], other: Callable[[], Any]) -> None:
    assert digest(one()) != digest(other())


def test_changed_code_is_the_same_graph() -> None:
    @task(name="f")
    def one(x: int) -> int:
        return x

    @task(name="f")
    def other(x: int) -> int:
        return x + 1

    assert digest(one.bind(1)) == digest(other.bind(1))


def test_the_position_of_parts_counts() -> None:
    def graph(first: int, second: int) -> str:
        node = make.options(num_returns=2).bind(1)
        return digest(join.bind(node[first], node[second]))

    assert graph(0, 1) != graph(1, 0)


class Opaque:
    def __init__(self, *nodes: Any) -> None:
        self.nodes = set(nodes)


def test_nodes_hidden_in_objects_that_cannot_be_compared_still_count() -> None:
    assert digest(join.bind(Opaque(a, b))) == digest(join.bind(Opaque(b, a)))
    assert digest(join.bind(Opaque(a, b))) != digest(join.bind(Opaque(a)))


def test_mutation_after_bind_does_not_change_the_graph() -> None:
    rows = [1]
    node = join.bind(rows)
    before = digest(node)
    rows.append(2)
    assert digest(node) == before


PROGRAM = """
    import enum, pathlib
    from dataclasses import dataclass
    from onceflow import task
    from onceflow.authoring.graph_builder import build_graph

    class Colour(enum.Enum):
        RED = 1

    @dataclass(frozen=True)
    class Row:
        tags: frozenset

    @task
    def make(name): ...

    @task
    def join(*values): ...

    for _ in range(SKIP):
        make.bind("elsewhere")  # other nodes made before must not matter
    nodes = [make.bind(name) for name in "abcdefgh"]
    words = {"x", "yy", "zzz", "w", "v", ("u", 1)}
    print(build_graph(join.bind(words, Row(frozenset(words)), Colour.RED, set(nodes), {n: n for n in nodes},
                                pathlib.Path("/tmp"), lambda: 1)).digest)
"""


def test_another_process_with_another_hash_seed_gives_the_same_digest() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM).replace("SKIP", skip)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed, skip in [("0", "0"), ("1", "7"), ("12345", "1000")]
    }
    assert len(digests) == 1
    assert digests != {""}
