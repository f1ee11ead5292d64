"""Prefix replay (design 6.2): a crash after any record of a journal leads to the same end and the same effects."""

import pytest

from onceflow.core.model import records
from tests.core.building import graph
from tests.core.replaying import Replay


def lose_in_the_middle(replay):
    replay.complete("a", "u", "s", "v", "w")
    replay.lose("a")


def lose_twice(replay):
    lose_in_the_middle(replay)
    replay.undone("w")
    replay.lose("u", attempts="v")


def retry(replay):
    replay.raises("u")
    replay.undone("u")
    replay.elapse("u")
    replay.lose(attempts="u")
    replay.end("u")
    replay.undone("u")
    replay.complete("u")
    replay.raises("n")


def lose_large(replay):
    replay.complete("a", "q")
    replay.finish("p", small=False)
    replay.finish("u")
    replay.lose("p", "q", "u")


def lose_expander(replay):
    replay.complete("a")
    replay.complete("e", graph=replay.expansions["e"])
    replay.complete("e/u", "e/y")
    replay.lose("a")


DEEP = "a loose; u undoable; s kept a; v undoable s u; w undoable v; k kept; l pure k; z kept a w l"
NESTED = {"e": graph("u undoable; y pure u"), "f": graph("n default; i kept n; j pure i"), "f/i": graph("m default")}
SCRIPTS = {
    "defaults": ("a default; b default a; c default a; d default b c", None, {}),
    "shape 1": ("a loose; s kept a; n default s; m kept a; z pure n m", None, {}),
    "shape 2": ("a loose; c loose; b kept a c; e kept a; d kept c; n default e; z pure b d n", None, {}),
    "parts": ("a kept,parts=3; u undoable a.0 a.2; n default a.1; z pure,parts=2 u n", None, {}),
    "done records": ("a default,unsaved; u undoable,unsaved after:a; n default after:u; z pure n", None, {}),
    "pure between": ("a pure; u undoable a; p pure u; n default p; q pure p n; v undoable q; z kept v", None, {}),
    "recovery": (DEEP, lose_in_the_middle, {}),
    "two recoveries": (DEEP, lose_twice, {}),
    "retries": ("u undoable,retries=1; n default,retries=1 u; z kept n", retry, {}),
    "large": ("a kept; p pure a; q pure; u undoable p q; k kept; z kept u k", lose_large, {"large": "pq"}),
    "saga": ("u undoable; v undoable u; n default; w undoable n; f kept v w; z kept f", None, {"raising": "f"}),
    "nested": ("a kept; e default a; f undoable e; z kept f", None, {"expansions": NESTED}),
    "nested, dropped": ("a loose; e kept a; k kept; m kept a k; z kept e m", lose_expander, {"expansions": NESTED}),
}


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_prefix_of_a_journal_leads_to_the_same_end(name, late):
    text, script, settings = SCRIPTS[name]
    on_failure = "undo" if "raising" in settings else "keep"
    whole = Replay(graph(text), on_failure=on_failure, **settings)
    whole.begin()
    if script is not None:
        script(whole)
    whole.play()
    assert whole.status == ("undone" if "raising" in settings else "succeeded")
    whole.check()
    for count in range(len(whole.journal) + 1):
        again = whole.crash(count, late=late)
        assert again.play().status == whole.status
        again.check()
        assert again.happened.keys() == whole.happened.keys()
        assert again.effects.keys() == whole.effects.keys()


def test_two_crashes_lead_to_the_same_end_as_none():
    whole = Replay(graph(DEEP))
    whole.begin()
    lose_in_the_middle(whole)
    whole.play()
    for first in range(len(whole.journal)):
        once = whole.crash(first, late=True)
        once.play()
        for second in range(first, len(once.journal)):
            twice = once.crash(second, late=True)
            assert twice.play().status == "succeeded"
            twice.check()


@pytest.mark.parametrize("undo", [True, False])
def test_every_prefix_of_a_cancelled_run_ends_as_it_was_told(undo):
    whole = Replay(graph("u undoable; v undoable; n default u; w undoable u; k kept; z kept n w v k"))
    whole.begin()
    whole.complete("u", "v")
    whole.cancel(undo=undo)
    whole.play()
    assert whole.status == "cancelled"
    cancelled = whole.journal.index(records.Cancelled(undo))
    for count in range(len(whole.journal) + 1):
        again = whole.crash(count, late=True)
        assert again.play().status == ("cancelled" if count > cancelled else "succeeded")
        again.check()
        if count > cancelled:
            assert again.effects.keys() == whole.effects.keys()
