"""The travel agency in examples/travel: whatever goes wrong, its books are in order."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from onceflow import Engine, Secret
from tests.docs.test_examples import ENVIRONMENT, EXAMPLES

MOST_SECONDS = 300


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "travel", *arguments],
        cwd=folder,
        env=ENVIRONMENT | {"PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{EXAMPLES}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def serve(folder: Path, *arguments: str) -> tuple[str, int]:
    """What it prints, and how many trips that says were ordered."""
    with start(folder, *arguments) as process:
        output, errors = process.communicate(timeout=MOST_SECONDS)
    assert process.returncode == 0, output + errors
    assert output.endswith("the books are in order\n")
    ordered = re.search(r"(\d+) trips ordered", output)
    assert ordered is not None
    return output, int(ordered[1])


def orders(url: str) -> int:
    with psycopg.connect(url) as database:
        found = database.execute("SELECT count(*) FROM trip").fetchone()
    assert found is not None
    return int(found[0])


def test_the_usual_mix_is_mostly_searches(tmp_path: Path) -> None:
    output, ordered = serve(tmp_path, "--requests", "100")

    counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (\w+)", output.splitlines()[0])}
    assert sum(counts.values()) == 100
    assert counts["search"] > counts["recommend"] > 10 > counts["user"] + counts["reserve"]
    assert ordered <= counts["reserve"]


@pytest.mark.parametrize("variant", ["serial", "parallel", "synchronous", "overlapped"])
def test_one_attempt_in_ten_fails_and_each_trip_is_ordered_once(
    tmp_path: Path, postgres_url: str, variant: str
) -> None:
    arguments = ["--database", postgres_url, "--requests", "30", "--reserve-only", "--variant", variant]

    _, ordered = serve(tmp_path, *arguments, "--failures", "0.1")

    assert 0 < ordered == orders(postgres_url)


def test_the_journal_may_be_in_the_same_database(tmp_path: Path, postgres_url: str) -> None:
    arguments = ["--database", postgres_url, "--journal", "database", "--requests", "20", "--reserve-only"]

    _, ordered = serve(tmp_path, *arguments, "--failures", "0.1")

    assert 0 < ordered == orders(postgres_url)
    assert not (tmp_path / ".onceflow" / "journal.db").exists()


def test_a_reservation_that_is_repeated_after_the_end_gives_the_same_answer(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The last room is reserved. 2. The trip is finished. 3. A crash has taken the outcome of 1: it is not saved."""
    from travel import trips, world

    monkeypatch.setenv(world.DATABASE, postgres_url)
    world.create()
    hotel, flight = "hotel 1 Rome", "flight 1 Rome"
    with Engine(tmp_path / "home", workers=1) as engine:
        with world.database() as db:
            db.execute("UPDATE item SET capacity = 1 WHERE id = %s", (hotel,))
            assert world.lock(db, "txn", hotel)
        assert engine.run(trips.reserve.bind("txn", hotel, True))
        assert engine.run(trips.finish.bind("txn", "customer 1", hotel, flight, True, True))
        assert engine.run(trips.reserve.bind("txn", hotel, True))
    world.close()


def test_a_customer_is_known_by_the_password(tmp_path: Path, postgres_url: str) -> None:
    from travel import looking, world

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(world.DATABASE, postgres_url)
        world.create()
        with Engine(tmp_path / "home", workers=1) as engine:
            given = ["password 1", "password 2"]
            assert [engine.run(looking.user.bind("customer 1", Secret(each))) for each in given] == [True, False]
        world.close()


def test_an_agency_that_is_killed_goes_on_with_its_trips(tmp_path: Path, postgres_url: str) -> None:
    arguments = ["--database", postgres_url, "--requests", "30", "--reserve-only"]
    with start(tmp_path, *arguments) as process:
        deadline = time.monotonic() + MOST_SECONDS
        while process.poll() is None and not _has_orders(postgres_url, 5):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()

    _, ordered = serve(tmp_path, *arguments)

    assert 5 <= ordered == orders(postgres_url)


def _has_orders(url: str, count: int) -> bool:
    try:
        return orders(url) >= count
    except psycopg.errors.UndefinedTable:
        return False
