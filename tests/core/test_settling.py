"""Settled, quiet and reproducible (design 2.2) as a run goes on. Every state is also compared with its definition."""

import random

import pytest

from onceflow.core.model import events
from tests.core.building import Drive, begun, graph

# -- settled ---------------------------------------------------------------------------------------------------------


def test_a_saved_node_whose_parents_are_settled_is_settled_at_once():
    drive = begun("a kept; b kept a; z pure b")
    drive.complete("a")
    assert drive.settled == {"a"}
    drive.complete("b")
    assert drive.settled == {"a", "b"}


def test_a_done_node_without_a_save_is_not_settled_before_all_its_consumers_are():
    drive = begun("a pure; b kept a; c kept a; z pure b c")
    drive.complete("a", "b")
    assert drive.settled == {"b"}, "a is repeatable, so b need not wait for it"
    drive.complete("c")
    assert drive.settled == {"a", "b", "c"}


def test_a_node_is_settled_only_when_all_its_parts_are_saved():
    drive = begun("a kept,parts=2; z pure a")
    drive.finish("a")
    drive.save("a.1")
    assert drive.settled == set()
    drive.save("a")
    assert drive.settled == {"a"}


def test_a_saved_node_is_not_settled_while_a_nondeterministic_ancestor_may_run_again():
    drive = begun("a loose; p pure a; s kept p; m kept a; z pure s m")
    drive.complete("a", "p", "s")
    assert drive.settled == set()
    drive.complete("m")
    assert drive.settled == {"a", "p", "s", "m"}


def test_an_unsaved_undoable_ancestor_counts_even_if_it_is_deterministic():
    drive = begun("u undoable,deterministic,unsaved; s kept u; m kept u; z pure s m")
    drive.complete("u", "s")
    assert drive.settled == set()
    drive.complete("m")
    assert drive.settled == {"u", "s", "m"}


def test_a_deterministic_irrevocable_ancestor_is_repeatable():
    drive = begun("n default,deterministic,unsaved; s kept n; m kept n; z pure s m")
    drive.complete("n", "s")
    assert drive.settled == {"s"}


def test_a_chain_of_unsaved_nodes_is_settled_together_with_the_first_saved_one():
    drive = begun("a loose; b loose a; c loose b; s kept c; z pure s")
    drive.complete("a", "b", "c")
    drive.finish("s")
    assert drive.settled == set()
    drive.save("s")
    assert drive.settled == {"a", "b", "c", "s"}


def test_sources_that_share_a_saved_consumer_are_settled_only_together():
    """1. `a` and `b` are nondeterministic and not saved; `s` reads both, `x` reads `a`, `y` reads `b`.
    2. With `s` and `x` saved, `a` has all its consumers saved; but `s` descends from `b`, which `y` has yet to read.
    3. `y` settles everything."""
    drive = begun("a loose; b loose; s kept a b; x kept a; y kept b; z pure s x y")
    drive.complete("a", "b", "s", "x")
    assert drive.settled == set()
    drive.complete("y")
    assert drive.settled == {"a", "b", "s", "x", "y"}


def test_a_ring_of_sources_and_shared_consumers_is_settled_by_its_last_save():
    text = "; ".join(f"a{n} loose" for n in range(5))
    text += "; " + "; ".join(f"s{n} kept a{n} a{(n + 1) % 5}" for n in range(5))
    drive = begun(text + "; z pure s0 s1 s2 s3 s4")
    drive.complete(*(f"a{n}" for n in range(5)))
    for n in (3, 0, 2, 4):
        drive.complete(f"s{n}")
        assert drive.settled == set()
    drive.complete("s1")
    assert len(drive.settled) == 10


def test_two_groups_are_settled_one_after_the_other():
    drive = begun("a loose; s kept a; m kept a; b loose s; t kept b; z pure t m")
    drive.complete("a", "s", "b", "t")
    assert drive.settled == set()
    drive.complete("m")
    assert drive.settled == {"a", "s", "m", "b", "t"}


def test_settled_does_not_depend_on_the_order_of_saves():
    text = "a loose; b pure a; c kept b; d loose; e kept b d; f kept d; g loose e; h kept g; z pure c f h"
    for seed in range(40):
        order = random.Random(seed)
        drive = begun(text)
        while drive.running or drive.saves:
            pick = order.choice([*drive.running, *drive.saves])
            if isinstance(pick, str):
                drive.finish(pick)
            else:
                drive.save(pick[0])
        assert drive.status == "succeeded"
        assert drive.settled == set("abcdefghz")


def test_the_sink_is_settled_by_its_own_save_only():
    drive = begun("a kept; z pure a")
    drive.complete("a")
    drive.finish("z")
    assert drive.settled == {"a"}
    drive.save("z")
    assert drive.status == "succeeded"


def test_what_is_settled_stays_so_when_its_output_is_lost():
    drive = begun("a loose; s kept a; m kept s; z pure m")
    drive.complete("a", "s")
    assert drive.settled == {"a", "s"}
    assert drive.lose("a", "s") == []
    assert drive.settled == {"a", "s"}


# -- quiet -----------------------------------------------------------------------------------------------------------


def test_a_repeatable_node_is_quiet_when_its_ancestors_are():
    drive = begun("a kept; b pure a; c pure b; z kept c")
    drive.finish("a", "b", "c")
    assert drive.quiet == set()
    drive.save("a")
    assert drive.quiet == {"a", "b", "c"}
    assert drive.settled == {"a"}


def test_a_node_that_is_not_repeatable_is_quiet_only_when_it_is_settled():
    drive = begun("a pure; b kept a; c loose b; z kept c")
    drive.complete("a", "b", "c")
    assert drive.quiet == {"a", "b"}


def test_what_is_not_visible_yet_is_not_called_quiet():
    drive = begun("a pure; z kept a")
    assert drive.quiet == set()
    drive.finish("a")
    assert drive.quiet == {"a"}


# -- reproducible ----------------------------------------------------------------------------------------------------


def test_saved_is_reproducible_even_if_it_is_not_settled():
    drive = begun("a loose; s kept a; m kept a; p pure s; z pure p m")
    drive.complete("a", "s", "p")
    assert drive.reproducible == {"s", "p"}
    assert drive.quiet == set()


def test_an_unsaved_undoable_node_is_not_reproducible():
    drive = begun("u undoable,deterministic,unsaved; p pure u; z kept p")
    drive.finish("u", "p")
    assert drive.reproducible == set()


def test_losing_a_pure_output_does_not_make_it_less_reproducible():
    drive = begun("a pure; b kept a; c kept a b; z pure c")
    drive.complete("a")
    drive.lose("a")
    assert drive.reproducible == {"a"}


# -- control-only edges and the done record --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["default,unsaved", "undoable,unsaved", "undoable,deterministic,unsaved"])
def test_an_unsaved_effectful_task_that_others_only_wait_for_writes_a_done_record(kind):
    drive = begun(f"a {kind}; n default after:a")
    assert drive.finish("a") == ["+done a", "+begun n", "start! n"]
    assert drive.settled == {"a"}


def test_the_done_record_makes_the_task_reproducible():
    drive = begun("a default,unsaved; u undoable after:a; z pure u")
    assert drive.finish("a") == ["+done a", "+begun u", "start! u"]


def test_a_task_that_somebody_reads_writes_no_done_record():
    drive = begun("a default,unsaved; b kept a; c kept after:a; z pure b c")
    assert drive.finish("a") == ["start b", "start c"]


def test_a_task_without_effect_writes_no_done_record():
    drive = begun("a loose; b kept after:a; z pure b")
    assert drive.finish("a") == ["start b"]


def test_a_saved_task_writes_no_done_record():
    drive = begun("a default; b kept after:a; z pure b")
    assert drive.finish("a") == ["save a", "start b"]


def test_a_loose_task_that_others_only_wait_for_is_settled_with_them():
    drive = begun("a loose; b kept after:a; c kept after:a; z pure b c")
    drive.complete("a", "b")
    assert drive.settled == set()
    drive.complete("c")
    assert drive.settled == {"a", "b", "c"}


# -- handing out the result ------------------------------------------------------------------------------------------


def test_a_run_succeeds_only_when_its_result_is_saved_and_quiet():
    """1. The sink `z` reads `s`, which is saved; `s` descends from `a`, which `m` has yet to read.
    2. `z` is saved before `m`, but could still be dropped: the run goes on.
    3. With `m` saved, all is settled."""
    drive = begun("a loose; s kept a; m kept a; z kept s after:m")
    drive.complete("a", "s")
    drive.finish("m")
    drive.complete("z")
    assert drive.status == "running"
    assert drive.tell(events.Saved("m", 0, drive.saves.pop(("m", 0))))[-1] == "finish succeeded"


def test_a_long_chain_that_settles_as_one_group_is_looked_at_once():
    """1. `m` is saved, and waits for `a`; `a` waits for the chain. 2. The end of the chain is saved: all settle.
    Looking at every claim anew for each of them would take minutes."""
    chain = "; ".join(f"p{n} pure p{n - 1}" for n in range(1, 20_000))
    drive = Drive(graph(f"a loose; m kept a; p0 pure a; {chain}; z kept p19999 m"), validate=False)
    drive.begin()
    drive.complete("a")
    drive.complete("m")
    for n in range(20_000):
        drive.complete(f"p{n}")
    assert drive.complete("z")[-1] == "finish succeeded"


def test_what_is_dropped_keeps_nobody_waiting_for_what_it_waited_for_itself():
    """While `g` is to be dropped, `b` looks for what keeps it from being settled: that is `g`, and not what `g` waited
    for before, which was `b`."""
    drive = begun("b loose; f kept b; h default f; c undoable; g kept b c; z pure h g")
    drive.finish("b", "f", "c", "g")
    drive.save("g")
    drive.run.handle(events.Lost((("c", 0),)))
    drive.run.handle(events.Saved("f", 0, drive.run.rows["f"].attempt))
    (undo,) = [row.undo.attempt for row in drive.run.rows.values() if row.undo is not None]
    drive.run.handle(events.Undone("c", undo))
    for node in ("c", "g"):
        attempt = drive.run.rows[node].attempt
        drive.run.handle(events.Finished(node, attempt))
        drive.run.handle(events.Saved(node, 0, attempt))
    assert drive.run.rows["h"].state == "running"
