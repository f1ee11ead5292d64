"""Importing users' modules.

A module that ends the interpreter while it is imported (a script without `if __name__ == "__main__"`, say) cannot be
imported, like one that raises anything else. Its SystemExit must not get far: in a thread it would end that silently,
and its waiters would wait for ever; in a command it would look like success.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterable
from types import ModuleType
from typing import Any


def import_module(name: str) -> ModuleType:
    """Raises ImportError also for a module that exits."""
    try:
        return importlib.import_module(name)
    except SystemExit as error:
        raise exited(error) from error


def loads(pickled: bytes | memoryview, buffers: Iterable[Any] = ()) -> Any:
    """As `pickle.loads`, which imports what the pickle refers to."""
    try:
        return pickle.loads(pickled, buffers=buffers)
    except SystemExit as error:
        raise exited(error) from error


def exited(error: SystemExit) -> ImportError:
    """What to raise instead."""
    return ImportError(f"a module called sys.exit({error.code!r}) while it was imported")
