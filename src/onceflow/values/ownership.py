"""Ownership of memory: whether the memory of an output has other references.

What a task returned may be read where it is, instead of being copied, as long as it cannot be changed. That is certain
if nothing else refers to it: no frame, no variable of a module, no cache, no thread. Python counts references, so it
can be asked. Memory that is borrowed from something we do not know (a library's buffer, a mapped file, an input) may
change behind our back, so it is never said to be alone.
"""

from __future__ import annotations

import array
import sys
import weakref
from typing import Any


def may_be_alone(view: memoryview) -> bool:
    """Whether it is of a kind that can be shown to have no other references."""
    owner: Any = view.obj
    while _is_ndarray(owner):
        if owner.base is None:
            return bool(owner.flags.owndata)
        owner = owner.base
    return type(owner) in (bytes, bytearray, array.array)


def is_alone(view: memoryview) -> bool:
    """Whether this memory can be reached through this view only, or cannot be changed at all."""
    if type(view.obj) is bytes:
        return True
    if _count(view.obj) != _ALONE:
        return False
    owner: Any = view.obj
    while _is_ndarray(owner):
        if weakref.getweakrefcount(owner):
            return False
        if owner.base is None:
            return bool(owner.flags.owndata)
        if not _is_ndarray(owner.base) or _count(owner.base) != _ALONE:
            return False
        owner = owner.base
    if type(owner) is array.array:
        return not weakref.getweakrefcount(owner)
    return type(owner) is bytearray


def _is_ndarray(owner: object) -> bool:
    """Not one of a subclass: that may think differently of its memory. Numpy is there if its arrays are."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(owner) is numpy.ndarray


def _count(owner: object) -> int:
    return sys.getrefcount(owner)


_view = memoryview(bytearray(1))
_ALONE = _count(_view.obj)
"""What is counted for something that has one holder."""
