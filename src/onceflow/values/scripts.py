"""The script that this process runs, under the name by which others import it.

Workers import a script with fibers as a module, and what they make of its classes comes back under that name. Here the
script is `__main__`, and its classes must not come a second time. What fibers are given goes to workers under that name
as well: by value it would be of classes that their code does not know.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

from onceflow.values import imports

name: str | None = None
"""That of this process's script, if it has fibers (`authoring.fiber_tasks.decorator`)."""


by_name: ContextVar[bool] = ContextVar("onceflow_script_by_name", default=False)
"""Whether classes of the script are pickled under that name just now."""


class Unpickler(pickle.Unpickler):
    """Finds what belongs to the script in the script."""

    def find_class(self, module: str, qualname: str) -> Any:
        try:
            return super().find_class("__main__" if module == name else module, qualname)
        except SystemExit as error:
            raise imports.exited(error) from error


def loads(pickled: bytes | memoryview, buffers: Iterable[Any] = ()) -> Any:
    """What `pickle.loads` gives, with the script's own classes."""
    if name is None:
        return imports.loads(pickled, buffers)
    return Unpickler(io.BytesIO(pickled), buffers=buffers).load()


def find(module: str, qualname: str) -> Any:
    """What the script of that name has."""
    found: Any = imports.import_module("__main__" if module == name else module)
    for step in qualname.split("."):
        found = getattr(found, step)
    return found
