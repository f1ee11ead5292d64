"""Variations of the schedules in tests/core/found keep the law (`variations.py`), and rules that look right do not."""

from itertools import count

import pytest

from tests.core import variations
from tests.core.variations import Tally, arguments_of, collect, fresh_seed, hunt, main, play

LONG = 300.0
"""Seconds that `make soak` plays fresh variations for."""
ENOUGH = range(3)
"""Seeds within which a wrong rule must be caught: about 900 plays."""


def describe(tally: Tally, most: int) -> str:
    return "\n\n".join(caught.describe(most=most) for caught in tally.kinds.values())


@pytest.mark.parametrize("seed", [0, 1])
def test_a_variation_of_every_schedule_keeps_the_law(seed):
    tally = hunt([seed], most=3)
    assert not tally.kinds, describe(tally, most=2_000)
    assert tally.plays == len(collect())


@pytest.mark.soak
def test_fresh_variations_keep_the_law():
    first = fresh_seed()
    print(f"seeds from {first}")
    tally = hunt(count(first), seconds=LONG)
    assert not tally.kinds, f"seeds from {first}\n\n{describe(tally, most=20_000)}"


@pytest.mark.parametrize("rule", ["cut", "hasty", "trusting", "loose", "open", "forgetful", "torn", "reopening"])
def test_a_wrong_rule_is_caught(rule):
    assert hunt(ENOUGH, most=1, rule=rule).kinds


def test_what_is_caught_is_printed_as_a_small_test(capsys):
    assert main(["--rule", "reopening", "--most", "1"]) == 1
    out = capsys.readouterr().out
    assert "breaks the law in a variation of test_" in out
    _, printed = out.split("The same as a test (tests/core/found).")
    assert "def test_variation_0():" in printed
    assert "play_script(" in printed
    assert len(printed.splitlines()) < 40


def test_the_command_says_how_many_it_played_and_that_the_law_held(capsys):
    assert main(["--seconds", "0.2", "--first", "7"]) == 0
    out = capsys.readouterr().out
    assert f"{len(collect())} schedules, seeds from 7\n" in out
    assert "variations in 0." in out
    assert out.endswith("No violation.\n")


def test_a_seed_plays_the_same_variation_again():
    for schedule in collect():
        first = play(schedule, 0, "reopening")
        if first is not None:
            assert play(schedule, 0, "reopening") == first
            return
    pytest.fail("no variation broke the law")


def test_a_collection_that_finds_too_few_schedules_fails(monkeypatch, tmp_path):
    monkeypatch.setattr(variations, "FOUND", tmp_path)
    with pytest.raises(AssertionError, match="only 0 schedules"):
        collect.__wrapped__()


def test_parameters_of_tests_are_read_as_pytest_reads_them():
    @pytest.mark.parametrize(("one", "two"), [(1, 2), pytest.param(3, 4, id="more")])
    @pytest.mark.parametrize("three", [5, pytest.param(6)])
    def parametrized(one, two, three): ...

    def with_fixture(tmp_path): ...

    chosen = [tuple(arguments[name] for name in ("one", "two", "three")) for arguments in arguments_of(parametrized)]
    assert sorted(chosen) == [(1, 2, 5), (1, 2, 6), (3, 4, 5), (3, 4, 6)]
    assert list(arguments_of(with_fixture)) == []
