"""Refs in outputs (design 2.7): parts that are known when an attempt has finished, read with the values that hold them,
and shared by all that pass them on."""

import pytest

from onceflow.core.model import events, records
from tests.core.building import Drive, begun, graph, refs

# -- one more part ---------------------------------------------------------------------------------------------------


def test_whoever_reads_a_declared_part_reads_the_refs_it_holds():
    drive = begun("a pure,parts=2; b kept a.0; c kept a.1; d kept after:a; z kept b c d")
    drive.finish("a", holding="new@0 new@1 new@01")
    reads = {id: drive.run.rows[id].parents for id in "bcd"}
    assert {id: mask for id, [(_, mask)] in reads.items()} == {"b": 0b10101, "c": 0b11010, "d": 0}


def test_a_node_is_saved_when_the_refs_in_its_output_are():
    drive = begun("a kept; n default a")
    assert drive.finish("a", holding="new new") == ["save a", "save a.1", "save a.2"]
    drive.save("a", "a.2")
    assert drive.settled == set()
    assert drive.save("a.1") == ["+saved a.1", "+begun n", "start! n"]
    assert drive.settled == {"a"}


def test_the_first_record_of_an_attempt_tells_the_refs():
    drive = begun("a kept; z kept a")
    drive.finish("a", holding="new new@0")
    assert drive.save("a.1", "a") == ["+saved a.1 with 2 refs", "+saved a"]
    assert drive.journal[0] == records.Saved("a", 1, drive.attempts["a"][0], None, refs("new new"))


def test_an_undoable_task_carries_the_refs_that_it_reads():
    drive = begun("a pure,parts=2; u undoable a.0; v kept a.1; z kept u v")
    assert "+begun u carrying a.0,a.2" in drive.finish("a", holding="new@0 new@1")


def test_a_lost_ref_is_missed_only_by_those_that_read_what_holds_it():
    drive = begun("a pure,parts=2; k kept; b kept a.0 k; c kept a.1 k; z kept b c")
    drive.finish("a", holding="new@0")
    assert drive.lose("a.2") == ["start a"]
    assert drive.complete("k") == ["save k", "start c", "+saved k"]
    assert drive.finish("a", holding="new@0") == ["start b"]


def test_nobody_misses_a_lost_ref_that_nobody_is_to_read():
    drive = begun("a pure,parts=2; b kept a.0; z kept b")
    drive.finish("a", holding="new@1")
    assert drive.lose("a.2") == []
    assert drive.play().status == "succeeded"


def test_a_running_attempt_whose_ref_is_lost_goes_on_and_counts():
    drive = begun("a pure; b kept a; z kept b")
    drive.finish("a", holding="new")
    assert drive.lose("a.1") == []
    assert drive.complete("b") == ["save b", "start z", "+saved b", "release a"]


def test_an_attempt_that_met_a_lost_ref_starts_again_when_the_ref_was_made_again():
    drive = begun("a pure; b kept a; z kept b")
    drive.finish("a", holding="new")
    assert drive.lose("a.1", attempts="b") == ["start a"]
    drive.end("b")
    assert drive.finish("a", holding="new") == ["start b"]


def test_a_node_that_is_dropped_holds_no_refs_any_more():
    drive = begun("a loose; b kept a; c kept a; z kept b c")
    drive.finish("a", holding="new new")
    assert drive.lose("a.1", attempts="b") == ["stop c", "drop a", "drop c", "start a"]
    assert drive.run.rows["a"].every_part == 0b1
    assert [mask for _, mask, _ in drive.run.rows["a"].consumers] == [0b1, 0b1]
    drive.finish("a", holding="new")
    assert drive.run.rows["a"].every_part == 0b11
    assert drive.play().status == "succeeded"


# -- refs that came in -----------------------------------------------------------------------------------------------


def test_a_lost_ref_is_made_again_by_its_maker_and_nothing_between_runs():
    """1. `m` makes a ref, `r` and `s` pass it on, `w` is to read it. 2. It is lost before `w` starts. 3. `m` runs
    again; then `r` and `s` have it again, and `w` starts."""
    drive = begun("m pure; r loose m; s loose r; k kept; w kept s k; z kept w")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1")
    drive.finish("s", holding="r.1")
    assert drive.lose("s.1", "r.1", "m.1") == ["start m"]
    drive.complete("k")
    assert drive.states()["w"] == "waiting"
    assert drive.finish("m", holding="new") == ["start w"]
    assert drive.play().status == "succeeded"


@pytest.mark.parametrize("order", [("m.1", "r.1"), ("r.1", "m.1")])
def test_a_failure_tells_all_that_it_took_in_any_order(order):
    drive = begun("m pure; r loose m; k kept; w kept r k; z kept w")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1")
    assert drive.lose(*order) == ["start m"]


def test_a_maker_that_cannot_be_repeated_takes_all_below_it_along():
    drive = begun("m loose; r kept m; k kept; w kept r k; z kept w")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1")
    drive.save("r")
    assert drive.lose("m.1", "r.1") == ["+recovering m r", "+dropped m r", "drop m", "drop r", "start m"]


def test_a_ref_is_not_lost_while_its_origin_is_saved():
    drive = begun("a kept; r loose a; k kept; w kept r k; z kept w")
    drive.complete("a", holding="new")
    drive.finish("r", holding="a.1")
    assert drive.lose("a", "r.1") == []
    drive.complete("k")
    assert "w" in drive.running


def test_a_chain_of_origins_ends_at_the_first_that_is_there():
    """`s` has lost it, and so has `m`; but `r`, between them, has saved it."""
    drive = begun("m pure; r kept m; s loose r; k kept; w kept s k; z kept w")
    drive.finish("m", holding="new")
    drive.complete("r", holding="m.1")
    drive.finish("s", holding="r.1")
    assert drive.lose("m.1", "s.1") == []
    drive.complete("k")
    assert "w" in drive.running


def test_a_copy_that_is_lost_alone_is_replaced_by_that_of_the_origin():
    """The save that was reading the lost copy may never be heard of again, so it is asked for once more."""
    drive = begun("m pure; r kept m; w kept r; z kept w")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1")
    assert drive.lose("r.1") == ["save r.1"]
    drive.save("r", "r.1")
    assert drive.settled == {"m", "r"}


def test_a_save_of_a_ref_that_was_lost_is_asked_for_when_it_was_made_again():
    drive = begun("m pure; r kept m; w kept r; z kept w")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1")
    drive.save("r")
    assert drive.lose("m.1", "r.1") == ["start m"], "r is to be saved, and it is not settled"
    del drive.saves["r", 1]
    assert drive.finish("m", holding="new") == ["save r.1"]
    assert drive.save("r.1") == ["+saved r.1", "release m"]


def test_an_attempt_may_pass_on_a_ref_that_was_lost_meanwhile():
    """It never looked behind it. The output is done, but the ref is not there until its maker has run."""
    drive = begun("m pure; r kept m; w kept r; z kept w")
    drive.finish("m", holding="new")
    drive.lose("m.1")
    assert drive.finish("r", holding="m.1") == ["save r", "start m"]
    assert drive.finish("m", holding="new") == ["save r.1", "start w"]


def test_an_output_that_is_passed_as_a_ref_is_made_again_by_its_node():
    """`onceflow.ref(m)`: the origin is a declared part. The ref behind it comes along."""
    drive = begun("m pure,parts=2; r loose m.1; k kept; w kept r k; z kept w")
    drive.finish("m", holding="new@1")
    drive.finish("r", holding="m.1 m.2")
    assert drive.lose("m.1", "m.2", "r.1", "r.2") == ["start m"]
    drive.complete("k")
    assert drive.finish("m", holding="new@1") == ["start w"]


def test_one_ref_that_comes_back_on_two_ways_is_made_again_once():
    drive = begun("m pure; r loose m; s loose m; k kept; w kept r s k; z kept w")
    drive.finish("m", holding="new")
    drive.finish("r", "s", holding="m.1")
    assert drive.lose("m", "r.1", "s.1") == ["start m"]
    drive.complete("k")
    assert drive.finish("m", holding="new") == ["start w"]


def test_what_comes_back_on_two_ways_is_handed_on_from_both():
    """`c` has one of its refs again before the other one; `d`, which passes both on, gets both."""
    drive = begun("m pure; q loose m; r loose q; s loose m; c loose r s; d loose c; k kept; w kept d k; z kept w")
    drive.finish("m", holding="new")
    drive.finish("q", "s", holding="m.1")
    drive.finish("r", holding="q.1")
    drive.finish("c", holding="r.1 s.1")
    drive.finish("d", holding="c.1 c.2")
    assert drive.lose("m.1", "q.1", "r.1", "s.1", "c.1", "c.2", "d.1", "d.2") == ["start m"]
    drive.complete("k")
    assert drive.finish("m", holding="new") == ["start w"]


def test_what_runs_again_for_another_reason_is_not_waited_for():
    """`r` lost its value, too, so it runs again, and reads the ref, which `m` has to make first."""
    drive = begun("m pure; r pure,saved m; k kept; w kept r k; z kept w")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1")
    assert drive.lose("m.1", "r") == ["start m"]
    assert drive.finish("m", holding="new") == ["start r"]


def test_what_is_about_to_be_dropped_is_not_saved_when_a_ref_of_it_is_made_again():
    """1. `m` runs again for a ref that `r` passed on. 2. `a`, which `r` read as well, is lost and must be undone.
    3. `m` has finished; but `r` will be dropped."""
    drive = begun("m pure; a undoable; r kept m a; w kept r; z kept w")
    drive.finish("m", holding="new")
    drive.finish("a")
    drive.finish("r", holding="m.1")
    assert drive.lose("m.1", "r.1") == ["start m"]
    assert drive.lose("a") == ["stop w", "+recovering a r w", "undo a"]
    assert drive.finish("m", holding="new") == []


def test_a_private_rebuilding_gives_an_undo_the_refs_as_well():
    drive = begun("m pure; r pure m; u undoable,retries=1 r; z kept u")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1", small=False)
    drive.lose("m", "r.1")
    assert drive.raises("u") == ["+failed u 1", "start m privately"]
    assert drive.finish_rebuilding("m") == ["start r privately"]
    assert drive.finish_rebuilding("r") == ["undo u"]


def test_a_reader_that_was_forgotten_does_not_matter_when_its_parent_runs_again():
    """`n` is irrevocable and has begun, so nothing under it is ever dropped: `s` is forgotten before `m` is."""
    drive = begun("m pure; s kept m; n default s; k kept; v kept m k; z kept n v")
    drive.finish("m", holding="new")
    drive.complete("s", "n")
    assert "s" not in drive.run.rows
    assert drive.lose("m.1") == ["start m"]
    drive.complete("k")
    assert drive.finish("m", holding="new new") == ["start v"]
    assert drive.play().status == "succeeded"


# -- chains that are cut ---------------------------------------------------------------------------------------------


def test_who_passed_a_ref_on_that_its_maker_no_longer_returns_runs_again():
    drive = begun("m pure; r loose m; k kept; w kept r k; z kept w")
    drive.finish("m", holding="new new")
    drive.finish("r", holding="m.2")
    assert drive.lose("m.2", "r.1") == ["start m"]
    assert drive.finish("m", holding="new") == ["drop r", "start r"]
    drive.complete("k")
    assert drive.finish("r", holding="m.1") == ["start w"]


def test_a_chain_may_be_cut_far_above_the_one_that_needs_the_ref():
    """Nobody needs `r` any more; but `s` below it is to be saved, and `r` is where the ref can be had."""
    drive = begun("m pure; r pure m; s kept r; z kept s")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1")
    drive.finish("s", holding="r.1")
    assert drive.lose("m.1", "r.1", "s.1") == ["start m"]
    assert drive.finish("m") == ["start r"]
    assert drive.finish("r", holding="new") == ["save s.1"]


def test_saves_of_an_output_with_other_refs_do_not_count():
    drive = begun("m pure,saved; w kept m; z kept w")
    drive.finish("m", holding="new new")
    drive.save("m", "m.1")
    assert drive.lose("m.2") == ["start m"]
    assert drive.finish("m", holding="new") == ["save m", "save m.1"]
    assert drive.save("m.1") == ["+saved m.1 with 1 refs"]
    assert drive.settled == set()
    drive.save("m")
    assert drive.settled == {"m"}
    again = drive.reload()
    again.begin()
    assert again.settled == {"m"}


def test_saves_that_do_not_count_are_taken_back_all_the_same():
    """The journal has them: after a crash they must not be believed."""
    drive = begun("a loose; m pure,saved a; w kept m a; z kept w")
    drive.finish("a")
    drive.finish("m", holding="new")
    drive.save("m")
    drive.lose("m.1")
    drive.finish("m")
    assert drive.run.rows["m"].saved == 0
    assert drive.lose("a", attempts="w") == ["+recovering a m", "+dropped a m", "drop a", "drop m", "start a"]


# -- forgetting ------------------------------------------------------------------------------------------------------


def test_a_ref_that_travels_down_a_long_run_keeps_no_row_of_it():
    drive = Drive(graph("; ".join(["t0 kept", *(f"t{n} kept t{n - 1}" for n in range(1, 300))])), validate=False)
    drive.begin()
    drive.complete("t0", holding="new")
    for n in range(1, 299):
        drive.complete(f"t{n}", holding=f"t{n - 1}.1")
        assert len(drive.run.rows) <= 301 - n


def test_what_was_released_is_not_saved_when_a_ref_of_it_is_made_again():
    """`r` was settled by its consumer and lost before it was saved; `m` makes the ref again for somebody else."""
    drive = begun("m pure; r kept m; w kept r; k kept; v kept m k; z kept w v")
    drive.finish("m", holding="new")
    drive.finish("r", holding="m.1")
    drive.complete("w")
    assert drive.lose("m.1", "r.1") == ["release r", "start m"]
    assert drive.finish("m", holding="new") == []


def test_a_long_chain_of_origins_is_lost_and_found_without_recursion():
    length = 20_000
    passing = [f"t{n} pure t{n - 1}" for n in range(1, length)]
    text = "; ".join(["m pure", "t0 pure m", *passing, "k kept", f"w kept t{length - 1} k"])
    drive = Drive(graph(text), validate=False)
    drive.begin()
    drive.finish("m", holding="new")
    drive.finish("t0", holding="m.1")
    for n in range(1, length):
        drive.finish(f"t{n}", holding=f"t{n - 1}.1")
    every = tuple((f"t{n}", 1) for n in range(length))
    assert drive.tell(events.Lost((*every, ("m", 1)))) == ["start m"]
    assert drive.finish("m", holding="new") == []
    assert drive.finish("k") == ["save k", "start w"]
