"""Pickling by value: functions, classes and tasks that cannot be imported elsewhere, with all they refer to.

cloudpickle takes a tenth of a millisecond for a small function and more for a class, and every run of a script needs
it. So the bytes are remembered, together with what they were made from, and given out again while all of that is still
the same.

**Why this is sound.** A walk starts at the value. Whatever it meets is either a *leaf*, which cannot change (a number,
a text, code, …), or has *parts*: a list of everything that its pickle is made from. The parts of a function are its
code, its defaults, the contents of its closure, the globals that its code names, and so on; those of a list are its
elements; what can be imported has none, as long as it is found under its name. Each is remembered with its list. If
every list still holds the very same objects, then nothing below the value has changed: by induction, since leaves do
not change, and nothing else can take the address of an object that is remembered. If the walk meets anything of another
type, or too much, the value is simply pickled each time.

One value is remembered per definition (a place in the source), so what is kept does not grow with the number of lambdas
a program makes.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import functools
import hashlib
import logging
import operator
import pathlib
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable
from decimal import Decimal
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import cloudpickle

from onceflow.values.snapshot import LARGE, PROTOCOL

MOST_PARTS = 2_000
"""In all lists of a value together. Comparing more would take as long as pickling."""

Parts = Callable[[Any], Iterable[Any]]


class Pickled(NamedTuple):
    payload: bytes
    hash: str
    """Of the payload."""


def dump(value: object) -> Pickled:
    """Raises whatever pickling it raises."""
    if cloudpickle.list_registry_pickle_by_value():
        return _pickle(value)  # what is found by its name may go by value as well
    key = _definition(value)
    remembered = _remembered.get(key)
    if remembered is not None and remembered.value is value and _unchanged(remembered.made_from):
        return remembered.pickled
    try:
        made_from = _walk(value)
    except _Unsteady:
        return _pickle(value)
    pickled = _pickle(value)
    if len(pickled.payload) <= LARGE and _unchanged(made_from):  # another thread may have changed something meanwhile
        _remembered[key] = _Remembered(value, pickled, made_from)
    return pickled


_MadeFrom = list[tuple[Any, Parts, list[Any]]]
"""Things below a value, each with its parts."""


class _Remembered(NamedTuple):
    value: Any
    pickled: Pickled
    made_from: _MadeFrom


_remembered: dict[tuple[Any, ...], _Remembered] = {}
"""Definition → the value of it that was pickled last."""


class _Unsteady(Exception):
    """It is unknown whether this has changed."""


def _pickle(value: object) -> Pickled:
    payload: bytes = cloudpickle.dumps(value, PROTOCOL)
    return Pickled(payload, hashlib.blake2b(payload, digest_size=16).hexdigest())


def _definition(value: Any) -> tuple[Any, ...]:
    code = getattr(getattr(value, "__wrapped__", value), "__code__", None)
    line = code.co_firstlineno if isinstance(code, CodeType) else 0
    return type(value), getattr(value, "__module__", None), getattr(value, "__qualname__", None), line


def _unchanged(made_from: _MadeFrom) -> bool:
    try:
        for thing, parts_of, before in made_from:
            now = list(parts_of(thing))
            if len(now) != len(before) or not all(map(operator.is_, now, before)):
                return False
    except _Unsteady:
        return False
    return True


def _walk(value: object) -> _MadeFrom:
    """Everything below a value that has parts. Raises `_Unsteady`."""
    made_from: _MadeFrom = []
    seen = {id(value)}
    waiting = [value]
    count = 0
    while waiting:
        thing = waiting.pop()
        if type(thing) in _LEAVES or id(thing) in _BUILTINS:
            continue
        parts_of = _how(thing)
        parts = list(parts_of(thing))
        count += len(parts) + 1
        if count > MOST_PARTS:
            raise _Unsteady
        made_from.append((thing, parts_of, parts))  # stays alive there, so its id remains its own
        new = [part for part in parts if id(part) not in seen]
        seen.update(map(id, new))
        waiting += new
    return made_from


def _how(thing: Any) -> Parts:
    """How to find the parts of a thing."""
    kind = type(thing)
    if kind is FunctionType:
        return _found_by_name if _is_found(thing) else functools.partial(_of_function, *_names(thing.__code__))
    if issubclass(kind, type):
        if _is_found(thing):
            return _found_by_name
        if kind is type:
            return _of_class
    if str(kind.__module__).startswith("onceflow."):
        return _found_by_name if _is_found(thing) else _of_ours
    parts_of = _PARTS.get(kind)
    if parts_of is None:
        raise _Unsteady
    return parts_of


_ABSENT = str(object())
"""Stands where a global or the content of a cell is missing."""


def _is_found(thing: Any) -> bool:
    """Whether it is pickled by its name: functions, classes, tasks and workflows of modules are."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return False
    found: Any = sys.modules.get(module)
    for step in name.split("."):
        found = getattr(found, step, None)
    return found is thing


def _found_by_name(thing: Any) -> Iterable[Any]:
    if not _is_found(thing):
        raise _Unsteady
    return ()


def _of_function(names: tuple[str, ...], attributes: tuple[str, ...], function: FunctionType) -> list[Any]:
    scope = function.__globals__
    values = [scope.get(name, _ABSENT) for name in names]
    values += [_content(cell) for cell in function.__closure__ or ()]
    for value in values[:]:
        if type(value) is ModuleType and getattr(value, "__package__", None):
            values += _submodules(value.__name__, attributes)
    return [
        function.__code__,
        function.__name__,
        function.__qualname__,
        function.__module__,
        function.__doc__,
        function.__defaults__,
        function.__kwdefaults__,
        function.__annotations__ or None,
        function.__dict__ or None,
        *getattr(function, "__type_params__", ()),
        *values,
    ]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _submodules(package: str, attributes: tuple[str, ...]) -> list[Any]:
    """Those of a package that are imported and that a function may mean. Its pickle sees to it that they are imported
    where it is loaded."""
    found: list[Any] = []
    for attribute in attributes:
        name = f"{package}.{attribute}"
        if name in sys.modules:
            found += (sys.modules[name], *_submodules(name, attributes))
    return found


@functools.lru_cache(maxsize=1_000)
def _names(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The globals that code and the code inside it may use, and all names in it."""
    found = {"__name__": None, "__package__": None, "__path__": None, "__file__": None}
    attributes: dict[str, None] = {}
    inside = [code]
    while inside:
        part = inside.pop()
        found |= dict.fromkeys(i.argval for i in dis.get_instructions(part) if i.opname.endswith("_GLOBAL"))
        attributes |= dict.fromkeys(part.co_names)
        inside += [constant for constant in part.co_consts if isinstance(constant, CodeType)]
    return tuple(found), tuple(attributes)


def _of_class(kind: type) -> list[Any]:
    attributes = vars(kind).copy()
    for made_anew in ("__dict__", "__weakref__"):
        attributes.pop(made_anew, None)
    return [kind.__name__, kind.__qualname__, *kind.__bases__, *attributes, *attributes.values()]


def _of_module(module: ModuleType) -> Iterable[Any]:
    if sys.modules.get(module.__name__) is not module:
        raise _Unsteady
    return ()


def _of_builtin(function: types.BuiltinFunctionType) -> Iterable[Any]:
    owner: object = function.__self__
    if owner is not None and not isinstance(owner, ModuleType):
        raise _Unsteady
    return ()


def _of_ours(thing: Any) -> list[Any]:
    """Tasks, workflows, policies: they are what they give to pickle. (Other objects may take long to do so.)"""
    told = thing.__reduce_ex__(PROTOCOL)
    if isinstance(told, str):
        raise _Unsteady
    made, args, *rest = told
    if any(part is not None for part in rest[1:]):
        raise _Unsteady
    return [made, *args, *_flat(rest[0] if rest else None)]


def _flat(state: Any) -> list[Any]:
    if isinstance(state, dict):
        return _mapping(state)
    if isinstance(state, list | tuple):
        return [part for item in state for part in (_flat(item) if isinstance(item, dict) else [item])]
    return [state]


def _attributes(*names: str) -> Parts:
    return lambda thing: [getattr(thing, name, None) for name in names]


def _mapping(mapping: Any) -> list[Any]:
    return [*mapping, *mapping.values()]


def _types_of(*examples: Any) -> frozenset[type]:
    return frozenset(map(type, examples))


_LEAVES = _types_of(None, True, 1, 1.0, 1j, "", b"", ..., NotImplemented, range(0), re.compile("")) | _types_of(
    _names.__wrapped__.__code__,  # code objects
    Decimal(),
    pathlib.Path(),
    typing.NoReturn,
    dataclasses.MISSING,
    dataclasses._FIELD,  # type: ignore[attr-defined]
    property.fget,  # member descriptors: slots
)
"""Types whose instances cannot change, and refer to nothing that can."""

_BUILTINS = frozenset(
    id(value)
    for value in (*vars(builtins).values(), types.NoneType)
    if isinstance(value, type | types.BuiltinFunctionType) and value.__module__ == "builtins"
)
"""Ids of the classes and functions that every interpreter has."""

_PARTS: dict[type, Parts] = {
    tuple: list,
    list: list,
    set: list,
    frozenset: list,
    dict: _mapping,
    types.MappingProxyType: _mapping,
    ModuleType: _of_module,
    types.BuiltinFunctionType: _of_builtin,
    staticmethod: _attributes("__func__"),
    classmethod: _attributes("__func__"),
    property: _attributes("fget", "fset", "fdel", "__doc__"),
    logging.Logger: _attributes("name"),
    dataclasses.Field: _attributes(*dataclasses.Field.__slots__),
    dataclasses._DataclassParams: _attributes(*dataclasses._DataclassParams.__slots__),  # type: ignore[attr-defined]
    **dict.fromkeys(
        _types_of(
            list[int],
            int | str,
            Callable[[], int],
            typing.Callable[[], int],
            typing.List[int],  # noqa: UP006
            typing.Optional[int],  # noqa: UP045
            typing.Literal[1],
        ),
        _attributes("__origin__", "__args__"),
    ),
}
"""Type → what an instance is pickled from."""
