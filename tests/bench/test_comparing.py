"""Comparisons: whose turn it is, ratios, and what becomes of those who cannot be measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import comparing, limits, programs
from bench.comparing import Side
from bench.rows import Spread
from tests.bench import common, stub


def test_sides_take_turns_and_each_round_begins_with_another() -> None:
    turns: list[str] = []

    def side(name: str) -> Side:
        return Side(name, "", lambda: len(turns.append(name) or turns))

    comparing.alternated([side("a"), side("b"), side("c")], rounds=4)

    assert "".join(turns) == "abcbcacababc"


def test_a_ratio_is_formed_within_a_round() -> None:
    ours, theirs = saying(1, 10, 100), saying(2, 30, 200)

    compared = comparing.compared("it", "ms", [Side("ours", "", ours)], [Side("theirs", "", theirs)], [], rounds=3)

    assert compared.ours[0].value == Spread(10, 1, 100)
    assert compared.peers[0].ratios == {"ours": Spread(2, 2, 3)}


def test_where_numbers_are_rates_a_ratio_is_still_one_of_time() -> None:
    ours, theirs, limit = saying(100, 100), saying(50, 20), saying(400, 400)
    sides = ([Side("ours", "", ours)], [Side("theirs", "", theirs)], [Side("limit", "", limit)])

    compared = comparing.compared("it", "tasks/s", *sides, rounds=2, is_rate=True)

    assert compared.peers[0].ratios == {"ours": Spread(3.5, 2, 5)}
    assert compared.limits[0].ratios == {"ours": Spread(4, 4, 4)}


def test_a_limit_is_what_ours_is_divided_by() -> None:
    sides = ([Side("ours", "", saying(6))], [], [Side("limit", "", saying(2))])

    compared = comparing.compared("it", "ms", *sides, rounds=1)

    assert compared.limits[0].ratios == {"ours": Spread(3, 3, 3)}


def test_rounds_that_warm_up_do_not_count() -> None:
    sides = ([Side("ours", "", saying(9, 1, 2))], [Side("theirs", "", saying(9, 3, 6))], [])

    compared = comparing.compared("it", "ms", *sides, rounds=2, warm_up=1)

    assert compared.ours[0].value == Spread(1.5, 1, 2)
    assert compared.peers[0].ratios == {"ours": Spread(3, 3, 3)}


def test_a_side_that_fails_is_left_out_from_then_on_and_says_why() -> None:
    asked = saying(1, programs.Failed("it broke"))

    compared = comparing.compared(
        "it", "ms", [Side("ours", "", saying(1, 1, 1))], [Side("theirs", "", asked)], [], rounds=3
    )

    assert compared.peers[0].value is None
    assert compared.peers[0].note == "it broke"
    assert compared.peers[0].ratios == {}
    assert compared.ours[0].value == Spread(1, 1, 1)


def test_if_ours_fails_there_is_no_comparison(tmp_path: Path) -> None:
    field = common.field_of(
        tmp_path, common.stub("wrong", tmp_path / "ledger"), common.stub("theirs", tmp_path / "ledger")
    )

    with pytest.raises(programs.Failed, match="the result is 1 and not 0"):
        comparing.latencies(field, "trigger", "it", 1, [])
    with pytest.raises(programs.Failed, match="ours: it broke"):
        comparing.compared("it", "ms", [Side("ours", "", saying(programs.Failed("it broke")))], [], [], rounds=1)


def test_programs_are_asked_in_turns_after_a_warm_up(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    field = common.field_of(tmp_path, common.stub("ours", ledger), common.stub("theirs", ledger), rounds=2)

    compared = comparing.latencies(field, "trigger", "it", 1, [limits.SOCKET])

    warm_up = ["ours: one"] * comparing.WARM_UP + ["theirs: one"] * comparing.WARM_UP
    assert ledger.read_text().splitlines() == [*warm_up, "ours: one", "theirs: one", "theirs: one", "ours: one"]
    assert [line.name for line in compared.peers] == ["theirs"]
    assert compared.peers[0].ratios["ours"].low > 0
    assert compared.limits[0].ratios["ours"].low > 0


def test_work_that_would_take_too_long_is_made_smaller_and_the_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger"
    field = common.field_of(tmp_path, common.stub("ours", ledger), rounds=1)

    whole = comparing.rates(field, "100x100", "it", 100, 101, "tasks", [])
    monkeypatch.setattr(comparing, "MOST_SECONDS", 0.0)
    smaller = comparing.rates(field, "10000x1", "it", 10_000, 1, "runs", [])

    assert ledger.read_text().splitlines() == [
        *("ours: 1 graphs", "ours: 100 graphs", "ours: 100 graphs"),
        *("ours: 100 runs", "ours: 1 runs", "ours: 1 runs"),
    ]
    assert whole.ours[0].note == ""
    assert smaller.ours[0].note == "1 of 10,000 in a round"


def test_processor_time_is_that_of_all_processes_of_a_side(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ours, busy = common.stub("ours", ledger), common.stub("busy", ledger)
    field = dataclasses.replace(common.field_of(tmp_path, ours, busy, rounds=2), processor=True)

    [compared, rate] = [
        comparing.latencies(field, "trigger", "it", 1, [limits.SOCKET]),
        comparing.rates(field, "10000x1", "it", 1, 1, "runs", []),
    ]

    assert compared.unit == "ms of processor time"
    assert not compared.limits
    assert compared.peers[0].value is not None
    assert compared.peers[0].value.low >= stub.BUSY * 1e3
    assert compared.ours[0].value is not None
    assert compared.ours[0].value.high < compared.peers[0].value.low
    assert rate.peers[0].value is not None
    assert rate.peers[0].value.high <= 1 / stub.BUSY


def test_a_peer_that_is_not_to_be_had_is_a_line_without_numbers(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    field = common.field_of(tmp_path, common.stub("ours", ledger), common.stub("theirs", ledger, missing="no wheel"))

    compared = comparing.latencies(field, "trigger", "it", 1, [])

    assert compared.peers[0].value is None
    assert compared.peers[0].note == "no wheel"
    assert "theirs" not in ledger.read_text()


def test_a_peer_with_wrong_results_and_one_that_dies_are_lines_without_numbers(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    peers = [common.stub(name, ledger) for name in ("wrong", "dies", "theirs")]
    field = common.field_of(tmp_path, common.stub("ours", ledger), *peers)

    wrong, dies, theirs = comparing.latencies(field, "trigger", "it", 1, []).peers

    assert wrong.value is None
    assert wrong.note == "RuntimeError: the result is 1 and not 0"
    assert dies.value is None
    assert dies.note.endswith("there was nothing to live for")
    assert theirs.value is not None


def saying(*answers: float | Exception) -> Callable[[], float]:
    """One after the other."""
    left = iter(answers)

    def say() -> float:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return say
