"""Sizes of memory as users write them: a number of bytes, or a text such as `512MB` or `2GiB`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any


def read_size(value: Any) -> int:
    """In bytes. Raises ValueError if it is no size."""
    count = value
    if isinstance(value, str) and (size := _SIZE.fullmatch(value)):
        count = int(Decimal(size[1]) * _UNITS[(size[2] or "").lower()])
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**63:
        raise ValueError(f"a number of bytes from 0 to 2**63, or a text such as '512MB' or '2GiB', not {value!r}")
    return count


_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMG]i?)?B", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
