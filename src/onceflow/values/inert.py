"""Pickles that are looked at without running anything of their makers' code.

Each function or class that a pickle refers to becomes a subclass of `Made` that knows its name, and what it would have
made becomes an instance of that. Nothing is imported for it. Only what the reader trusts is what it is.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from typing import Any, ClassVar


class Made:
    """Stands for an object that was not made."""

    module: ClassVar[str] = ""
    qualname: ClassVar[str] = ""
    """Of what would have made it."""
    all: ClassVar[list[Made]] = []
    """Everything that the same would have made."""
    args: tuple[Any, ...]
    state: Any = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Made:
        made = object.__new__(cls)
        made.args = args
        if cls is not Made:
            cls.all.append(made)
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __repr__(self) -> str:
        return f"<{self.qualname}>"

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __call__(self, *args: Any) -> Made:
        return Made(self, *args)

    def append(self, item: Any) -> None: ...

    def extend(self, items: Any) -> None: ...

    def add(self, item: Any) -> None: ...

    def __setitem__(self, key: Any, value: Any) -> None: ...


class Reader(pickle.Unpickler):
    """Reads one pickle, or several that follow each other."""

    def __init__(self, data: bytes, is_trusted: Callable[[str], bool] = lambda module: False) -> None:
        """`is_trusted` says whether what is in a module may be what it is."""
        self._file = io.BytesIO(data)
        super().__init__(self._file)
        self._is_trusted = is_trusted
        self._size = len(data)
        self.names: dict[tuple[str, str], type[Made]] = {}
        """Module and qualified name of everything else that it refers to."""

    def made_by(self, module: str, name: str) -> list[Made]:
        """What this would have made."""
        found = self.names.get((module, name))
        return [] if found is None else found.all

    @property
    def is_at_end(self) -> bool:
        return self._file.tell() == self._size

    def find_class(self, module: str, name: str) -> Any:
        if self._is_trusted(module):
            return super().find_class(module, name)
        found = self.names.get((module, name))
        if found is None:
            found = self.names[module, name] = type(name, (Made,), {"module": module, "qualname": name, "all": []})
        return found

    def persistent_load(self, pid: Any) -> Any:
        return Made(pid)


def shown(pickled: bytes) -> Any:
    """The value, with what is not Python's own told by the name of its class; a text if that cannot be done."""
    try:
        return Reader(pickled, lambda module: module.partition(".")[0] in sys.stdlib_module_names).load()
    except Exception as error:  # its class may have wanted to be made in another way
        return f"cannot be shown: {type(error).__name__}: {error}"


def name_of(value: Any) -> tuple[str, str] | None:
    """Module and name of what a pickle refers to by name; None for anything else."""
    return (value.module, value.qualname) if isinstance(value, type) and issubclass(value, Made) else None
