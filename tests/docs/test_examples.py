"""Every program in examples/ runs as a user would run it, and says what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SHARED = {"plan.py"}


def output_of(example: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / example)],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def rows_of(output: str) -> dict[str, list[str]]:
    """The plan in the output: task → effect and whether it is saved."""
    table = output[output.index("task ") :].split("\n\n")[0]
    return {task: rest[:2] for task, *rest in (line.split() for line in table.splitlines()[1:])}


def test_the_trip_is_safe_and_shows_its_plan() -> None:
    output = output_of("trip_booking.py")
    assert output.startswith("The trip is safe.")
    assert rows_of(output) == {
        "find_offer": ["none", "yes"],
        "total": ["none", "no"],
        "reserve_payment": ["undoable", "yes"],
        "book_flight": ["undoable", "yes"],
        "book_room": ["undoable", "yes"],
        "pay": ["irrevocable", "yes"],
        "send_tickets": ["irrevocable", "yes"],
    }


def test_the_trip_is_refused_if_the_offer_is_not_saved() -> None:
    output = output_of("trip_booking.py")
    assert "3 tasks could never start" in output
    assert "To free book_room, set checkpoint=True on find_offer" in output


def test_the_pipeline_saves_the_chosen_model_and_no_other() -> None:
    output = output_of("ml_pipeline.py")
    assert output.startswith("The pipeline is safe")
    rows = rows_of(output)
    assert [rows[task] for task in ("train", "train_1", "train_2")] == [["none", "no"]] * 3
    assert rows["choose"] == ["none", "yes"]
    assert "(after write_report)" in output


def test_the_pipeline_is_refused_if_no_model_is_saved() -> None:
    assert "To free register, set checkpoint=True on choose" in output_of("ml_pipeline.py")


@pytest.mark.parametrize("example", ["trip_booking.py", "ml_pipeline.py"])
def test_an_example_says_that_it_does_not_run_its_graph(example: str) -> None:
    assert "It does not run it" in (EXAMPLES / example).read_text("utf-8")


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - SHARED == {"trip_booking.py", "ml_pipeline.py"}
