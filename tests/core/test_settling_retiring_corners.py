"""Corners of forgetting (design 2.10): which rows stay for the sake of an undo, and which need not."""

import pytest

from tests.core.building import Drive, begun, graph


def forgotten(drive, *nodes):
    return [node for node in nodes if node not in drive.run.rows]


# -- what runs again -------------------------------------------------------------------------------------------------


def test_a_row_that_is_made_again_stays_while_something_irrevocable_begins_below_it():
    """`p` is lost before it is saved, and runs again; meanwhile all that read it is settled."""
    drive = begun("p pure,saved; s kept p; n default s; z kept n")
    drive.finish("p", "s")
    assert drive.lose("p") == ["start p"]
    assert drive.save("s") == ["+saved s", "+begun n", "start! n"]
    assert drive.finish("p") == ["save p"]


# -- transactions ----------------------------------------------------------------------------------------------------


def in_transaction(*completed):
    """A transaction behind something undoable, so that the task that returned it is not forgotten."""
    drive = begun("u undoable; e kept,transaction u; y kept e; z kept y", "u")
    drive.complete("e", graph=graph("a kept; b kept a; c kept b; d kept c"))
    drive.complete(*completed)
    return drive


def test_nothing_in_a_transaction_is_released_before_it_has_its_result():
    drive = in_transaction("e/a", "e/b")
    assert drive.finish("e/c") == ["save e/c", "start e/d"]
    assert drive.save("e/c") == ["+saved e/c"]


def test_what_was_in_a_transaction_is_released_when_its_result_is_settled():
    drive = in_transaction("e/a", "e/b", "e/c")
    drive.finish("e/d")
    assert {"release e/a", "release e/b", "release e/c"} <= set(drive.save("e/d"))


# -- what something irrevocable stands on ----------------------------------------------------------------------------


def test_a_row_that_something_irrevocable_stands_on_is_forgotten_although_what_it_read_is_not():
    """`v` may be undone, so that `a` is not forgotten before `n` has started."""
    drive = begun("v undoable; p kept; a loose p; s kept a; n default s; w kept p n; z kept w v", "v", "p", "a")
    drive.finish("s")
    assert forgotten(drive, "p", "a") == []
    assert "+begun n" in drive.save("s")
    assert forgotten(drive, "p", "a") == []
    drive.finish("n")
    assert forgotten(drive, "p", "a") == ["a"]


def test_so_is_a_repeatable_row_that_could_not_be_made_again_once_all_above_it_is_forgotten():
    drive = begun("u undoable; a loose; r pure a; s kept r u; n default s; z kept n", "u", "a", "r")
    drive.finish("s")
    assert "+begun n" in drive.save("s")
    drive.finish("n")
    assert forgotten(drive, "a", "r") == ["a", "r"]


def test_a_repeatable_row_stays_while_what_it_read_may_yet_be_saved():
    """1. The save of `p` is slow; all that came of it is settled, and `n` has begun: it stands on `f`, `r` and `p`. 2.
    Were `r` forgotten now, `n` would stand on `g` for ever, as nobody could make `r` again. 3. But `p` is saved after
    all: so `g` may be dropped with `u`."""
    text = "p kept; r pure p; u undoable; f kept r; g kept r u; n default f; x kept n g; z kept x"
    drive = begun(text, on_failure="undo")
    drive.finish("p", "r")
    drive.complete("u", "f")
    assert "+begun n" in drive.complete("g")
    assert forgotten(drive, "r") == []
    drive.save("p")
    assert forgotten(drive, "r") == ["r"]
    drive.complete("n")
    drive.raises("x", permanent=True)
    assert drive.undone("u")[-1] == "finish undone failed=x"


# -- what might be taken back ----------------------------------------------------------------------------------------


def test_something_irrevocable_that_nothing_irrevocable_stands_on_is_forgotten():
    drive = begun("n default; m kept n; z kept m", "n", "m")
    assert forgotten(drive, "n") == ["n"]


@pytest.mark.parametrize("on_failure", ["keep", "undo"])
def test_an_undoable_row_whose_failure_was_answered_is_forgotten_and_no_effect_of_it_is_kept(on_failure):
    drive = begun("u undoable; a kept u; f kept a; z kept f", on_failure=on_failure)
    drive.handle("u")
    drive.undone("u")
    drive.save("u")
    drive.complete("a")
    assert forgotten(drive, "u") == ["u"]
    ended = "undone" if on_failure == "undo" else "failed"
    assert drive.raises("f")[-1] == f"finish {ended} failed=f"


def test_a_saved_row_is_forgotten_although_something_beside_it_may_be_undone():
    drive = begun("u undoable; a kept; b kept a; c kept b; z kept c u", "u", "a", "b")
    assert forgotten(drive, "a", "u") == ["a"]


@pytest.mark.parametrize(
    ("text", "completed", "gone"),
    [
        ("v undoable; a loose; s kept a; z kept s v", "v a s", True),
        ("v undoable; a loose; s kept a v; z kept s v", "v a s", False),
        ("v undoable; a loose; p pure v; s kept a p; z kept s v", "v a p s", False),
        ("v undoable; n default; a loose; s kept a n; z kept s v n", "v n a s", True),
        ("v undoable; u undoable; n default u; a loose; s kept a u; z kept s v u n", "v u n a s", True),
    ],
    ids=[
        "nobody who read it can be undone",
        "who read it would be dropped with something undoable",
        "however far above that is",
        "what is irrevocable above it is never undone",
        "neither is what something irrevocable stands on",
    ],
)
def test_a_row_that_could_not_be_made_again_stays_if_who_read_it_might_be_dropped(text, completed, gone):
    drive = begun(text, *completed.split())
    assert (forgotten(drive, "a") == ["a"]) == gone


def test_a_row_above_which_something_undoable_was_answered_for_is_never_dropped_with_that():
    drive = begun("v undoable; h undoable; a loose; s kept a h; z kept s v h", "v", "a")
    drive.handle("h")
    drive.undone("h")
    drive.save("h")
    drive.complete("s")
    assert forgotten(drive, "a", "h") == ["a"]


def test_all_that_one_row_has_read_is_forgotten_together():
    drive = begun("v undoable; a loose; b loose; c loose; s kept a b c; z kept s v", "v", "a", "b", "c", "s")
    assert forgotten(drive, "a", "b", "c") == ["a", "b", "c"]


# -- what an undo reads ----------------------------------------------------------------------------------------------


def test_a_saved_input_of_an_undoable_task_is_released():
    drive = begun("p kept; u undoable p; k kept; z kept u k")
    drive.finish("p", small=False)
    drive.save("p")
    drive.finish("u")
    assert "release p" in drive.save("u")


def test_an_input_that_the_begun_record_carries_is_released():
    drive = begun("p pure; u undoable p; k kept; z kept u k", "p")
    drive.finish("u")
    assert "release p" in drive.save("u")


def test_a_carried_input_stays_if_a_large_one_would_have_to_be_made_of_it_again():
    """`u` carries `p`; but `q`, which is large, is made of `p`."""
    drive = begun("p pure; q pure p; u undoable p q; k kept; z kept u k", "p")
    drive.finish("q", small=False)
    drive.complete("u")
    assert {"p", "q", "u"} <= drive.settled
    assert not drive.run.rows["p"].released


def test_a_large_input_is_released_when_the_undo_cannot_happen_any_more_although_it_stood_fast_before():
    """`n` stands on `p` from the start, and `m` on `u` only later."""
    drive = begun("p pure; u undoable p; f kept p; n default f; m default u; z kept n m")
    drive.finish("p", small=False)
    drive.complete("f", "n")
    drive.finish("u")
    assert "+begun m" in drive.save("u")
    assert not drive.run.rows["p"].released
    assert "release p" in drive.finish("m")


def test_what_has_to_be_made_again_for_an_undo_still_knows_what_it_read():
    """1. `p` is saved and forgotten; `q`, which took the actor in it, is pinned for the undo of `u`. 2. `q` is lost,
    and has to be made again."""
    drive = begun("p kept; q pure takes:p; u undoable q; k kept; z kept u k")
    drive.complete("p", holding="actor")
    drive.finish("q", small=False)
    drive.complete("u")
    assert forgotten(drive, "p", "q") == ["p"]
    drive.lose("q")
    drive.cancel(undo=True)
    assert drive.end("k") == ["+recovering u", "start q privately"]
    assert drive.finish_rebuilding("q") == ["undo u with output"]


def test_a_graph_that_a_crash_took_is_kept_only_for_undos_that_read_its_result():
    """`j` stands on `u`, which has read `p`; only `v` may still be undone."""
    nested = graph("x pure")
    drive = begun("p pure; u undoable p; v undoable; w kept; j default p u w; z kept j v")
    drive.finish("p", graph=nested)
    drive.finish("p/x", small=False)
    drive.complete("u", "v")
    again = drive.reload()
    again.begin()
    again.finish("p", graph=nested)
    again.finish("p/x", small=False)
    again.complete("w")
    assert "release p/x" in again.complete("j")


def test_an_undoable_task_pins_each_task_above_it_once():
    """There are many ways from it to those above, and only so many tasks."""
    layers = [f"s{layer}_{n} pure" for layer in range(1) for n in range(3)]
    for layer in range(1, 12):
        above = " ".join(f"s{layer - 1}_{n}" for n in range(3))
        layers += [f"s{layer}_{n} pure {above}" for n in range(3)]
    drive = Drive(graph("; ".join([*layers, "u undoable s11_0 s11_1 s11_2", "z kept u"])), validate=False)
    drive.begin()
    for layer in layers:
        drive.finish(layer.split()[0], small=False)
    pinned = drive.run.rows["u"].pinned
    assert len(pinned) == len(set(pinned)) == len(layers)


def test_rows_that_stayed_for_an_undoable_task_go_when_it_is_covered():
    drive = Drive(graph("a loose; u undoable; d kept a u; n default u; y kept d; z kept y n"))
    drive.begin()
    drive.complete("a", "u", "d", "y")
    assert {"a", "d"} <= drive.run.rows.keys()
    drive.complete("n")
    assert drive.run.rows.keys().isdisjoint({"a", "d"})


def test_what_may_yet_be_made_again_is_not_forgotten_under_something_irrevocable():
    """`n` stands on `P`, and so on `a`, whose save is on its way. If that fails, `P` cannot be made again for `c`, so
    `c` must not be dropped, nor `v` be undone."""
    drive = begun("v undoable; a kept; P pure a; s kept P; c kept P v; n default s; z kept c n", "v", on_failure="undo")
    drive.finish("a", "P")
    drive.complete("s", "c", "n")
    assert forgotten(drive, "P", "s") == ["s"]
    drive.save_fails("a", permanent=True)
    assert drive.end("z")[-1] == "finish failed failed=a kept=v"
