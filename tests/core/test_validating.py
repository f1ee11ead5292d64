"""Validate mode notices what is not as the law defines it."""

import pytest

from onceflow.core.model import events
from tests.core.building import Drive, graph

NOTHING = events.Lost()


def in_the_middle(validate=True):
    """`a` is settled, `b` done and not saved, `s` saved and not settled; `m`, `n` run, `w` waits for `b`."""
    text = "a kept; b kept a; s kept b; m kept a; n default a; w default b; z kept s m n w"
    drive = Drive(graph(text), validate=validate)
    drive.begin()
    drive.complete("a")
    drive.finish("b")
    drive.complete("s")
    return drive


def test_it_is_content_with_a_run_that_keeps_the_law():
    drive = in_the_middle()
    assert drive.tell(NOTHING) == []
    assert drive.states() == {
        "a": "done", "b": "done", "s": "done", "m": "running", "n": "running", "w": "waiting", "z": "waiting"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("node", "flag"),
    [
        ("a", "settled"),
        ("b", "settled"),
        ("s", "settled"),
        ("a", "quiet"),
        ("b", "quiet"),
        ("s", "reproducible"),
        ("b", "reproducible"),
    ],
)
def test_it_notices_a_wrong_flag(node, flag):
    drive = in_the_middle()
    row = drive.run.rows[node]
    setattr(row, flag, not getattr(row, flag))
    with pytest.raises(AssertionError):
        drive.tell(NOTHING)


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("counter", ["unquiet", "unsettled", "irreproducible", "missing"])
@pytest.mark.parametrize("node", ["b", "s", "w", "z"])
def test_it_notices_a_wrong_counter(node, counter, by):
    drive = in_the_middle()
    row = drive.run.rows[node]
    setattr(row, counter, getattr(row, counter) + by)
    with pytest.raises(AssertionError, match=f"{node}: {counter} is kept as"):
        drive.tell(NOTHING)


@pytest.mark.parametrize("counter", ["running", "saving"])
def test_it_notices_a_wrong_count_of_the_run(counter):
    drive = in_the_middle()
    setattr(drive.run, counter, getattr(drive.run, counter) + 1)
    with pytest.raises(AssertionError, match=f"the run: {counter} is kept as"):
        drive.tell(NOTHING)


def test_it_notices_an_effect_without_a_begun_record():
    drive = in_the_middle()
    drive.run.rows["n"].begun = False
    with pytest.raises(AssertionError, match="n runs and has not begun"):
        drive.tell(NOTHING)


def test_it_notices_a_task_that_may_start_and_was_not_started():
    drive = in_the_middle()
    drive.run.rows["m"].state = "waiting"
    drive.run.running -= 1
    with pytest.raises(AssertionError, match="m may start, but was not started"):
        drive.tell(NOTHING)


def test_it_notices_a_zombie_that_the_run_does_not_know():
    drive = in_the_middle()
    drive.run.rows["m"].zombies = {1}
    with pytest.raises(AssertionError):
        drive.tell(NOTHING)


def test_without_it_nothing_is_compared():
    drive = in_the_middle(validate=False)
    drive.run.rows["b"].unquiet += 1
    assert drive.tell(NOTHING) == []
