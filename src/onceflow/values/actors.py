"""Actors: objects in processes of their own, which tasks pass on and call (design 2.7).

What a task holds is an `ActorRef`: it looks like the object, and each of its methods is a call. How calls get there is
up to the process that runs the task: a `Line` for each actor that the task was given or has made. A method that only
looks is marked **const**; tasks that share the actor may call only const methods.

A **snapshot** is what is saved of an actor: its class, and what `_checkpoint` gave. It is a packed value behind a head
that distinguishes it from other values (`values.packed_outputs`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from onceflow.errors import InvalidActor, InvalidRef, SharedActor
from onceflow.values import packed_outputs
from onceflow.values.packed_outputs import Packed
from onceflow.values.refs import Ref

A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

MARK = "__onceflow_actor__"
CONST = "__onceflow_const__"

HEAD = struct.Struct(f"<8sdQd{packed_outputs.ALIGNMENT - 32}x")
"""How a snapshot begins: that it is one, and the options of the class. What follows is packed."""

MAGIC = b"onceactr"

IDLE = 60.0
"""Seconds for which an actor that is saved may stand idle before its process is ended."""


class ActorOptions(NamedTuple):
    """What was said of a class when it was declared to be one of actors."""

    cpus: float = 0.0
    memory: int = 0
    idle: float = IDLE


class Kind(NamedTuple):
    """A class of actors, as the callers of its methods see it."""

    name: str
    methods: dict[str, bool]
    """Name → whether it is const."""


class ActorStatistics(NamedTuple):
    """Statistics of an actor."""

    kind: str
    """Its class."""
    process: int
    """The id of its process; 0 if it has none of its own."""
    calls: int
    busy: float
    """Seconds that it has worked."""
    age: float
    """Seconds since its process began to serve."""
    holders: tuple[str, ...]
    """The attempts that are connected."""


def options_of(kind: type) -> ActorOptions:
    """Raises `InvalidActor` if it is not a class of actors."""
    options = getattr(kind, MARK, None)
    if not isinstance(options, ActorOptions):
        raise InvalidActor(f"{getattr(kind, '__qualname__', kind)!r} is not an actor: put `@actor` above the class")
    return options


def kind_of(actor: object) -> Kind:
    """What can be called of it."""
    methods: dict[str, bool] = {}
    for name in dir(type(actor)):
        if not name.startswith("_"):
            found = getattr(type(actor), name)
            if callable(found):
                methods[name] = bool(getattr(found, CONST, False))
    return Kind(type(actor).__qualname__, methods)


# -- snapshots ---------------------------------------------------------------------------------------------------------


def snapshot(actor: Any) -> Packed:
    """As it is now. Raises what `_checkpoint` or pickling raises."""
    state = actor._checkpoint() if hasattr(actor, "_checkpoint") else actor
    packed = packed_outputs.pack((type(actor), state))
    packed.pieces.insert(0, HEAD.pack(MAGIC, *options_of(type(actor))))
    packed.size += HEAD.size
    return packed


def is_snapshot(content: bytes | memoryview) -> bool:
    return bytes(content[:8]) == MAGIC


def options_in(content: bytes | memoryview) -> ActorOptions:
    """Those of the class of what a snapshot was taken of."""
    _, cpus, memory, idle = HEAD.unpack_from(content)
    return ActorOptions(cpus, memory, idle)


def restore(content: bytes | memoryview) -> Any:
    """A new object like the one that the snapshot was taken of. Raises what `_restore` or unpickling raises."""
    kind, state = packed_outputs.unpack(memoryview(bytearray(content[HEAD.size :])), ours=True)
    return kind._restore(state) if hasattr(kind, "_restore") else state


# -- refs --------------------------------------------------------------------------------------------------------------


class Answer(Protocol[R_co]):
    """A call that was sent."""

    def result(self) -> R_co:
        """What the method returned, or raises what it raised. Waits for it."""

    def done(self) -> bool:
        """Whether the answer is there."""

    def __await__(self) -> Generator[Any, Any, R_co]: ...


class Line(Protocol):
    """The way to one actor, for one attempt."""

    id: str
    exclusive: bool
    """Whether the attempt may call all methods."""

    @property
    def kind(self) -> Kind: ...

    def send(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Answer[Any]:
        """Have a method called. What was sent first is called first."""

    def look(self) -> ActorStatistics: ...


class Finished(Generic[R]):
    """An answer that is there."""

    __slots__ = ("_value",)

    def __init__(self, value: R) -> None:
        self._value = value

    def result(self) -> R:
        return self._value

    def done(self) -> bool:
        return True

    def __await__(self) -> Generator[Any, Any, R]:
        yield from ()
        return self._value


class Method:
    """A method of an actor."""

    __slots__ = ("_line", "_name")

    def __init__(self, line: Line, name: str) -> None:
        self._line = line
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._line.send(self._name, args, kwargs).result()

    def later(self, *args: Any, **kwargs: Any) -> Answer[Any]:
        """Calls it, and does not wait for what it returns."""
        return self._line.send(self._name, args, kwargs)

    def __repr__(self) -> str:
        return f"<{self._name} of {self._line.kind.name} {self._line.id}>"


class ActorRef(Ref[A]):
    """An actor, as a task sees it: with the methods of its class."""

    __slots__ = ("__weakref__", "_line")

    def __init__(self, line: Line) -> None:
        self._line = line

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # protocols that are asked for, such as copying
            raise AttributeError(name)
        kind = self._line.kind
        if name not in kind.methods:
            raise AttributeError(f"actor {kind.name} has no method {name!r}. Its attributes cannot be seen from here")
        return Method(self._line, name)

    @property
    def get(self) -> Any:  # what other refs have is not of use here, but a class may have it
        return self.__getattr__("get")

    @property
    def _id(self) -> str:
        return self._line.id

    def __copy__(self) -> ActorRef[A]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ActorRef[A]:
        return self

    def __reduce__(self) -> NoReturn:
        raise InvalidRef(
            f"{self!r} cannot be pickled by itself: it belongs to the attempt that was given it. Return it from the "
            "task, or pass on what its methods return"
        )

    def __repr__(self) -> str:
        return f"<actor {self._line.id}>"


def belongs_elsewhere(ref: ActorRef[Any]) -> InvalidRef:
    return InvalidRef(f"{ref!r} belongs to another attempt. Pass it on through outputs and arguments")


def cannot_pass_on(task: str, kind: Kind) -> InvalidRef:
    return InvalidRef(
        f"{task} shares actor {kind.name} with others, and cannot pass it on. Bind those who need it to the task that "
        "this one has it from"
    )


def refuse(kind: Kind, method: str, holder: str, others: list[str]) -> SharedActor:
    """What is raised when a task that shares an actor calls a method that is not const."""
    return SharedActor(kind.name, method, holder, tuple(others))


Create = Callable[[type, tuple[Any, ...], Mapping[str, Any]], ActorRef[Any]]
"""Makes an actor for the job that runs."""
