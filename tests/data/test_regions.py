"""Regions: what is taken is taken once, what is given back is whole again."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as some

from onceflow.data.places import PAGE, whole_pages
from onceflow.data.regions import Regions


def test_the_lowest_region_that_is_large_enough_is_taken() -> None:
    regions = Regions(10 * PAGE)
    first, second, third = regions.take(2 * PAGE), regions.take(3 * PAGE), regions.take(1)

    assert (first, second, third) == (0, 2 * PAGE, 5 * PAGE)
    regions.give(0, 2 * PAGE)
    assert regions.take(3 * PAGE) == 6 * PAGE
    assert regions.take(PAGE) == 0


def test_neighbours_that_are_free_are_one_region() -> None:
    regions = Regions(3 * PAGE)
    for _ in range(3):
        regions.take(PAGE)

    for offset in (0, 2 * PAGE, PAGE):
        regions.give(offset, PAGE)

    assert regions.take(3 * PAGE) == 0


def test_without_a_region_that_is_large_enough_none_is_taken() -> None:
    regions = Regions(2 * PAGE)

    assert regions.take(2 * PAGE + 1) is None
    assert regions.taken == 0
    assert regions.take(2 * PAGE) == 0
    assert regions.take(1) is None


def test_what_is_managed_can_grow() -> None:
    regions = Regions(0)
    assert regions.take(1) is None

    regions.extend(0, PAGE)
    regions.extend(PAGE, PAGE)

    assert regions.take(2 * PAGE) == 0


@pytest.mark.parametrize("offset", [0, PAGE, 2 * PAGE])
def test_what_is_free_cannot_be_given_back(offset: int) -> None:
    regions = Regions(4 * PAGE)
    regions.take(PAGE)
    regions.take(PAGE)
    regions.give(0, PAGE)

    with pytest.raises(AssertionError):
        regions.give(offset, 2 * PAGE)

    assert regions.taken == PAGE
    assert regions.take(2 * PAGE) == 2 * PAGE


@given(some.lists(some.one_of(some.integers(1, 5 * PAGE), some.integers(-20, -1)), max_size=60))
def test_no_two_regions_overlap_and_nothing_gets_lost(steps: list[int]) -> None:
    size = 20 * PAGE
    regions = Regions(size)
    taken: list[tuple[int, int]] = []
    for step in steps:
        if step > 0:
            offset = regions.take(step)
            if offset is not None:
                taken.append((offset, step))
        elif taken:
            regions.give(*taken.pop(step % len(taken)))
        ends = [(offset, offset + whole_pages(length)) for offset, length in sorted(taken)]
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))
        assert all(end <= size for _, end in ends)
        assert regions.taken == sum(end - start for start, end in ends)
    for region in taken:
        regions.give(*region)
    assert regions.take(size) == 0
