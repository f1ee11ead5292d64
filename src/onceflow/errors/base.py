"""The base of all errors."""

from __future__ import annotations

from typing import Any


class OnceflowError(Exception):
    """Base of all errors of onceflow."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes with their text and attributes, whatever their constructor takes."""
        return _restore, (type(self), self.args), self.__dict__


def _restore(kind: type[OnceflowError], args: tuple[Any, ...]) -> OnceflowError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error
