"""How a run is stopped and ends (design 2.8): what is kept, named and taken back when several things happen at once."""

from tests.core.building import Drive, begun, graph
from tests.core.test_ending import inside


def test_a_failed_run_names_the_effects_that_a_transaction_could_not_take_back():
    drive = inside("e kept,transaction; n default e", "u undoable; i default u; a kept i; c kept a")
    drive.complete("e/u", "e/i")
    assert drive.raises("e/a")[-1] == "finish failed failed=e/a kept=e/u"


def test_a_failure_in_a_run_that_is_cancelled_with_undo_leaves_the_undo_as_it_is():
    drive = begun("u undoable; n default; z kept u n", "u")
    assert drive.cancel(undo=True) == ["+cancelled with undo", "withdraw n"]
    assert "undo u with output" in drive.raises("n")


def test_a_run_that_fails_in_a_transaction_ends_the_undoable_attempts_in_it_and_no_others():
    # given undoable attempts inside and outside of a transaction
    drive = inside("e kept,transaction; o undoable; n default e o", "a kept; u undoable; c kept a u")
    # when something in the transaction fails
    answer = drive.raises("e/a")
    # then those inside are ended and undone, and those outside may finish
    assert answer == ["+failed e/a 1 final", "stop e/u"]
    assert drive.end("e/u") == ["undo e/u"]
    assert drive.running.keys() == {"o"}


def test_a_failure_in_a_transaction_that_has_its_result_takes_nothing_in_it_back():
    drive = Drive(graph("t kept,transaction; z kept t"))
    drive.begin()
    drive.complete("t", graph=graph("u undoable; x pure,saved; s kept u x"))
    drive.complete("t/u")
    drive.finish("t/x", "t/s")
    assert drive.lose("t/x") == ["start t/x"]
    assert drive.raises("t/x", permanent=True) == ["+failed t/x 1 final", "stop z"]
    drive.play()
    assert drive.status == "failed"
    assert not drive.undos
    assert not [record for record in drive.journal if type(record).__name__ in ("Recovering", "Undone")]
