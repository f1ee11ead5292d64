"""`onceflow demo`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from onceflow.cli.main import main
from onceflow.testing.demo import points, proof, show
from onceflow.testing.demo.ledger import Ledger
from onceflow.testing.demo.points import Point
from onceflow.testing.demo.traveller import Came
from onceflow.testing.demo.trips import EFFECTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.create()
    return ledger


def enter_all(ledger):
    for task in proof.OUTSIDE:
        ledger.enter("ann", task, f"run/{task}/0", task, 300)


def broken(ledger, trip="ann", status="succeeded", kills=()):
    """The claims that do not hold."""
    return [claim.text for claim in proof.prove(ledger, trip, Came(status, ""), kills) if not claim.holds]


# -- the whole of it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [3, 8])
def test_trips_survive_the_kills_of_a_seed(seed):
    done = subprocess.run(
        [sys.executable, "-m", "onceflow", "demo", "--seed", str(seed)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stderr) == (0, "")
    for point in [point for plan in points.plan(seed).values() for point in plan]:
        assert point.story in done.stdout
    assert "✓ each of 6 effects is there exactly once" in done.stdout
    assert "✓ everything is taken back but one mail" in done.stdout
    assert done.stdout.endswith("Proved: 12 of 12 claims hold.\n")
    assert "\x1b" not in done.stdout


def test_a_proof_that_fails_is_exit_code_1(monkeypatch):
    monkeypatch.setattr(show, "show", lambda console, seed: seed != 7)
    assert CliRunner().invoke(main, ["demo", "--seed", "7"]).exit_code == 1
    assert CliRunner().invoke(main, ["demo"]).exit_code == 0


def test_ctrl_c_ends_it_quietly(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(show, "show", interrupted)
    result = CliRunner().invoke(main, ["demo"])
    assert (result.exit_code, result.output) == (130, "stopped\n")


def test_the_law_is_shown_if_asked_for(monkeypatch):
    monkeypatch.setattr(show, "show", lambda console, seed: True)
    result = CliRunner().invoke(main, ["demo", "--law"])
    assert result.exit_code == 0
    assert "UnsafeGraph" in result.output
    assert "no effect lost, none doubled, none left behind" in result.output


def test_a_process_that_ends_without_being_killed_is_no_kill(monkeypatch, capfd):
    monkeypatch.setattr(show.traveller, "__name__", "onceflow.no_such_module")
    result = CliRunner().invoke(main, ["demo", "--seed", "3"])
    assert result.exit_code == 1
    assert "SIGKILL" not in result.output
    assert "Not proved" in result.output
    assert "no_such_module" in capfd.readouterr().err


# -- where it kills ----------------------------------------------------------------------------------------------------


def test_a_seed_always_means_the_same_points():
    assert points.plan(11) == points.plan(11)
    assert len({str(points.plan(seed)) for seed in range(50)}) > 10


def test_every_seed_kills_in_an_undo_and_around_something_irrevocable():
    for seed in range(200):
        plan = points.plan(seed)
        for trip in plan.values():
            assert any(point.moment in ("undoing", "undone") for point in trip)
        assert any(EFFECTS[point.task] == "irrevocable" for point in plan["ann"])


def test_a_point_travels_through_the_environment(monkeypatch):
    point = Point("undone", "book_room")
    monkeypatch.setenv(points.ARMED, str(point))
    assert points.armed() == point
    monkeypatch.setenv(points.ARMED, "")
    assert points.armed() is None


# -- the ledger and the proof ------------------------------------------------------------------------------------------


def test_the_ledger_takes_two_requests_with_one_key_for_one(ledger):
    ledger.enter("ann", "pay", "run/pay/0", "paid", 300)
    ledger.enter("ann", "pay", "run/pay/0", "paid", 300)
    (entry,) = ledger.entries("ann")
    assert (entry.asked, entry.taken_back) == (2, False)
    assert [request.changed for request in ledger.requests("ann")] == [True, False]


def test_taking_back_what_never_happened_is_harmless(ledger):
    ledger.take_back("ann", "book_room", "run/book_room/0")
    assert ledger.entries("ann") == []
    assert [(request.undo, request.changed) for request in ledger.requests("ann")] == [(True, False)]


def test_the_proof_holds_for_a_calm_trip(ledger):
    enter_all(ledger)
    assert broken(ledger) == []


def test_the_proof_sees_an_effect_that_is_missing_or_doubled(ledger):
    assert "each of 6 effects is there exactly once" in broken(ledger)
    enter_all(ledger)
    ledger.enter("ann", "pay", "another key", "paid", 300)
    assert broken(ledger) == ["each of 6 effects is there exactly once"]


def test_the_proof_sees_two_offers(ledger):
    enter_all(ledger)
    ledger.take_back("ann", "book_room", "run/book_room/0")
    ledger.enter("ann", "book_room", "run/book_room/1", "room", 299)
    assert broken(ledger) == ["all of them belong to one and the same offer"]


def test_the_proof_sees_that_something_irrevocable_was_taken_back(ledger):
    enter_all(ledger)
    ledger.take_back("ann", "pay", "another key")
    assert broken(ledger) == ["nothing irrevocable was ever taken back"]


def test_the_proof_sees_a_late_attempt_after_an_undo(ledger):
    enter_all(ledger)
    ledger.take_back("ann", "book_room", "run/book_room/0")
    ledger.enter("ann", "book_room", "run/book_room/0", "room", 300)
    ledger.enter("ann", "book_room", "run/book_room/1", "room", 300)
    assert "nothing came again after it was taken back" in broken(ledger, kills=[Point("after", "book_room")])


def test_the_proof_sees_more_repetitions_than_kills_explain(ledger):
    enter_all(ledger)
    ledger.enter("ann", "pay", "run/pay/0", "paid", 300)
    assert len(broken(ledger)) == 1
    assert broken(ledger, kills=[Point("after", "pay")]) == []


def test_the_proof_sees_what_an_undone_trip_left_behind(ledger):
    ledger.enter("bob", "send_greeting", "run/send_greeting/0", "mail", 300)
    assert broken(ledger, "bob", "undone") == []
    ledger.enter("bob", "book_room", "run/book_room/0", "room", 300)
    assert len(broken(ledger, "bob", "undone")) == 1
    assert broken(ledger, "bob", "failed")[0] == "the run is undone"
