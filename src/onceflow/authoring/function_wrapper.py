"""Base of tasks and workflows: they replace a function and look like it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import WRAPPER_ASSIGNMENTS
from typing import Any


class Wrapper:
    """Stands where a function was defined. Pickled by that place if a worker can find it there."""

    __qualname__: str

    def _wrap(self, function: Callable[..., Any]) -> None:
        for attribute in WRAPPER_ASSIGNMENTS:
            if hasattr(function, attribute):
                setattr(self, attribute, getattr(function, attribute))
        self.__wrapped__ = function  # so that inspect.signature, help and documentation tools see through

    def _found_by_name(self) -> bool:
        """Whether a worker that imports the module finds this very object. Workers never run the user's script."""
        module, name = getattr(self, "__module__", None), getattr(self, "__qualname__", "<")
        if module is None or module == "__main__" or "<" in name:
            return False
        found: Any = sys.modules.get(module)
        for step in name.split("."):
            found = getattr(found, step, None)
        return found is self


def blank(kind: type) -> Any:
    """An object to be filled by `__setstate__`. Made before its function is loaded, which may refer to it."""
    return object.__new__(kind)
