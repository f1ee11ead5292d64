"""When a ready task may start (design 2.3), and what is written before it does."""

import pytest

from onceflow.core.model import commands, records
from tests.core.building import Drive, begun, graph

# -- effect none -----------------------------------------------------------------------------------------------------


def test_all_tasks_without_parents_start_at_once():
    drive = Drive(graph("a pure; b kept; c loose; z pure a b c"))
    assert drive.begin() == ["start a", "start b", "start c"]
    assert drive.states() == {"a": "running", "b": "running", "c": "running", "z": "waiting"}


@pytest.mark.parametrize("kind", ["pure", "kept", "loose"])
@pytest.mark.parametrize("parent", ["pure", "kept", "loose"])
def test_a_task_without_effect_starts_when_its_inputs_are_there_and_waits_for_no_save(parent, kind):
    drive = begun(f"a {parent}; b {kind} a; z kept b")
    assert drive.finish("a") == ["save a"] * (parent == "kept") + ["start b"]


def test_a_task_without_effect_waits_for_the_last_of_its_inputs():
    drive = begun("a pure; b pure; c pure a b")
    assert drive.finish("a") == []
    assert drive.finish("b") == ["start c"]


def test_a_task_waits_for_the_parents_that_it_only_comes_after():
    drive = begun("a pure; b pure; c pure a after:b")
    assert drive.finish("a") == []
    assert drive.finish("b") == ["start c"]


def test_no_record_is_written_before_a_task_without_effect():
    drive = begun("a pure; b loose a; c pure b; z kept c")
    drive.finish("a", "b", "c")
    assert drive.journal == []


def test_the_result_is_saved_whatever_the_options_say():
    drive = begun("a pure")
    assert drive.finish("a") == ["save a"]
    assert drive.save("a") == ["+saved a", "+finished succeeded", "finish succeeded"]


# -- undoable: parents reproducible ----------------------------------------------------------------------------------


def test_an_undoable_task_starts_after_pure_parents_without_any_save():
    drive = begun("a pure; b pure a; u undoable b; z pure u")
    drive.finish("a")
    assert drive.finish("b") == ["+begun u carrying b.0", "start! u"]


@pytest.mark.parametrize("parent", ["kept", "kept,deterministic", "undoable", "undoable,deterministic", "default"])
def test_an_undoable_task_starts_when_its_parent_is_saved(parent):
    drive = begun(f"r kept; a {parent} r; u undoable a; z pure u")
    drive.complete("r")
    if parent == "kept,deterministic":
        assert drive.finish("a") == ["save a", "+begun u carrying a.0", "start! u"]
        return
    assert drive.finish("a") == ["save a"]
    assert "+begun u carrying a.0" in drive.save("a")


def test_an_undoable_task_waits_while_a_deterministic_parent_has_a_parent_that_cannot_be_made_again():
    drive = begun("r kept; a pure r; u undoable a; z pure u")
    drive.finish("r")
    assert drive.finish("a") == []
    assert drive.save("r") == ["+saved r", "+begun u carrying a.0", "start! u"]


def test_an_undoable_task_does_not_wait_for_settled_ancestors():
    """Saved is enough: its parent `s` is not settled, because `a`, which is read again, is not."""
    drive = begun("a loose; s kept a; m kept a; u undoable s; z pure u m")
    drive.finish("a", "s")
    assert drive.save("s") == ["+saved s", "+begun u carrying s.0", "start! u"]
    assert drive.settled == set()


def test_an_undoable_task_waits_for_all_parts_of_its_parent_to_be_saved():
    drive = begun("a kept,parts=2; u undoable a.0; m pure a.1; z pure u m")
    assert drive.finish("a") == ["save a", "save a.1", "start m"]
    assert drive.save("a") == ["+saved a"]
    assert drive.save("a.1") == ["+saved a.1", "+begun u carrying a.0", "start! u"]


def test_an_undoable_task_waits_for_the_save_of_a_parent_that_it_only_comes_after():
    drive = begun("a kept; u undoable after:a; z pure u")
    assert drive.finish("a") == ["save a"]
    assert drive.save("a") == ["+saved a", "+begun u", "start! u"]


# -- irrevocable: parents quiet --------------------------------------------------------------------------------------


def test_an_irrevocable_task_starts_after_pure_parents_without_any_save():
    drive = begun("a pure; n default a; z pure n")
    assert drive.finish("a") == ["+begun n", "start! n"]


@pytest.mark.parametrize("parent", ["kept", "undoable", "default"])
def test_an_irrevocable_task_starts_when_its_only_parent_is_saved(parent):
    drive = begun(f"a {parent}; n default a; z pure n")
    assert drive.finish("a") == ["save a"]
    assert drive.save("a") == ["+saved a", "+begun n", "start! n"]


def test_an_irrevocable_task_does_not_wait_for_the_save_of_a_repeatable_parent():
    drive = begun("a kept,deterministic; n default a; z pure n")
    assert drive.finish("a") == ["save a", "+begun n", "start! n"]


def test_an_irrevocable_task_looks_at_all_ancestors_not_only_at_parents():
    drive = begun("a kept; b pure a; c pure b; n default c; z pure n")
    drive.finish("a", "b", "c")
    assert drive.save("a") == ["+saved a", "+begun n", "start! n"]


def test_an_irrevocable_task_waits_for_a_parent_that_it_only_comes_after_to_be_quiet():
    drive = begun("a kept; b pure; n default b after:a; z pure n")
    drive.finish("b", "a")
    assert "+begun n" in drive.save("a")


def test_default_tasks_in_a_row_each_wait_for_the_save_before_them():
    drive = begun("a default; b default a; c default b")
    assert drive.finish("a") == ["save a"]
    assert drive.save("a") == ["+saved a", "+begun b", "start! b"]
    assert drive.finish("b") == ["save b"]
    assert drive.save("b") == ["+saved b", "release a", "+begun c", "start! c"]


# -- the begun record ------------------------------------------------------------------------------------------------


def test_the_begun_record_names_the_attempt_that_follows_and_the_start_waits_for_the_journal():
    drive = begun("a kept; n default a")
    drive.finish("a")
    drive.save("a")
    saved, begun_record, start = drive.commands
    assert saved == commands.Append(records.Saved("a", 0, drive.attempts["a"][0]))
    assert begun_record == commands.Append(records.Begun("n", drive.attempts["n"][0]))
    assert start == commands.Start("n", drive.attempts["n"][0], durable=True)
    assert not saved.durable
    assert not begun_record.durable


def test_a_task_without_effect_starts_without_waiting_for_the_journal():
    drive = begun("a pure")
    assert drive.commands == [commands.Start("a", drive.attempts["a"][0], durable=False)]


def test_the_begun_record_of_an_undoable_task_carries_only_what_it_reads_and_what_is_small():
    drive = begun("a kept,parts=3; b pure; c pure; u undoable a.0 a.2 b c after:c; z pure u")
    drive.finish("a", "c")
    drive.finish("b", small=False)
    drive.save("a", "a.1")
    assert drive.save("a.2") == ["+saved a.2", "+begun u carrying a.0,a.2,c.0", "start! u"]


def test_nothing_is_carried_from_a_parent_that_the_task_only_comes_after():
    drive = begun("a pure; b pure; u undoable b after:a; z pure u")
    drive.finish("a")
    assert drive.finish("b") == ["+begun u carrying b.0", "start! u"]


def test_the_begun_record_of_an_irrevocable_task_carries_nothing():
    drive = begun("a pure; n default a")
    assert drive.finish("a") == ["+begun n", "start! n"]


def test_effectful_tasks_without_parents_begin_at_once():
    drive = Drive(graph("u undoable; n default; z pure u n"))
    assert drive.begin() == ["+begun u", "start! u", "+begun n", "start! n"]


# -- the five shapes -------------------------------------------------------------------------------------------------


def test_shape_1_a_saved_cut_is_not_enough_while_what_is_above_it_may_be_read_again():
    """1. `a` (nondeterministic, not saved) finishes; `s` (saved) reads it and is saved.
    2. `n` (irrevocable) reads `s`, but `m` has yet to read `a`: losing `a` now would re-run `s` and `n`.
    3. Only when `m` is saved too is `a` settled, and with it `s`."""
    drive = begun("a loose; s kept a; n default s; m kept a; z pure n m")
    drive.finish("a", "s")
    assert drive.save("s") == ["+saved s"]
    assert drive.finish("m") == ["save m"]
    assert drive.save("m") == ["+saved m", "release a", "+begun n", "start! n"]


def test_shape_2_a_task_waits_for_a_sibling_of_the_ancestors_of_its_ancestors_consumer():
    """1. `a`, `c` finish; `b` (reads both), `e` (reads `a`) are saved.
    2. `n` reads `e`. Losing `c` before `d` ran drops `b`, which needs `a` again, which drops `e`.
    3. So `n` waits until `d` is saved."""
    drive = begun("a loose; c loose; b kept a c; e kept a; d kept c; n default e; z pure b d n")
    drive.finish("a", "c", "b", "e")
    drive.save("b")
    assert drive.save("e") == ["+saved e"]
    drive.finish("d")
    assert drive.settled == set()
    assert drive.save("d") == ["+saved d", "release c", "release a", "+begun n", "start! n"]
    assert drive.settled == {"a", "b", "c", "d", "e"}


def test_shape_3_nothing_irrevocable_starts_below_an_undoable_task_that_may_yet_be_undone():
    """1. `T` (undoable, deterministic, not saved) finishes; `n` and `m` read it.
    2. A crash after `n` would undo `T` under `n`. Never saved, `T` waits for all its readers, and so `n` for itself."""
    drive = begun("T undoable,deterministic,unsaved; n default T; m kept T; z pure n m")
    assert drive.finish("T") == ["start m"]
    drive.finish("m")
    assert drive.save("m")[:3] == ["+saved m", "stuck n: waits for T", "+failed n 1 final"]


def test_shape_3_saved_it_lets_the_irrevocable_task_start():
    drive = begun("T undoable,deterministic; n default T; m kept T; z pure n m")
    drive.finish("T")
    assert drive.save("T") == ["+saved T", "+begun n", "start! n"]


def test_shape_4_an_undoable_task_never_starts_on_the_unsaved_output_of_another():
    """Undoing `T` needs the output of `u`, and to make that again would run `u` twice."""
    for u in ("undoable,unsaved", "undoable,deterministic,unsaved"):
        drive = begun(f"u {u}; T undoable u; z pure T")
        assert drive.finish("u")[:2] == ["stuck T: waits for u", "+failed T 1 final"]


def test_shape_5_two_irrevocable_tasks_that_each_wait_for_a_consumer_that_waits_for_the_other_never_start():
    """1. `n` reads `s`, saved from `a`; but `a` is also read by `y`, which comes after `k`.
    2. `k` reads `t`, saved from `b`; but `b` is also read by `x`, which comes after `n`.
    3. `a` is settled only with `y`, so after `k`; `b` only with `x`, so after `n`: neither may begin."""
    drive = begun(SHAPE_5.format(a="loose"))
    drive.complete("a", "b", "s")
    drive.finish("t")
    assert "stuck n: waits for s" in drive.save("t")
    assert drive.settled == set()
    assert {id for id, state in drive.states().items() if state != "done"} == {"n", "k", "x", "y", "z"}


def test_shape_5_with_one_of_the_two_sources_saved_all_start_in_turn():
    drive = begun(SHAPE_5.format(a="kept"))
    drive.complete("a", "b", "s", "t")
    assert list(drive.running) == ["n"]
    drive.complete("n")
    assert list(drive.running) == ["x"]
    drive.complete("x")
    assert list(drive.running) == ["k"]
    assert drive.play().status == "succeeded"


SHAPE_5 = """
    a {a}; s kept a; n default s; b loose; t kept b; k default t
    x kept b after:n; y kept a after:k; z pure x y
"""


def test_what_a_taker_took_is_made_again_as_soon_as_it_has_started():
    drive = begun("m pure; r kept m; t kept takes:m; d kept t m; z kept r d")
    drive.finish("m", holding="actor")
    assert drive.finish("r") == ["save r", "start t", "start m"]


def test_who_is_admitted_before_it_can_see_what_was_written_asks_again():
    drive = begun("e kept,transaction,guarding; z kept e")
    drive.complete("e", graph=graph("u undoable; w writer u; c kept,asks w; f kept u; y kept c f"))
    drive.complete("e/u")
    drive.handle("e/w")
    assert "ask e/c" in drive.save("e/w")
    drive.ends("e/f", 1, again=True)
    drive.undone("e/u")
    drive.elapse("e")
    drive.complete("e/u")
    drive.finish("e/w")
    assert drive.admit("e/c") == []
    assert "ask e/c" in drive.save("e/w")
