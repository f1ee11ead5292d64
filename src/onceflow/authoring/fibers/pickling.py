"""The pickler of fibers: where it differs from ordinary pickle.

    coroutine, generator     of a durable function: a frame (not started: its arguments)
    inner function, lambda   its number in the durable function around it, its defaults and its cells
    cell                     an empty cell; contents follow behind everything else, since they may refer to anything
    bound method             the class that has it, its name and its object, so that `super().m` stays what it is
    exception                see `exceptions`
    module                   its name
    class of the script      the importable name of the script instead of `__main__`

Iterators of itertools are refused on every Python: later ones cannot pickle them, and a fiber must survive an upgrade.
"""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Callable, Iterable, Sequence
from types import (
    BuiltinMethodType,
    CellType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    TracebackType,
)
from typing import Any

from onceflow.authoring.fibers import definitions, exceptions, frames, nodes, rebuilding, sources
from onceflow.authoring.fibers.ops import Op
from onceflow.authoring.fibers.points import Version
from onceflow.errors import BadSnapshot

PROTOCOL = 5
NOTHING_MORE = pickle.dumps(None, PROTOCOL)
"""Ends a snapshot."""


class Aside:
    """What an engine keeps beside a snapshot."""

    __slots__ = ("handles", "kind", "versions")

    def __init__(self, kind: type) -> None:
        self.kind = kind
        """Of values that are set aside."""
        self.handles: list[Any] = []
        """These values; the snapshot has their numbers. They are to be given back when it is loaded."""
        self.versions: dict[tuple[str, str], Version] = {}
        """Of all functions in it, by name and version."""


class Unsaveable(Exception):
    """A value that must not be saved. `args[0]` says why."""


class FiberPickler(pickle.Pickler):
    def __init__(
        self, file: io.BytesIO, chain: Sequence[frames.Paused] = (), *, full: bool, aside: Aside | None = None
    ) -> None:
        super().__init__(file, PROTOCOL)
        self._file = file
        self._aside = aside
        self._chain = {id(frame.routine): index for index, frame in enumerate(chain)}
        self.full = full
        """Whether variables that cannot be read any more are saved too."""
        self.last: Any = None
        """What was looked at last: if pickling fails, mostly the culprit."""
        self._cells: list[CellType] = []
        self.listed: set[Any] = set()
        """For `rules`: what stands before something that needs it."""

    def dump_all(self, value: Any) -> None:
        """The value, then the contents of all cells in it, then None."""
        self.dump(value)
        self._dump_contents()

    def dump_chain(self, chain: Sequence[frames.Paused]) -> None:
        """The frames of a fiber, innermost first: what they are, then what is in them, then the contents of cells."""
        self.dump([self._what(frame) for frame in chain])
        awaited = chain[0].awaited
        awaited = awaited.parts() if type(awaited) is Op else awaited
        self.dump(([_state(frame, self.full) for frame in chain], awaited))
        self._dump_contents()

    def _dump_contents(self) -> None:
        while self._cells:
            cells, self._cells = self._cells, []
            self.dump([(cell, cell.cell_contents) for cell in cells if rebuilding.has_contents(cell)])
        self._file.write(NOTHING_MORE)

    def reducer_override(self, value: Any) -> Any:
        self.last = value
        rule = rules.get(type(value))
        if rule is not None:
            return rule(self, value)
        if isinstance(value, _WITH_SUBCLASSES):
            return self._error(value) if isinstance(value, BaseException) else self._global(value)
        if self._aside is not None and isinstance(value, self._aside.kind):
            self._aside.handles.append(value)
            return rebuilding.handle, (len(self._aside.handles) - 1,)
        return NotImplemented

    def _routine(self, value: Any) -> Any:
        if id(value) in self._chain:
            return rebuilding.chained, (self._chain[id(value)],)
        frame = frames.paused(value)
        if frame is None:
            kind = "generator" if isinstance(value, GeneratorType) else "coroutine"
            raise Unsaveable(f"cannot pickle '{kind}' object")
        self._refuse_strangers(frame)
        state = *_state(frame, self.full), frame.awaited
        return rebuilding.frame, self._what(frame), state, None, None, rebuilding.set_frame

    def _refuse_strangers(self, frame: frames.Paused) -> None:
        awaited = frame.awaited
        if isinstance(awaited, (CoroutineType, GeneratorType)) and frames.paused(awaited) is None:
            for _ in frames.chain(awaited):
                pass

    def _function(self, value: FunctionType) -> Any:
        inner = definitions.of_inner(value.__code__)
        if inner is not None:
            definition, index = inner
            self._note(definition)
            names = value.__code__.co_freevars
            cells = {
                name: cell
                for name, cell in zip(names, value.__closure__ or (), strict=True)
                if name not in (nodes.RUNTIME, "__class__")
            }
            what = definition.ref, definition.version.version, index, cells
            state = value.__defaults__, value.__kwdefaults__, value.__doc__, value.__dict__
            return rebuilding.function, what, state, None, None, rebuilding.set_function
        durable = definitions.of_code(value.__code__)
        if durable is not None:
            return rebuilding.durable, (durable.ref,)
        return self._global(value)

    def _global(self, value: Any) -> Any:
        if value.__module__ == "__main__" and (name := sources.main_name()) is not None:
            return rebuilding.named, (name, value.__qualname__)
        return NotImplemented

    def _cell(self, value: CellType) -> Any:
        self._cells.append(value)
        return rebuilding.cell, ()

    def _method(self, value: MethodType) -> Any:
        function, instance = value.__func__, value.__self__
        kind = instance if isinstance(instance, type) else type(instance)
        for owner in kind.__mro__:
            for name, found in _first(value.__name__, vars(owner)):
                if found is function or getattr(found, "__func__", None) is function:
                    return rebuilding.method, (owner, name, instance)
        return MethodType, (function, instance)

    def _builtin_method(self, value: Any) -> Any:
        instance = value.__self__
        if instance is None or isinstance(instance, (ModuleType, type)):
            return NotImplemented
        return rebuilding.builtin_method, (instance, value.__name__)

    def _module(self, value: ModuleType) -> Any:
        return rebuilding.module, (value.__name__,)

    def _error(self, value: BaseException) -> Any:
        what = (type(value), *exceptions.constructor_args(value))
        return rebuilding.error, what, exceptions.state_of(value), None, None, rebuilding.set_error

    def _traceback(self, value: TracebackType) -> Any:
        return rebuilding.traceback, (exceptions.entries(value),)

    def _itertools(self, value: Any) -> Any:
        raise Unsaveable("later Pythons cannot pickle iterators of itertools")

    def _what(self, frame: frames.Paused) -> tuple[Any, ...]:
        version = frame.definition.version
        self._note(frame.definition)
        cells = frame.cells()
        what = version.ref, version.version, frame.number
        return (*what, cells) if cells else what

    def _note(self, definition: definitions.Definition) -> None:
        if self._aside is not None:
            version = definition.version
            self._aside.versions[version.ref, version.version] = version


def _state(frame: frames.Paused, full: bool) -> tuple[Any, ...]:
    return [value for _, value in frame.hidden()], frame.temporaries(), frame.variables(full=full)


def _first(name: str, members: Any) -> Iterable[tuple[str, Any]]:
    """All members, that of this name first."""
    if name in members:
        yield name, members[name]
    yield from members.items()


_WITH_SUBCLASSES = (BaseException, type)
rules: dict[type, Callable[[FiberPickler, Any], Any]] = {
    CoroutineType: FiberPickler._routine,
    GeneratorType: FiberPickler._routine,
    FunctionType: FiberPickler._function,
    CellType: FiberPickler._cell,
    MethodType: FiberPickler._method,
    BuiltinMethodType: FiberPickler._builtin_method,
    MethodWrapperType: FiberPickler._builtin_method,
    ModuleType: FiberPickler._module,
    TracebackType: FiberPickler._traceback,
}
"""Type → what `__reduce__` would give. An engine has its own for what its fibers hold."""
rules |= {kind: FiberPickler._itertools for kind in vars(itertools).values() if isinstance(kind, type)}


def dumps(chain: Sequence[frames.Paused], *, full: bool, aside: Aside | None = None) -> bytes:
    """Frames of a fiber, innermost first."""
    file = io.BytesIO()
    FiberPickler(file, chain, full=full, aside=aside).dump_chain(chain)
    return file.getvalue()


def loads(data: bytes, allow: Iterable[type] | None, loading: rebuilding.Loading) -> list[Any]:
    """The coroutines, innermost first. Neither they nor others among their variables are started yet."""
    file = io.BytesIO(data)
    unpickler = pickle.Unpickler(file) if allow is None else _Careful(file, allow)
    for what in unpickler.load():
        loading.chain.append(rebuilding.frame(*what))
    states, awaited = unpickler.load()
    awaited = Op.of(*awaited) if type(awaited) is tuple else awaited
    for routine, state in zip(loading.chain, states, strict=True):
        rebuilding.set_frame(routine, (*state, awaited))
        awaited = routine
    if file.tell() + len(NOTHING_MORE) == len(data):
        return loading.chain
    while (contents := unpickler.load()) is not None:
        for cell, content in contents:
            cell.cell_contents = content
    return loading.chain


class _Careful(pickle.Unpickler):
    """Refers to nothing but what it is allowed to."""

    def __init__(self, file: io.BytesIO, allow: Iterable[type]) -> None:
        super().__init__(file)
        self._allowed = frozenset(allow)

    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()):
            return super().find_class(module, name)
        if module in definitions.modules():
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        for kind in self._allowed:
            if kind.__module__ == module and kind.__qualname__ == name:
                return kind
        raise BadSnapshot(f"snapshot refers to {module}.{name}, which is not allowed here")


_EXCEPTIONS = {
    name
    for name, value in vars(__import__("builtins")).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
_PLAIN: dict[str, set[str]] = {
    "onceflow.authoring.fibers.rebuilding": {
        "UNSET", "builtin_method", "cell", "chained", "durable", "error", "frame", "function", "handle", "method",
        "set_error", "set_frame", "set_function", "traceback",
    },
    "onceflow.authoring.fibers.ops": {"Op"},
    "builtins": {
        "bool", "bytearray", "bytes", "complex", "dict", "enumerate", "filter", "float", "frozenset", "int", "iter",
        "list", "map", "object", "range", "reversed", "set", "slice", "str", "tuple", "zip", "Ellipsis",
        "NotImplemented", *_EXCEPTIONS,
    },
    "collections": {"ChainMap", "Counter", "OrderedDict", "UserDict", "UserList", "defaultdict", "deque"},
    "copyreg": {"_reconstructor", "__newobj__", "__newobj_ex__"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "pathlib": {"Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath"},
    "uuid": {"UUID", "SafeUUID"},
}  # fmt: skip
