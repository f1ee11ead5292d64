"""Shipping functions: from the program that binds tasks to the workers that call them.

A function that a worker can import goes by name, so that it finds its own module around it. A function of a script, a
notebook, a lambda or a local function goes by value, with what it refers to.

**Classes of the user's script.** A class of `__main__` reaches a worker by value as well, and its instances come back.
If they came back by value too, the caller would hold a second class of the same name, and after a restart there would
be no way to see that they are one. So a worker puts a module of its own (`Main`) in the place of `__main__`, which
fetches from the caller, once and by value, what is looked up in it. An object whose class is found there is pickled by
name, as if the class had been imported: the caller finds its own class, today and after a restart. cloudpickle numbers
the classes it ships, so a class that arrives twice, in a function and in a lookup, is one class in the worker. What is
not found there (a class made inside a task) goes by value.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from onceflow.values import imports
from onceflow.values.snapshot import registered_by_value

if TYPE_CHECKING:
    from onceflow.values.by_value import Pickled


class Shipped(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A function in the form in which it travels. Equal hashes mean the same function in the same state."""

    hash: str
    module: str
    """The module from which a worker imports it; empty if it goes by value."""
    qualname: str
    wrappers: int
    """How many wrappers (a task is one) the name has around the function."""
    payload: bytes
    """The function by value; empty if it goes by name."""


def ship(function: Callable[..., Any]) -> Shipped:
    """Raises whatever pickling it raises, if it has to go by value."""
    module = getattr(function, "__module__", None)
    qualname = getattr(function, "__qualname__", "")
    wrappers = _wrappers(function, module, qualname)
    if module is None or wrappers is None:
        payload, digest = _by_value(function)
        return Shipped(digest, "", qualname, 0, payload)
    code = f"{module}\0{_file_version(module)}\0{qualname}\0{wrappers}"
    return Shipped(_digest(code.encode()), module, qualname, wrappers, b"")


def load(shipped: Shipped) -> Callable[..., Any]:
    """The function, in a worker. Raises what importing or unpickling it raises."""
    if shipped.payload:
        function: Callable[..., Any] = imports.loads(shipped.payload)
        return function
    if shipped.module not in sys.modules:
        importlib.invalidate_caches()  # its file may be younger than what this process knows of the folder
    found: Any = imports.import_module(shipped.module)
    for step in shipped.qualname.split("."):
        found = getattr(found, step)
    for _ in range(shipped.wrappers):
        found = found.__wrapped__
    return found  # type: ignore[no-any-return]


def _file_version(module: str) -> str:
    """The state of the file of a module that was imported. Empty if it has none or it is gone."""
    path = getattr(sys.modules.get(module), "__file__", None)
    try:
        state = os.stat(path) if path else None
    except OSError:
        state = None
    return f"{path}:{state.st_mtime_ns}:{state.st_size}" if state else ""


def definition(name: str) -> bytes | None:
    """What `__main__` of this process has under this name, by value; None if there is no such function or class."""
    value = getattr(sys.modules.get("__main__"), name, None)
    if not isinstance(value, (type, FunctionType)) and not hasattr(value, "__wrapped__"):
        return None
    return _by_value(value).payload


_UNKNOWN = object()


class Main(ModuleType):
    """Stands in a worker for the caller's `__main__`. `ask(name)` fetches a definition from the caller."""

    def __init__(self, ask: Callable[[str], bytes | None]) -> None:
        super().__init__("__main__")
        self._ask = ask
        self._fetched: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module '__main__' has no attribute {name!r}")
        value = self._fetched.get(name, _UNKNOWN)
        if value is _UNKNOWN:
            payload = self._ask(name)
            value = self._fetched[name] = None if payload is None else pickle.loads(payload)
        if value is None:
            raise AttributeError(f"the program that bound the task has no function or class {name!r} in its __main__")
        return value

    def forget(self) -> None:
        """The caller may have defined things anew (a cell of a notebook that ran again)."""
        self._fetched.clear()


def is_named(value: Any) -> bool:
    """Whether `__main__` has this very function or class under its name."""
    found: Any = sys.modules["__main__"]
    try:
        for step in value.__qualname__.split("."):
            found = getattr(found, step)
    except AttributeError:
        return False
    return found is value


def _wrappers(function: Any, module: str | None, qualname: str) -> int | None:
    """How many wrappers are between what a worker finds under the name and the function; None if it is not found."""
    if module is None or module == "__main__" or not qualname or "<" in qualname or _registered_by_value(module):
        return None
    found: Any = sys.modules.get(module)
    if getattr(found, "__spec__", None) is None:  # made by hand, not imported
        return None
    for step in qualname.split("."):
        found = getattr(found, step, None)
    for depth in range(_DEEPEST_WRAPPERS):
        if found is function:
            return depth
        found = getattr(found, "__wrapped__", None)
    return None


_DEEPEST_WRAPPERS = 20


def _registered_by_value(module: str) -> bool:
    """Whether the user told cloudpickle that workers cannot import this module or one it is inside of."""
    return any(module == name or module.startswith(name + ".") for name in registered_by_value())


def _by_value(value: Any) -> Pickled:
    from onceflow.values import by_value  # slow to import, not needed for functions of modules

    return by_value.dump(value)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
