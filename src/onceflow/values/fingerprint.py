"""Fingerprints: argument values reduced to a few bytes that are equal when the values are.

They answer one question: is this the same run as the one that already has this name? So they must come out alike in
another process, on another day, under another hash seed. Pickles would not: they depend on memo order, on hash order
and on library versions. The rules:

- Equal type and equal value give equal bytes. `1`, `1.0` and `True` are different.
- Dicts and sets have no order. (An `OrderedDict` and every other subclass of dict counts as a dict of its own type.)
- Arrays count by dtype, shape and content; dataclasses, `msgspec` structs and `attrs` classes by their name and the
  fields that take part in comparison; enum members, functions, classes and tasks by name, never by code.
- Secrets count by their name, or by a keyed hash of their clear text.
- Everything else contributes the name of its type only: two such objects are taken to be the same. So does whatever
  lies more than 100 levels deep.
- A handle counts by the order in which handles are first met, which this module thereby defines: `Walk.handles`.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import ipaddress
import pathlib
import re
import struct
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterable
from typing import Any

from onceflow.values.handles import Handle
from onceflow.values.secrets import Secret
from onceflow.values.snapshot import LARGE

DEEPEST = 100
"""Levels of containers that are looked into."""


class Contents:
    """Digests of large contents, so that an array which many nodes share is read once per graph."""

    __slots__ = ("_digests",)

    def __init__(self) -> None:
        # The owner stands beside its digest to stay alive: its address would otherwise be given to something else.
        self._digests: dict[tuple[Any, ...], tuple[Any, bytes]] = {}

    def digest(self, key: tuple[Any, ...], owner: Any, read: Callable[[], Any]) -> bytes:
        found = self._digests.get(key)
        if found is None:
            found = self._digests[key] = (owner, hashlib.blake2b(read(), digest_size=16).digest())
        return found[1]


class Walk:
    """One walk over the arguments of one node. `encode` may be called several times; the numbers of handles go on."""

    def __init__(self, contents: Contents | None = None, *, trial: bool = False) -> None:
        self.handles: dict[Handle, int] = {}
        """Handle → number, in the order in which they were first met."""
        self._contents = contents or Contents()
        self._trial = trial
        self._open: dict[int, int] = {}
        """Containers around the present value: id → depth. Meeting one of them again is a cycle."""
        self._closed: dict[int, bytes] = {}
        """Containers that were encoded before: id → bytes. Keeps shared structure from being walked again and again."""
        self._kept: list[Any] = []
        """What `_closed` remembers, since an id is good only as long as its object lives. Some are made by the walk."""

    def encode(self, value: Any) -> bytes:
        kind = type(value)
        plain = _PLAIN.get(kind)
        if plain is not None:
            return plain(value)
        if isinstance(value, Handle):
            return self._handle(value)
        return self._compound(value, kind)

    def _handle(self, handle: Handle) -> bytes:
        if self._trial:
            return b"H%020d.%d" % handle._place()
        return b"H%d" % self.handles.setdefault(handle, len(self.handles))

    def _compound(self, value: Any, kind: type) -> bytes:
        key = id(value)
        if key in self._closed:
            return self._closed[key]
        depth = len(self._open)
        if key in self._open:
            return b"^%d" % (depth - self._open[key])
        if depth >= DEEPEST:
            return _typed(kind)
        self._open[key] = depth
        try:
            encoded = _short(self._inside(value, kind))
        finally:
            del self._open[key]
        self._closed[key] = encoded
        self._kept.append(value)
        return encoded

    def _inside(self, value: Any, kind: type) -> bytes:
        if kind is list or kind is tuple:
            return (b"[" if kind is list else b"(") + self._sequence(value)
        if kind is dict:
            return b"{" + self._mapping(value)
        if isinstance(value, enum.Enum):
            return b"E" + _join((_typed(kind), str(value.name or value.value).encode()))
        for base, encode in _BY_BASE:
            if isinstance(value, base):
                return _typed(kind) + encode(self, value)
        fields = _compared_fields(value)
        if fields is not None:
            return (
                b"F" + _typed(kind) + self._sequence(v for name in fields for v in (name, getattr(value, name, None)))
            )
        if kind.__module__ in ("numpy", "numpy.dtypes"):
            return self._numpy(value, kind)
        name = _own_name(value)
        return b"N" + name if name else _typed(kind)

    def _sequence(self, values: Iterable[Any]) -> bytes:
        return _join(map(self.encode, values))

    def _mapping(self, mapping: Any) -> bytes:
        keys = self._in_order(mapping)
        return _join(part for key in keys for part in (self.encode(key), self.encode(dict.__getitem__(mapping, key))))

    def _set(self, values: Any) -> bytes:
        return self._sequence(self._in_order(values))

    def _in_order(self, values: Iterable[Any]) -> list[Any]:
        """In the order of the encoded values. A handle has no number before it is met, so this is tried out first with
        the order in which the handles were made."""
        keys = list(values)
        if all(type(key) is str for key in keys):
            return sorted(keys)
        attempt = self
        if not self._trial:
            attempt = Walk(self._contents, trial=True)
            attempt._open = self._open
        encoded = sorted(((attempt.encode(key), key) for key in keys), key=_first)
        return [key for _, key in encoded]

    def _bytes(self, value: bytes | bytearray) -> bytes:
        if len(value) <= LARGE:
            return bytes(value)
        return self._contents.digest((id(value),), value, lambda: value)

    def _numpy(self, value: Any, kind: type) -> bytes:
        if not hasattr(value, "dtype"):  # a dtype has an item size; what else there is in numpy cannot be compared
            return b"n" + _join((_typed(kind), str(value).encode() if hasattr(value, "itemsize") else b""))
        about = f"{value.dtype!r} {value.shape}".encode()
        if value.dtype.hasobject:
            elements = value.tolist()
            self._kept.append(elements)
            content = self.encode(elements)
        elif value.nbytes <= LARGE:
            content = value.tobytes()
        else:
            place = value.__array_interface__
            content = self._contents.digest(
                (place["data"][0], value.shape, value.strides, value.dtype),
                value,
                lambda: value.reshape(-1).view("u1") if value.flags.c_contiguous else value.tobytes(),
            )
        return b"n" + _join((_typed(kind), about, content))


def _first(pair: tuple[bytes, Any]) -> bytes:
    return pair[0]


def _join(parts: Iterable[bytes]) -> bytes:
    """One string of many, so that no two different lists of parts give the same string."""
    return b"".join([b"%d:%b" % (len(part), part) for part in parts])


def _short(encoded: bytes) -> bytes:
    return encoded if len(encoded) <= 32 else b"#" + hashlib.blake2b(encoded, digest_size=16).digest()


def _typed(kind: type) -> bytes:
    """The name of a type, without its module: a script and the module it becomes later mean the same class."""
    return b"<%b>" % kind.__qualname__.encode()


def _own_name(value: Any) -> bytes:
    """Functions, classes, tasks and workflows have one."""
    try:
        name = getattr(value, "__qualname__", "")
    except Exception:  # an object that answers for attributes it does not have is none of them
        return b""
    return name.encode() if isinstance(name, str) else b""


def _compared_fields(value: Any) -> list[str] | None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in dataclasses.fields(value) if field.compare]
    kind = type(value)
    if hasattr(kind, "__struct_fields__"):
        return list(kind.__struct_fields__)
    if hasattr(kind, "__attrs_attrs__"):
        return [attribute.name for attribute in kind.__attrs_attrs__ if attribute.eq]
    return None


def _text(encode: Callable[[Any], str]) -> Callable[[Walk, Any], bytes]:
    return lambda _, value: encode(value).encode("utf-8", "surrogatepass")


def _pieces(*names: str) -> Callable[[Walk, Any], bytes]:
    return lambda walk, value: walk._sequence([getattr(value, name) for name in names])


_PLAIN: dict[type, Callable[[Any], bytes]] = {
    str: lambda value: _short(b"s" + value.encode("utf-8", "surrogatepass")),
    int: lambda value: _short(b"i%x" % value),
    bool: lambda value: b"t" if value else b"f",
    float: lambda value: b"d" + struct.pack("<d", value),
    type(None): lambda _: b"-",
    type(...): lambda _: b".",
}

_BY_BASE: tuple[tuple[Any, Callable[[Walk, Any], bytes]], ...] = (
    ((bytes, bytearray), Walk._bytes),
    ((set, frozenset), Walk._set),
    (dict, Walk._mapping),
    ((list, tuple, collections.deque), Walk._sequence),
    (types.SimpleNamespace, lambda walk, value: walk._mapping(vars(value))),
    # Subclasses of the plain types come here, after enum members.
    (str, _text(str.__str__)),
    (int, _text(lambda value: f"{int(value):x}")),
    (float, _text(float.__repr__)),
    ((complex, range, datetime.timedelta, datetime.timezone), _text(repr)),
    ((datetime.datetime, datetime.time), _text(lambda value: f"{value.isoformat()} {value.fold}")),
    (datetime.date, _text(datetime.date.isoformat)),
    ((zoneinfo.ZoneInfo, decimal.Decimal, uuid.UUID, pathlib.PurePath), _text(str)),
    ((ipaddress._BaseAddress, ipaddress._BaseNetwork), _text(str)),
    (fractions.Fraction, _pieces("numerator", "denominator")),
    (slice, _pieces("start", "stop", "step")),
    (re.Pattern, _pieces("pattern", "flags")),
    (array.array, lambda walk, value: walk._sequence((value.typecode, value.tobytes()))),
    (functools.partial, _pieces("func", "args", "keywords")),
    (types.MethodType, _pieces("__func__", "__self__")),
    (BaseException, _pieces("args")),
    (types.ModuleType, _text(lambda value: value.__name__)),
    (Secret, lambda _, value: value.identity()),
)
