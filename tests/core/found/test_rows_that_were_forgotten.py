"""Found by reading: what was overlooked where rows had been forgotten, or were about to be."""

import pytest

from onceflow.core.rules import starting
from tests.core.building import Drive
from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


@pytest.mark.parametrize("lost", ["T/a", ""])
def test_what_read_the_same_as_something_that_a_transaction_takes_back_may_be_taken_back_with_it(lost):
    """T/v was handed out, and was made anew: T/d, which comes of T/u, has to read T/a again."""
    drive = Drive(graph("T kept,transaction; z kept T"))
    drive.begin()
    drive.complete("T", graph=graph("a loose; u undoable; k kept; v kept a; w kept k; d kept a u k; f kept v w d"))
    drive.finish("T/a")
    drive.complete("T/u", "T/k", "T/v", "T/w", "T/d")
    if lost:
        drive.lose(lost)
    assert drive.quiet >= {"T/v", "T/w"}
    assert [id for id in drive.run.rows if starting.may_be_taken_back(drive.run, id)] == [
        "T/a",
        "T/u",
        "T/v",
        "T/d",
        "T/f",
    ]
    drive.ends("T/f", 1, again=True)
    drive.undone("T/u")
    answer = drive.elapse("T")
    assert ("+recovering T/a T/v" in answer) == bool(lost)
    assert drive.play().status == "succeeded"


def test_what_was_being_saved_when_its_graph_ended_is_forgotten():
    """e/i/b was never released, and stayed in memory until the run had ended."""
    drive = Drive(graph("e kept; y kept e; z kept y"))
    drive.begin()
    drive.complete("e", graph=graph("i kept; k kept i; x kept; s kept k x"))
    drive.complete("e/i", graph=graph("b kept"))
    drive.finish("e/i/b")
    drive.complete("e/k")
    assert "e/i" not in drive.run.rows
    drive.ends("e/x", 1)
    assert "release e/i/b" in drive.save("e/s")
    drive.complete("y")
    assert drive.run.rows.keys() == {"y", "z"}
    drive.save("e/i/b")
    assert drive.play().status == "succeeded"


def test_a_chunk_that_was_forgotten_is_in_flight_again_when_the_result_of_its_graph_is_lost():
    """L/c3 starts while L/c1~2/t runs again for L/c1, and one may be in flight."""
    drive = Drive(graph("L kept; z kept L"))
    drive.begin()
    drive.complete("L", graph=graph("c1 kept,turn=1,limit=1; c2 kept,turn=2; c3 kept,turn=3; g kept c1 c2 c3"))
    drive.complete("L/c1", graph=graph("s kept"))
    drive.complete("L/c1/s", graph=graph("t kept"))
    assert "L/c1" not in drive.run.rows
    drive.finish("L/c1~2/t")
    drive.lose("L/c1~2/t")
    assert drive.running.keys() == {"L/c1~2/t", "L/c2"}
    drive.complete("L/c2")
    assert drive.running.keys() == {"L/c1~2/t"}
    drive.complete("L/c1~2/t")
    assert drive.running.keys() == {"L/c3"}
    assert drive.play().status == "succeeded"


def test_a_chunk_that_was_forgotten_is_in_flight_again_when_a_crash_has_taken_a_part_of_the_result_of_its_graph():
    """L/c2 starts while L/c1~2/t runs again for L/c1, and one may be in flight."""
    drive = Drive(graph("L kept; z kept L"))
    drive.begin()
    drive.complete("L", graph=graph("c1 kept,parts=2,turn=1,limit=1; c2 kept,turn=2; g kept c1 c2"))
    drive.complete("L/c1", graph=graph("s kept,parts=2"))
    drive.complete("L/c1/s", graph=graph("t kept,parts=2"))
    drive.finish("L/c1~2/t")
    drive.save("L/c1~2/t")
    drive = drive.reload()
    drive.begin()
    assert drive.running.keys() == {"L/c1~2/t"}
    drive.complete("L/c1~2/t")
    assert drive.running.keys() == {"L/c2"}
    assert drive.play().status == "succeeded"


def test_what_something_irrevocable_stands_on_is_not_taken_back_for_the_sake_of_others_that_read_the_same():
    """As something irrevocable has begun below T/v, it stands on T/a, hence on T/d, and on T/u."""
    drive = Drive(graph("T kept,transaction; z kept T"))
    drive.begin()
    drive.complete("T", graph=graph("a loose; u undoable; v kept a; d kept a u; n default v; x kept a; f kept n d x"))
    drive.finish("T/a")
    drive.complete("T/u", "T/v", "T/d", "T/x")
    assert starting.may_be_taken_back(drive.run, "T/v")
    assert starting.may_be_taken_back(drive.run, "T/x")
    drive.complete("T/n")
    assert not starting.may_be_taken_back(drive.run, "T/v")
    assert not starting.may_be_taken_back(drive.run, "T/x")
    drive.lose("T/a")
    assert "recovering" not in " ".join(drive.ends("T/f", 1, again=True) + drive.elapse("T"))
    assert drive.play().status == "succeeded"


FORGOTTEN = {
    "what it reads itself": (
        graph("a loose; f kept a; p loose a; u undoable; g kept p u; q default f; z kept g q"),
        "finish a; finish u; save u.0; finish f; finish p; finish g; save f.0; save g.0; finish q; save q.0",
    ),
    "what another parent is read by": (
        graph("a loose; f kept a; u undoable; b loose; h kept a b; k kept b u; q default f; z kept h k q"),
        """finish a; finish b; finish u; save u.0; finish f; finish h; finish k; save k.0; save h.0; save f.0; finish q
        save q.0""",
    ),
    "what was abandoned": (
        graph(
            "e kept; j kept; q default j; z kept e q",
            returning={
                "e": [
                    graph("r loose; f kept,aside r; u undoable; w kept u; k kept; h kept r k; s kept w h", sink="s"),
                ]
            },
        ),
        """finish e; save e.0; finish e/r; finish e/f; save e/f.0; finish e/u; save e/u.0; answer e/w for 1; save e/s.0
        finish j joining e/f; save j.0; finish q; save q.0""",
    ),
}


@pytest.mark.parametrize(("whole", "script"), FORGOTTEN.values(), ids=FORGOTTEN)
def test_what_something_irrevocable_will_stand_on_through_others_is_remembered(whole, script):
    """A saga took `u` back: `a` (`e/r`), through which `q` stands on it, had been forgotten before `q` began. `resume`
    would have had to run `a` again under `q`."""
    script = script.replace("; ", "\n")
    status = play_script(
        whole, f"{script}\nfail z for good\nend e/k!late\nundone u!undo\nundone e/u!undo", on_failure="undo"
    )
    assert status == "failed"
    assert play_script(whole, f"{script}\nfail z for good\nend e/k!late\ncarry out finish\nresume", on_failure="undo")
