"""The proposals of `UnsafeGraph` (design 2.4): the smallest that help, and enough to make the graph safe."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.core.checks import definitions, proposals
from onceflow.core.checks.check import check
from onceflow.errors import UnsafeGraph
from tests.core.building import graph
from tests.core.random_graphs import random_graph, shape_of


def problem(candidate):
    try:
        check(candidate)
    except UnsafeGraph as error:
        return error
    return None


def frees(candidate, saved, task):
    shape = shape_of(candidate, frozenset(saved))
    return not definitions.blocked(shape) >> shape.position[task] & 1


@pytest.mark.parametrize("seed", range(8))
def test_no_smaller_set_frees_a_blocked_task(seed):
    source = random.Random(f"smaller {seed}")
    sizes = set()
    for _ in range(60):
        candidate = random_graph(source, nodes=source.randint(3, 8))
        error = problem(candidate)
        if error is None:
            continue
        unsaved = [n.id for n in candidate.nodes[:-1] if not n.options.checkpoint]
        for task, proposal in error.proposals.items():
            sizes.add(len(proposal))
            assert error.smallest[task]
            assert set(proposal) <= set(unsaved)
            assert frees(candidate, proposal, task)
            assert all(frees(candidate, [other], task) for other in error.instead[task])
            smaller = itertools.chain.from_iterable(
                itertools.combinations(unsaved, size) for size in range(len(proposal))
            )
            assert not any(frees(candidate, subset, task) for subset in smaller)
    assert {1, 2} <= sizes


@given(st.integers(0, 2**32), st.integers(3, 14))
def test_following_the_proposals_always_ends_in_a_safe_graph(seed, nodes):
    candidate = random_graph(random.Random(seed), nodes)
    for _ in range(nodes):
        error = problem(candidate)
        if error is None:
            return
        task = error.blocked[0]
        candidate = candidate.with_checkpoints(set(error.proposals[task]))
        later = problem(candidate)
        assert later is None or task not in later.blocked
    assert problem(candidate) is None


@given(st.integers(0, 2**32), st.integers(3, 14))
def test_following_all_proposals_at_once_frees_all_that_were_blocked(seed, nodes):
    candidate = random_graph(random.Random(seed), nodes)
    error = problem(candidate)
    if error is not None:
        everything = {id for proposal in error.proposals.values() for id in proposal}
        later = problem(candidate.with_checkpoints(everything))
        assert later is None or not set(later.blocked) & set(error.blocked)


def test_several_sources_are_all_proposed():
    error = problem(graph("a loose; b loose; c loose; n default a b c; z pure n"))
    assert error.proposals == {"n": ("a", "b", "c")}


def test_one_task_on_the_way_is_preferred_to_many_sources():
    error = problem(graph("a loose; b loose; c loose; j loose a b c; n default j; z pure n"))
    assert error.proposals == {"n": ("j",)}


def test_an_undoable_task_is_freed_by_the_cut_nearest_to_it_that_is_smallest():
    error = problem(graph("a loose; p pure a; q pure a; u undoable p q; z pure u"))
    assert error.proposals == {"u": ("a",)}


def test_without_time_to_prove_it_a_set_is_proposed_all_the_same(monkeypatch):
    monkeypatch.setattr(proposals, "MOST_STEPS", 30)
    candidate = graph("a loose; b loose; c loose; d pure a b; n default c d; m kept a b c; z pure n m")
    error = problem(candidate)
    assert error.smallest == {"n": False}
    assert "too large to prove" in str(error)
    assert frees(candidate, error.proposals["n"], "n")


def test_one_unsafe_corner_of_a_large_graph_is_found_quickly():
    lines = ["t0 default"] + [f"t{n} default t{n - 1}" for n in range(1, 2_000)]
    lines += ["a loose t1999", "p pure a", "n default p", "m kept a n"]
    error = problem(graph("; ".join(lines)))
    assert error.blocked == ("n",)
    assert error.smallest == {"n": True}
    assert {*error.proposals["n"], *error.instead["n"]} == {"a"}


def test_a_long_unsafe_chain_is_answered_in_reasonable_time():
    chain = [f"p{n} pure p{n - 1}" for n in range(1, 2_000)]
    error = problem(graph("; ".join(["a loose; p0 pure a", *chain, "n default p1999; m kept a; z pure n m"])))
    assert error.blocked == ("n",)
    assert error.proposals["n"] == ("a",)
