"""Pickles that are read without running anything.

`Reader` is a pickle machine of its own. It imports nothing, and the only things that it calls are the makers it is
given, each for an exact (module, name). Every other name in a pickle becomes a `Name`, and what would have been made by
calling it becomes a `Made`, which notes the call. Extensions of `copyreg` are not looked up, nor persistent ids, so
there is no second way to get at a function. Memory and time grow with the length of the pickle and with nothing else:
no opcode makes more than a few objects, and nothing is hashed before its size is known.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any

from onceflow.values.texts import as_size

LARGEST_KEY = 1000
"""Values in a key of a dict or an element of a set. Tuples share members, so hashing a small one may take for ever."""


class Name:
    """A function or class that a pickle refers to."""

    __slots__ = ("module", "qualname", "start")

    def __init__(self, module: str, qualname: str, start: int = 0) -> None:
        self.module = module
        self.qualname = qualname
        self.start = start
        """Where the pickle refers to it."""

    def __repr__(self) -> str:
        return self.qualname if self.module in ("builtins", "") else f"{self.module}.{self.qualname}"


class Made:
    """Stands for an object that was not made."""

    __slots__ = ("args", "items", "maker", "size", "start", "state")

    def __init__(self, maker: Any, args: tuple[Any, ...], start: int = 0, end: int = 0) -> None:
        self.maker = maker
        """A `Name`, mostly."""
        self.args = args
        self.state: Any = None
        self.items: list[Any] = []
        """What would have been appended, added or set; for the latter, keys and values."""
        self.start = start
        self.size = end - start
        """Bytes of what it is made of in the pickle."""

    @property
    def name(self) -> tuple[str, str]:
        """Module and qualified name of what would have made it; empty if that has none."""
        return (self.maker.module, self.maker.qualname) if isinstance(self.maker, Name) else ("", "")

    def __repr__(self) -> str:
        return f"<{self._kind()}, {as_size(self.size)}, not loaded>"

    def _kind(self) -> Name | str:
        if self.name in _REBUILDERS and self.args and isinstance(self.args[0], Name):
            return self.args[0]
        return self.maker if isinstance(self.maker, Name) else "object"


Makers = Mapping[tuple[str, str], Callable[..., Any] | None]
"""What is made for which module and name. None: a `Made`, but the name is an expected one."""

PERSISTENT = Name("", "persistent id")
"""Makes, in the pickle of a snapshot, what was set aside. The argument is the persistent id."""

BUFFER = Name("", "buffer")
"""Makes what was set aside as a buffer, and was not given to the reader."""

_REBUILDERS = {
    ("copyreg", "_reconstructor"),
    ("copyreg", "__newobj_ex__"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
}
"""Functions whose first argument is the class of what they make."""


class Reader:
    """Reads one pickle, or several that follow each other. `makers` must be harmless with any arguments. `buffers` are
    those that stand outside the pickle."""

    def __init__(self, data: bytes, makers: Makers | None = None, buffers: Sequence[Any] = ()) -> None:
        self._data = data
        self._at = 0
        self._makers = makers or {}
        self._buffers = iter(buffers)
        self._memo: dict[int, Any] = {}
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        """Stacks below the marks."""
        self._made: list[Made] = []
        self.names: dict[tuple[str, str], None] = {}
        """Module and qualified name of everything that it refers to, except what `makers` has."""

    def made_by(self, module: str, name: str) -> list[Made]:
        """What this would have made."""
        return [made for made in self._made if made.name == (module, name)]

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def load(self) -> Any:
        """The next value. Raises `pickle.UnpicklingError` for what is no pickle."""
        self._stack, self._below = [], []
        operations, data = _OPERATIONS, self._data
        try:
            while (code := data[self._at]) != _STOP:
                self._at += 1
                operations[code](self)
            self._at += 1
            return self._stack.pop()
        except pickle.UnpicklingError:
            raise
        except (IndexError, KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
            raise pickle.UnpicklingError(f"damaged at byte {self._at}: {type(error).__name__}: {error}") from error

    # -- reading ---------------------------------------------------------------------------------------------------

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise pickle.UnpicklingError("it ends too early")
        return self._data[start : self._at]

    def _line(self) -> str:
        end = self._data.index(b"\n", self._at)
        line = self._data[self._at : end]
        self._at = end + 1
        return line.decode()

    def _number(self, form: struct.Struct) -> int:
        (number,) = form.unpack(self._take(form.size))
        return int(number)

    def _sized(self, form: struct.Struct) -> bytes:
        return self._take(self._number(form))

    def _since_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._below.pop()
        return items

    # -- names and what they make ----------------------------------------------------------------------------------

    def _push_name(self, module: Any, qualname: Any) -> None:
        if type(module) is not str or type(qualname) is not str:
            raise pickle.UnpicklingError("a name is no text")
        if (module, qualname) not in self._makers:
            self.names[module, qualname] = None
        self._stack.append(Name(module, qualname, self._at))

    def _call(self, maker: Any, args: Any) -> None:
        if type(args) is not tuple:
            raise pickle.UnpicklingError("arguments are no tuple")
        make = self._makers.get((maker.module, maker.qualname)) if type(maker) is Name else None
        self._stack.append(self._note(maker, args) if make is None else make(*args))

    def _note(self, maker: Any, args: tuple[Any, ...]) -> Made:
        made = Made(maker, args, getattr(maker, "start", self._at), self._at)
        self._made.append(made)
        return made

    def _fetch(self, number: int) -> None:
        found = self._memo[number]
        self._stack.append(Name(found.module, found.qualname, self._at) if type(found) is Name else found)

    # -- opcodes ---------------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._since_mark()

    def _append(self) -> None:
        self._extend([self._stack.pop()])

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is list:
            target += items
        elif type(target) is set:
            target.update(map(check_key, items))
        elif type(target) is Made:
            target.items += items
            target.size = self._at - target.start
        else:
            raise pickle.UnpicklingError(f"elements for a {type(target).__name__}")

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is dict:
            for key, value in zip(items[::2], items[1::2], strict=True):
                target[check_key(key)] = value
        else:
            self._extend(items)

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set_items([key, value])

    def _build(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if type(target) is not Made:
            raise pickle.UnpicklingError(f"state for a {type(target).__name__}")
        target.state = state
        target.size = self._at - target.start

    def _reduce(self) -> None:
        args, maker = self._stack.pop(), self._stack.pop()
        self._call(maker, args)

    def _new_with_keywords(self) -> None:
        keywords, args, maker = self._stack.pop(), self._stack.pop(), self._stack.pop()
        if keywords:
            self._stack.append(self._note(maker, (*args, keywords)))
        else:
            self._call(maker, args)

    def _object(self) -> None:
        maker, *args = self._since_mark()
        self._call(maker, tuple(args))

    def _instance(self) -> None:
        self._push_name(self._line(), self._line())
        maker = self._stack.pop()
        self._call(maker, tuple(self._since_mark()))

    def _stack_global(self) -> None:
        qualname, module = self._stack.pop(), self._stack.pop()
        self._push_name(module, qualname)

    def _extension(self, form: struct.Struct) -> None:
        """Whatever the program has registered under that number: here it is only a number."""
        self._stack.append(Name("", f"extension {self._number(form)}", self._at))

    def _buffer(self) -> None:
        given = next(self._buffers, None)
        self._stack.append(self._note(BUFFER, ()) if given is None else given)

    def _tuple(self, count: int) -> None:
        items = self._stack[-count:]
        if len(items) != count:
            raise pickle.UnpicklingError("too little for a tuple")
        self._stack[-count:] = [tuple(items)]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _push_since_mark(self, kind: Callable[[list[Any]], Any]) -> None:
        items = self._since_mark()
        self._stack.append(kind(items))

    def _dict(self) -> None:
        items = self._since_mark()
        self._stack.append({})
        self._set_items(items)

    def _drop_since_mark(self) -> None:
        self._since_mark()


def check_key(value: Any) -> Any:
    """The same, if it can be hashed in little time."""
    if type(value) in _ATOMS:
        return value
    left, waiting = LARGEST_KEY, [value]
    while waiting:
        one = waiting.pop()
        left -= 1
        if type(one) in (tuple, frozenset) and len(one) <= left:
            waiting += one
        elif type(one) not in _ATOMS:
            left = -1
        if left < 0:
            raise pickle.UnpicklingError("a key or element of a set is too large, or cannot be one")
    return value


_ATOMS = frozenset({str, bytes, int, float, bool, NoneType, Name, Made})

_U1, _U2, _U4, _U8 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")
_I4, _F8 = struct.Struct("<i"), struct.Struct(">d")
_STOP = pickle.STOP[0]

_Operation = Callable[[Reader], None]


def _constant(value: Any) -> _Operation:
    return lambda reader: reader._stack.append(value)


def _integer(form: struct.Struct) -> _Operation:
    return lambda reader: reader._stack.append(reader._number(form))


def _long(form: struct.Struct) -> _Operation:
    return lambda reader: reader._stack.append(int.from_bytes(reader._sized(form), "little", signed=True))


def _bytes(form: struct.Struct) -> _Operation:
    return lambda reader: reader._stack.append(reader._sized(form))


def _text(form: struct.Struct) -> _Operation:
    return lambda reader: reader._stack.append(reader._sized(form).decode("utf-8", "surrogatepass"))


def _old_text(form: struct.Struct) -> _Operation:
    return lambda reader: reader._stack.append(reader._sized(form).decode("latin-1"))


def _skip(form: struct.Struct) -> _Operation:
    def skip(reader: Reader) -> None:
        reader._number(form)

    return skip


def _get(form: struct.Struct) -> _Operation:
    return lambda reader: reader._fetch(reader._number(form))


def _put(form: struct.Struct) -> _Operation:
    def put(reader: Reader) -> None:
        number = reader._number(form)
        reader._memo[number] = reader._stack[-1]

    return put


def _memoize(reader: Reader) -> None:
    reader._memo[len(reader._memo)] = reader._stack[-1]


def _put_line(reader: Reader) -> None:
    reader._memo[int(reader._line())] = reader._stack[-1]


def _integer_line(reader: Reader) -> None:
    line = reader._line()
    reader._stack.append(line == "01" if line in ("00", "01") else int(line.removesuffix("L")))


_OPERATIONS: dict[int, _Operation] = {
    code[0]: operation
    for code, operation in {
        pickle.PROTO: _skip(_U1),
        pickle.FRAME: _skip(_U8),
        pickle.MARK: Reader._mark,
        pickle.POP: Reader._pop,
        pickle.POP_MARK: Reader._drop_since_mark,
        pickle.DUP: lambda reader: reader._stack.append(reader._stack[-1]),
        pickle.NONE: _constant(None),
        pickle.NEWTRUE: _constant(True),
        pickle.NEWFALSE: _constant(False),
        pickle.INT: _integer_line,
        pickle.LONG: _integer_line,
        pickle.FLOAT: lambda reader: reader._push(float(reader._line())),
        pickle.BININT: _integer(_I4),
        pickle.BININT1: _integer(_U1),
        pickle.BININT2: _integer(_U2),
        pickle.LONG1: _long(_U1),
        pickle.LONG4: _long(_U4),
        pickle.BINFLOAT: lambda reader: reader._push(_F8.unpack(reader._take(8))[0]),
        pickle.UNICODE: lambda reader: reader._push(reader._line()),
        pickle.SHORT_BINUNICODE: _text(_U1),
        pickle.BINUNICODE: _text(_U4),
        pickle.BINUNICODE8: _text(_U8),
        pickle.STRING: lambda reader: reader._push(reader._line()[1:-1]),
        pickle.SHORT_BINSTRING: _old_text(_U1),
        pickle.BINSTRING: _old_text(_U4),
        pickle.SHORT_BINBYTES: _bytes(_U1),
        pickle.BINBYTES: _bytes(_U4),
        pickle.BINBYTES8: _bytes(_U8),
        pickle.BYTEARRAY8: _bytes(_U8),
        pickle.NEXT_BUFFER: Reader._buffer,
        pickle.READONLY_BUFFER: lambda reader: None,
        pickle.EMPTY_TUPLE: _constant(()),
        pickle.TUPLE1: lambda reader: reader._tuple(1),
        pickle.TUPLE2: lambda reader: reader._tuple(2),
        pickle.TUPLE3: lambda reader: reader._tuple(3),
        pickle.TUPLE: lambda reader: reader._push_since_mark(tuple),
        pickle.EMPTY_LIST: lambda reader: reader._push([]),
        pickle.LIST: lambda reader: reader._push_since_mark(list),
        pickle.APPEND: Reader._append,
        pickle.APPENDS: lambda reader: reader._extend(reader._since_mark()),
        pickle.EMPTY_DICT: lambda reader: reader._push({}),
        pickle.DICT: Reader._dict,
        pickle.SETITEM: Reader._set_item,
        pickle.SETITEMS: lambda reader: reader._set_items(reader._since_mark()),
        pickle.EMPTY_SET: lambda reader: reader._push(set()),
        pickle.ADDITEMS: lambda reader: reader._extend(reader._since_mark()),
        pickle.FROZENSET: lambda reader: reader._push_since_mark(lambda items: frozenset(map(check_key, items))),
        pickle.GLOBAL: lambda reader: reader._push_name(reader._line(), reader._line()),
        pickle.STACK_GLOBAL: Reader._stack_global,
        pickle.EXT1: lambda reader: reader._extension(_U1),
        pickle.EXT2: lambda reader: reader._extension(_U2),
        pickle.EXT4: lambda reader: reader._extension(_U4),
        pickle.REDUCE: Reader._reduce,
        pickle.NEWOBJ: Reader._reduce,
        pickle.NEWOBJ_EX: Reader._new_with_keywords,
        pickle.OBJ: Reader._object,
        pickle.INST: Reader._instance,
        pickle.BUILD: Reader._build,
        pickle.PERSID: lambda reader: reader._push(reader._note(PERSISTENT, (reader._line(),))),
        pickle.BINPERSID: lambda reader: reader._push(reader._note(PERSISTENT, (reader._stack.pop(),))),
        pickle.GET: lambda reader: reader._fetch(int(reader._line())),
        pickle.BINGET: _get(_U1),
        pickle.LONG_BINGET: _get(_U4),
        pickle.PUT: _put_line,
        pickle.BINPUT: _put(_U1),
        pickle.LONG_BINPUT: _put(_U4),
        pickle.MEMOIZE: _memoize,
    }.items()
}


def name_of(value: Any) -> tuple[str, str] | None:
    """Module and name of what a pickle refers to by name; None for anything else."""
    return (value.module, value.qualname) if isinstance(value, Name) else None
