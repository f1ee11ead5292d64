"""Versions of code: whether a function is the same as when a run was stored.

A version is a hash of what the interpreter executes: the instructions with the names and constants they use, those of
nested functions too, and the parameters with their defaults. What is never executed is left out: line numbers, file
names, annotations, names of variables that stay local, docstrings. Only the function itself counts, not what it calls.

Each interpreter has its own instructions, so a version begins with the interpreter's tag, and versions of different
interpreters say nothing about each other.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import sys
import weakref
from collections.abc import Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from onceflow.values.fingerprint import Walk

TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
"""Of this interpreter."""

if sys.implementation.name != "cpython":
    TAG = str(sys.implementation.cache_tag)


def code_version(function: object) -> str:
    """`tag:hash`, or an empty text for what has no code of its own (a class, a builtin, a callable object)."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    defaults, keywords = getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)
    if defaults is None and keywords is None:
        return f"{TAG}:{_digest_of(code).hex()}"
    known = _with_defaults.get(function) if type(function) is FunctionType else None
    if known is not None and known[0] is code and known[1] is defaults and known[2] is keywords:
        return known[3]
    version = f"{TAG}:{_hash((_digest_of(code), Walk().encode((defaults, keywords)))).hex()}"
    if type(function) is FunctionType:
        _with_defaults[function] = code, defaults, keywords, version
    return version


def changed(recorded: str, now: str) -> bool:
    """Whether the code is known to have changed between these two versions."""
    if not recorded or not now or recorded.partition(":")[0] != now.partition(":")[0]:
        return False
    return recorded != now


_with_defaults: weakref.WeakKeyDictionary[FunctionType, tuple[CodeType, Any, Any, str]] = weakref.WeakKeyDictionary()
"""Function → its code, its defaults, and its version as it was when these were first seen together."""

_known: dict[int, tuple[weakref.ref[CodeType], bytes]] = {}
"""Code by its address → its digest. Code is immutable, and leaves this table when it dies. (As keys of a dictionary,
code objects would be compared by all they contain.)"""


def _digest_of(code: CodeType) -> bytes:
    place = id(code)
    known = _known.get(place)
    if known is None:
        known = _known[place] = weakref.ref(code, partial(_forget, _known, place)), _digest(code)
    return known[1]


def _forget(known: dict[int, Any], place: int, _: object) -> None:
    known.pop(place, None)


_MEANING = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
"""The flags of a code object that change what it does."""


def _digest(code: CodeType) -> bytes:
    kinds = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _MEANING
    parameters = code.co_argcount + code.co_kwonlyargcount
    parameters += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = code.co_varnames[:parameters], code.co_names, code.co_freevars, code.co_cellvars
    return _hash((repr(kinds).encode(), repr(names).encode(), code.co_exceptiontable, *_instructions(code)))


def _instructions(code: CodeType) -> Iterator[bytes]:
    """Each operation with its argument. A constant stands there itself, not its number: numbers of constants depend on
    whether there is a docstring."""
    extended = 0
    content = code.co_code
    for operation, argument in zip(content[::2], content[1::2], strict=True):
        argument |= extended
        if operation == dis.EXTENDED_ARG:
            extended = argument << 8
            continue
        extended = 0
        if operation in dis.hasconst:
            constant = code.co_consts[argument]
            value = _digest_of(constant) if isinstance(constant, CodeType) else Walk().encode(constant)
            yield b"%d=%b" % (operation, value)
        else:
            yield b"%d.%d" % (operation, argument)


def _hash(parts: Iterable[bytes]) -> bytes:
    seen = hashlib.blake2b(digest_size=8)
    for part in parts:
        seen.update(b"%d:%b" % (len(part), part))
    return seen.digest()
