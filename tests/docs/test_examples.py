"""Every program in examples/ runs as a user would run it, says what it should, and does nothing twice."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("ONCEFLOW_")},
    "PYTHONPATH": str(ROOT / "src"),
    "PYTHONIOENCODING": "utf-8",
    "PYTHONWARNINGS": "error,ignore::ResourceWarning",
}


def start(folder: Path, example: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / example), *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def output_of(folder: Path, example: str, *arguments: str, status: int = 0) -> str:
    with start(folder, example, *arguments) as process:
        output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (status, "")
    return output


def bookings(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "bookings.db")) as database:
        return sorted(what.partition(" ")[0] for (what,) in database.execute("SELECT what FROM bookings"))


def test_a_trip_is_booked_once_however_often_it_is_started(tmp_path: Path) -> None:
    first = output_of(tmp_path, "trip_booking.py", "ann", "Rome")
    assert first == "sent to ann: flight to Rome for ann, room in Rome for ann\n"
    booked = bookings(tmp_path)
    assert len(booked) == 5
    assert output_of(tmp_path, "trip_booking.py", "ann", "Rome") == first
    assert bookings(tmp_path) == booked


def test_a_trip_that_cannot_be_paid_is_taken_back(tmp_path: Path) -> None:
    output = output_of(tmp_path, "trip_booking.py", "bob", "Oslo", status=1)
    assert output.startswith("no trip: bob cannot pay ")
    assert output.endswith("everything was taken back\n")
    assert bookings(tmp_path) == []


@pytest.mark.parametrize("seconds", [0.2, 0.35, 0.5])
def test_a_trip_that_is_killed_goes_on(tmp_path: Path, seconds: float) -> None:
    with start(tmp_path, "trip_booking.py", "ann", "Rome") as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)  # wherever that may be: the outcome is the same
        process.kill()
    assert "flight to Rome for ann" in output_of(tmp_path, "trip_booking.py", "ann", "Rome")
    assert len(bookings(tmp_path)) == 5


def test_the_pipeline_releases_the_chosen_model_and_remembers_it(tmp_path: Path) -> None:
    first = output_of(tmp_path, "ml_pipeline.py")
    assert first.startswith("all traffic goes to forecast with slope ")
    assert "\nreport: learning rate " in first
    assert "To free register, set checkpoint=True on choose" in first
    assert output_of(tmp_path, "ml_pipeline.py") == first
    assert (tmp_path / "traffic.txt").read_text() in first


def test_invoices_are_sent_once_and_the_failed_one_is_named(tmp_path: Path) -> None:
    first = output_of(tmp_path, "invoices.py")
    assert first.count("sent: ") == 5
    assert "not sent: NothingToPay('cem')" in first
    assert first.endswith("to look at: invoice-2026-08-cem\n")
    sent = sorted(path.name for path in (tmp_path / "outbox").iterdir())
    assert len(sent) == 4
    assert output_of(tmp_path, "invoices.py") == first
    assert sorted(path.name for path in (tmp_path / "outbox").iterdir()) == sent


def test_two_programs_at_once_send_each_invoice_once(tmp_path: Path) -> None:
    with start(tmp_path, "invoices.py") as one, start(tmp_path, "invoices.py") as other:
        outputs = one.communicate(timeout=120), other.communicate(timeout=120)
    assert [errors for _, errors in outputs] == ["", ""]
    assert outputs[0] == outputs[1]
    assert len(list((tmp_path / "outbox").iterdir())) == 4


def figures(folder: Path) -> list[tuple[str, str, int]]:
    with closing(sqlite3.connect(folder / "warehouse.db")) as database:
        return sorted(database.execute("SELECT month, what, cents FROM figures"))


def test_a_year_of_sales_is_published_and_only_what_was_extracted_is_saved(tmp_path: Path) -> None:
    first = output_of(tmp_path, "etl.py", "20000")
    assert first.startswith("828 figures of 12 months are in warehouse.db\n")
    sizes = re.search(r"(\S+) MB of columns were made, (\S+) MB saved", first)
    assert sizes is not None
    assert sizes[1] == "6.7"
    assert 5.6 <= float(sizes[2]) < 6.0
    assert output_of(tmp_path, "etl.py", "20000") == first
    found = figures(tmp_path)
    assert len(found) == 828
    for month in {month for month, _, _ in found}:
        revenue = [sum(cents for of, what, cents in found if of == month and what in group) for group in GROUPS]
        assert revenue[0] == revenue[1] == revenue[2] > 0


GROUPS = [{f"shop {n}" for n in range(40)}, {f"hour {n}" for n in range(24)}, {"tea", "coffee", "cups", "books"}]
"""Each of them is the whole revenue."""


@pytest.mark.parametrize("seconds", [0.5, 0.8, 1.1])
def test_a_year_of_sales_that_is_killed_goes_on(tmp_path: Path, seconds: float) -> None:
    with start(tmp_path, "etl.py", "20000") as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)  # wherever that may be: the outcome is the same
        process.kill()
    output_of(tmp_path, "etl.py", "20000")
    assert len(figures(tmp_path)) == 828


def test_the_tests_of_an_example_pass(tmp_path: Path) -> None:
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "test_trip_booking.py")],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
    )
    assert tests.returncode == 0, tests.stdout
    assert "9 passed" in tests.stdout
    assert list(tmp_path.iterdir()) == []


def test_training_gives_the_same_weights_whatever_is_saved(tmp_path: Path) -> None:
    selective, none = (output_of(tmp_path, "training.py", mode) for mode in ("selective", "none"))
    assert re.fullmatch(r"selective: the weights are [0-9a-f]{16}\n", selective)
    assert none == selective.replace("selective", "none")


def test_every_example_is_tested() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")} | {
        path.parent.name for path in EXAMPLES.glob("*/__main__.py")
    }
    assert names == {
        "agent.py",
        "approval.py",
        "etl.py",
        "invoices.py",
        "ml_pipeline.py",
        "nightly_batch.py",
        "nightly_report.py",
        "order_saga.py",
        "test_trip_booking.py",
        "training.py",
        "travel",
        "trip_booking.py",
    }


def test_an_order_is_shipped_when_somebody_has_approved_it(tmp_path: Path) -> None:
    assert "tea is packed; please approve" in output_of(tmp_path, "approval.py", "order", "tea")
    assert output_of(tmp_path, "approval.py", "approve", "tea") == "tea shipped, as ann said\n"


def test_a_report_is_written_for_each_night_that_is_missing(tmp_path: Path) -> None:
    nights = ("2026-03-28", "2026-03-31")
    assert output_of(tmp_path, "nightly_report.py", *nights) == (
        "nightly-report@2026-03-28T01:30:00Z succeeded\n"
        "nightly-report@2026-03-29T01:00:00Z succeeded\n"
        "nightly-report@2026-03-30T00:30:00Z succeeded\n"
        "3 were missing\n"
    )
    assert output_of(tmp_path, "nightly_report.py", *nights) == "0 were missing\n"
    written = sorted(path.name for path in (tmp_path / "reports").iterdir())
    assert written == ["2026-03-27.txt", "2026-03-28.txt", "2026-03-29.txt"]


def rows(folder: Path, file: str, query: str) -> list[str]:
    with closing(sqlite3.connect(folder / file)) as database:
        return [row[0] for row in database.execute(query)]


def test_an_order_waits_for_its_parcel_and_is_done_once(tmp_path: Path) -> None:
    for _ in range(2):
        assert output_of(tmp_path, "order_saga.py", "order", "7", "ann", "book") == "order 7 is on its way\n"
    arrived = output_of(tmp_path, "order_saga.py", "delivered", "7")
    assert arrived == "enjoy your book, which a neighbour has taken\n"
    assert output_of(tmp_path, "order_saga.py", "order", "7", "ann", "book") == arrived
    assert rows(tmp_path, "shop.db", "SELECT what FROM books") == [
        "7: book reserved",
        "7: 12 euros from ann",
        "7: book given to the parcel service",
        "7: letter to ann: enjoy your book, which a neighbour has taken",
    ]


def test_an_order_that_nobody_carries_is_taken_back_in_reverse(tmp_path: Path) -> None:
    output = output_of(tmp_path, "order_saga.py", "order", "9", "ann", "piano")
    assert output == "sorry, no piano: every carrier said no\n"
    assert rows(tmp_path, "shop.db", "SELECT what FROM books")[:4] == [
        "9: piano reserved",
        "9: 4000 euros from ann",
        "9: 4000 euros back to ann",
        "9: piano back on its shelf",
    ]


def test_an_agent_asks_and_goes_on_with_what_it_remembers(tmp_path: Path) -> None:
    assert output_of(tmp_path, "agent.py") == "it needs advice about '3-eve'\n"
    assert output_of(tmp_path, "agent.py", "advise", "no") == "1-ann: answer\n2-bob: refund\n3-eve: answer\n"
    assert [file.read_text() for file in sorted((tmp_path / "outbox").iterdir())] == [
        "How nice to hear from you.\n",
        "We are sorry (1 so far). You get 30 euros.\n",
        "We have to look into this.\n",
    ]


def test_a_batch_that_is_killed_bills_every_customer_once(tmp_path: Path) -> None:
    with start(tmp_path, "nightly_batch.py", "2026-03-28", "12") as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.5)  # wherever that may be: the outcome is the same
        process.kill()
    report = "2026-03-28: 11 of 12 paid 415.78; unpaid: customer-10\n"
    assert output_of(tmp_path, "nightly_batch.py", "2026-03-28", "12") == report
    paid = rows(tmp_path, "bank.db", "SELECT customer FROM payments")
    assert len(paid) == len(set(paid)) == 11
