"""A run of which nothing can go on fails, and says what it waited for (design 2.8)."""

from onceflow.core.rules import ending, outputs, recovery
from tests.core.building import begun, graph


def test_it_fails_in_the_same_step():
    drive = begun("u undoable,unsaved; T undoable u; z pure T")
    said = drive.finish("u")
    assert said == ["stuck T: waits for u", "+failed T 1 final", "+finished failed", "finish failed failed=T"]
    assert drive.states() == {"u": "done", "T": "failed", "z": "waiting"}


def test_it_fails_with_what_could_start_but_for_what_may_change():
    """Not with what only waits for that."""
    drive = begun("a loose; p pure a; q kept a; c kept p q")
    drive.finish("a")
    drive.handle("p")
    drive.complete("q", graph=graph("n default"))
    drive.lose("p")
    assert "stuck q/n: waits for q" in drive.finish("p")
    assert drive.states()["c"] == "waiting"


# -- by a mistake of ours ----------------------------------------------------------------------------------------------
#
# None of these happens, by the law. If core were wrong somewhere, a run should fail and say what it can.


def test_what_waits_for_a_save_that_nobody_asked_for_is_told(monkeypatch):
    monkeypatch.setattr(outputs, "ask_to_save", lambda run, row: None)
    drive = begun("w writer,deterministic; b kept w; c kept b", validate=False)
    assert "stuck b: waits for w" in drive.finish("w")


def test_what_waits_for_an_output_that_nobody_makes_again_is_told(monkeypatch):
    monkeypatch.setattr(recovery, "recover", lambda run: run.seeds.clear())
    drive = begun("a pure; d pure; b kept a d; c kept b", validate=False)
    drive.finish("a", "d")
    drive.lose("a", attempts="b")
    assert "stuck b: waits for a" in drive.end("b")


def test_what_waits_in_a_graph_that_is_about_to_end_is_not_told(monkeypatch):
    monkeypatch.setattr(outputs, "ask_to_save", lambda run, row: None)
    drive = begun("e pure,guarding; n kept e; z kept n", validate=False)
    drive.finish("e", graph=graph("x pure; y pure x"))
    assert "stuck n: waits for e/y" in drive.ends("e/x", 1)


def test_a_run_in_which_nothing_waits_fails_with_its_result(monkeypatch):
    monkeypatch.setattr(ending, "succeeded", lambda run: False)
    drive = begun("a kept; z kept a", validate=False)
    drive.complete("a")
    assert "+failed z 1 final" in drive.complete("z")
    assert drive.run.rows["z"].state == "done"
