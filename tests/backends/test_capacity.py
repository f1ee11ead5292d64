"""How much memory there is: the host's, or what control groups leave of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onceflow.backends.local import capacity

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MIB = 2**20


def limit(groups: Path, path: str, text: str) -> None:
    file = groups / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    return tmp_path / "groups"


def memory(groups: Path, membership: str) -> int:
    file = groups.with_name("membership")
    file.write_text(membership)
    return capacity.memory(groups, file)


def test_without_control_groups_it_is_that_of_the_host(tmp_path: Path) -> None:
    assert capacity.memory(tmp_path / "none", tmp_path / "neither") == PHYSICAL


def test_a_container_sees_its_own_limit_at_the_root(groups: Path) -> None:
    limit(groups, "memory.max", str(64 * MIB))
    assert memory(groups, "0::/\n") == 64 * MIB


def test_the_smallest_limit_on_the_way_up_counts(groups: Path) -> None:
    limit(groups, "slice/service/memory.max", "max")
    limit(groups, "slice/memory.max", str(32 * MIB))
    limit(groups, "memory.max", str(64 * MIB))
    assert memory(groups, "0::/slice/service\n") == 32 * MIB


def test_a_group_that_cannot_be_seen_from_here_leaves_those_above(groups: Path) -> None:
    limit(groups, "memory.max", str(64 * MIB))
    assert memory(groups, "0::/not/seen/here\n") == 64 * MIB
    assert memory(groups, "0::/../..\n") == 64 * MIB


def test_the_older_kind_of_control_groups_counts_as_well(groups: Path) -> None:
    limit(groups, "memory/box/memory.limit_in_bytes", str(16 * MIB))
    limit(groups, "memory/memory.limit_in_bytes", "9223372036854771712")
    assert memory(groups, "5:cpu,cpuacct:/box\n4:memory:/box\n0::/\n") == 16 * MIB


def test_no_limit_is_the_host(groups: Path) -> None:
    limit(groups, "memory.max", "max")
    assert memory(groups, "0::/\n") == PHYSICAL
    assert memory(groups, "nonsense\n::\n") == PHYSICAL
