"""Kinds of arguments."""

from typing import get_args

import click
import pytest

from onceflow.cli.types import AGE, SIZE, STATUS, STATUSES, TEXT
from onceflow.runs import Status


def test_the_statuses_are_those_of_the_engine():
    assert get_args(Status) == STATUSES


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("1.5s", 1.5), ("30m", 1800), ("12h", 43200), ("7D", 604800), ("2w", 1209600)],
)
def test_an_age_is_a_number_with_a_unit(text, seconds):
    assert AGE.convert(text, None, None) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("100b", 100), ("1kB", 1000), ("1 KiB", 1024), ("1.5GB", 1_500_000_000), ("2TiB", 2 << 40)],
)
def test_a_size_is_a_number_with_a_unit(text, count):
    assert SIZE.convert(text, None, None) == count


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (AGE, ""),
        (AGE, "-1s"),
        (AGE, "1y"),
        (AGE, "١s"),
        (SIZE, "GB"),
        (SIZE, "-1"),
        (SIZE, "1e9"),
        (STATUS, ""),
        (STATUS, "failed,"),
        (TEXT, "\udcff"),
        (TEXT, "\0"),
    ],
)
def test_anything_else_is_wrong(kind, text):
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)


def test_several_statuses_have_commas_between_them():
    assert STATUS.convert("failed, undone", None, None) == ("failed", "undone")
