"""Capacity: the memory for jobs, which is that of the host, or less if this process may not use all of it (a
container)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
"""Where the control groups of the host are, or those that a container sees."""

MEMBERSHIP = Path("/proc/self/cgroup")
"""Which ones this process is in: lines of `number:controllers:path`."""


def memory(groups: Path = GROUPS, membership: Path = MEMBERSHIP) -> int:
    """Bytes. A limit holds for a control group with all those inside, so the smallest one on the way up counts."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_limits(groups, membership)])


def _limits(groups: Path, membership: Path) -> Iterator[int]:
    for line in _content(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            root, file = groups, "memory.max"
        elif "memory" in controllers.split(","):
            root, file = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = root / path.lstrip("/")
        for above in (folder, *folder.parents):
            content = _content(above / file).strip()
            if content.isdecimal():  # else it is `max`, or there is none
                yield int(content)
            if above == root:
                break


def _content(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):  # no control groups here, or not for us to see
        return ""
