"""The check before a run (design 2.4): which graphs are safe, and what a user is told of those that are not."""

import random

import pytest

from onceflow.core.checks import definitions
from onceflow.core.checks.check import DryRun, check, is_plainly_safe
from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Graph, Node
from onceflow.errors import UnsafeGraph
from tests.core.building import Drive, graph
from tests.core.random_graphs import random_graph, shape_of


def unsafe(text):
    with pytest.raises(UnsafeGraph) as caught:
        check(graph(text))
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "a pure",
        "n default,unsaved",
        "u undoable,unsaved",
        "a default; b default a; c default a; d default b c",
        "a kept; b undoable a; c default b",
        "a pure; b pure a; u undoable b; n default u",
        "a pure; n default,unsaved a; z pure n",
        "a loose; s kept a; n default s; z pure n",
        "a loose; s kept a; m kept a; n default s; z pure m n",
        "a loose; b loose a; s kept b; u undoable s; n default u",
        "a default,unsaved; n default after:a",
        "u undoable,unsaved; v undoable after:u; n default after:v",
        "a loose; c loose; b kept a c; e kept a; d kept c; n default e; z pure b d n",
        "n default,deterministic,unsaved; k default n; u undoable k n; z pure u",
    ],
)
def test_safe_graphs_pass(text):
    check(graph(text))


def test_a_safe_graph_can_be_run_to_its_end():
    drive = Drive(graph("a loose; s kept a; m kept a; n default s; z pure m n"))
    drive.begin()
    assert drive.play().status == "succeeded"


# -- the five shapes -------------------------------------------------------------------------------------------------


def test_shape_1_is_unsafe_only_if_the_second_reader_waits_for_the_irrevocable_task():
    error = unsafe("a loose; s kept a; n default s; m kept a n; z pure m")
    assert error.blocked == ("n",)
    assert error.proposals == {"n": ("a",)}


def test_shape_2_is_unsafe_if_the_missing_reader_waits_for_the_irrevocable_task():
    error = unsafe("a loose; c loose; b kept a c; e kept a; n default e; d kept c n; z pure b d")
    assert error.blocked == ("n",)
    assert error.proposals["n"] in (("a",), ("c",))


def test_shape_3_is_unsafe_while_the_undoable_task_is_not_saved():
    error = unsafe("T undoable,deterministic,unsaved; n default T; m kept T; z pure n m")
    assert error.blocked == ("n",)
    assert error.proposals == {"n": ("T",)}


def test_shape_4_is_unsafe_while_the_undoable_parent_is_not_saved():
    error = unsafe("u undoable,unsaved; T undoable u; z pure T")
    assert error.blocked == ("T",)
    assert error.proposals == {"T": ("u",)}


def test_shape_5_names_both_tasks():
    error = unsafe("""
        a loose; s kept a; n default s; b loose; t kept b; k default t
        x kept b after:n; y kept a after:k; z pure x y
    """)
    assert error.blocked == ("n", "k")
    assert error.proposals == {"n": ("a",), "k": ("a",)} or error.proposals == {"n": ("a",), "k": ("b",)}


# -- what is said ----------------------------------------------------------------------------------------------------


def test_the_message_names_the_tasks_draws_the_path_and_proposes():
    error = unsafe("roll loose; p pure roll; charge default p; m kept roll; z pure charge m")
    first, _, path, *why, advice = str(error).split("\n")
    assert first == "1 task could never start: charge"
    assert path == "  roll ──▶ p ──▶ charge"
    assert "roll is nondeterministic" in why[0]
    assert "charge cannot be taken back" in why[1]
    assert advice.startswith(f"  To free charge, set checkpoint=True on {error.proposals['charge'][0]}")
    assert error.smallest == {"charge": True}


def test_the_message_names_tasks_that_would_do_as_well():
    error = unsafe("roll loose; p pure roll; charge default p; m kept roll; z pure charge m")
    assert {*error.proposals["charge"], *error.instead["charge"]} == {"roll", "p"}
    assert f", or on {error.instead['charge'][0]}" in str(error)


def test_the_message_says_who_else_reads_the_source():
    error = unsafe("a loose; s kept a; n default s; m kept a n; z pure m")
    assert error.paths["n"].startswith("  a ──▶ s ──▶ n\n")
    assert "m reads a too" in error.paths["n"]


def test_the_message_about_an_undoable_task_speaks_of_its_undo():
    error = unsafe("a loose; u undoable a; z pure u")
    assert error.paths["u"].startswith("  a ──▶ u\n")
    assert "u must be undone with the inputs it was run with" in error.paths["u"]


def test_the_message_says_what_kind_of_task_the_source_is():
    error = unsafe("u undoable,deterministic,unsaved; n default u; z pure n")
    assert "u has an effect that an undo takes back" in error.paths["n"]


def test_several_blocked_tasks_are_each_drawn_and_freed():
    error = unsafe("a loose; n default a; b loose; u undoable b; z pure n u")
    assert error.blocked == ("n", "u")
    assert str(error).startswith("2 tasks could never start: n, u\n")
    assert error.proposals == {"n": ("a",), "u": ("b",)}
    assert set(error.paths) == {"n", "u"}


def test_tasks_that_only_wait_for_blocked_ones_are_not_named():
    error = unsafe("a loose; n default a; m default n; k default m")
    assert error.blocked == ("n",)


def test_the_sink_is_saved_anyway_and_never_proposed():
    error = unsafe("a loose; b loose a; n default,unsaved b")
    assert "n" not in error.proposals["n"]


# -- against the definition ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_check_agrees_with_the_definition_on_random_graphs(seed):
    source = random.Random(seed)
    verdicts = set()
    for _ in range(100):
        candidate = random_graph(source, nodes=source.randint(2, 9))
        never_done = set(shape_of(candidate).names(definitions.blocked(shape_of(candidate))))
        verdicts.add(bool(never_done))
        if never_done:
            with pytest.raises(UnsafeGraph) as caught:
                check(candidate)
            assert set(caught.value.blocked) <= never_done
        else:
            check(candidate)
    assert verdicts == {True, False}


def test_safe_random_graphs_run_to_their_end_in_any_order():
    source = random.Random(7)
    for _ in range(60):
        candidate = random_graph(source, nodes=source.randint(2, 9))
        if definitions.blocked(shape_of(candidate)):
            continue
        drive = Drive(candidate)
        drive.begin()
        while drive.running or drive.saves:
            pick = source.choice([*drive.running, *drive.saves])
            if isinstance(pick, str):
                drive.finish(pick)
            else:
                drive.save(f"{pick[0]}.{pick[1]}")
        assert drive.status == "succeeded"


def test_a_claim_that_was_refuted_is_not_assumed_again():
    """The dry run of this graph once never ended: claims were assumed and refuted in turn."""
    loose = Options(checkpoint=False, effect="none")
    nodes = [
        Node(id="a", task="a", options=Options(checkpoint=False, effect="undoable"), parts=2),
        Node(id="b", task="b", options=loose, edges=((0, 3),)),
        Node(id="c", task="c", options=loose, edges=((0, 0),)),
        Node(id="d", task="d", options=loose, edges=((0, 3),)),
        Node(id="e", task="e", options=Options(False, True, "none"), edges=((0, 2), (1, 1)), parts=2),
        Node(id="f", task="f", options=Options(effect="none"), edges=((0, 3), (1, 1))),
        Node(
            id="g",
            task="g",
            options=Options(deterministic=True, effect="undoable"),
            edges=((2, 1), (3, 1), (4, 3), (5, 1)),
        ),
    ]
    assert [row.id for row in DryRun(Graph(nodes), saved=["c", "d"]).blocked] == ["g"]


def test_what_is_plainly_safe_is_safe_by_the_definition():
    source = random.Random(11)
    graphs = [random_graph(source, nodes=source.randint(2, 5)) for _ in range(2000)]
    plain = [g for g in graphs if is_plainly_safe(g)]
    assert len(plain) > 50
    assert not any(definitions.blocked(shape_of(g)) for g in plain)


def test_what_two_tasks_take_must_be_made_again_from_what_is_still_there():
    """`f` would be run again for the second taker, and for that `b`, which drops the first one: they would go on for
    ever. (Seed 810073201.)"""
    takers = "b loose; f pure takes:b; g kept takes:f; h kept takes:f; i kept g h"
    with pytest.raises(UnsafeGraph) as unsafe:
        check(graph(takers))
    assert unsafe.value.proposals == {"h": ("f",)}
    check(graph(takers.replace("b loose", "b pure")))
    check(graph(takers.replace("b loose", "b kept")))
