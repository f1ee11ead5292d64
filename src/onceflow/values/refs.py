"""References: values that are passed on without being loaded.

A ref may stand anywhere in arguments and outputs. It is set aside when they are pickled, as other handles are, and what
it refers to travels beside them, so that it can be exchanged: for what was saved, or for what a task that ran again has
made anew.

`Ref` is an interface. What `onceflow.put` and `onceflow.ref` give are refs to packed values (`values.packed_outputs`).
Users may bring their own, for what is too large or too lively to be packed: a table in a database, a tree of files. A
ref of theirs travels as a small pickle of itself, its **live form**; when it is saved, that is what its `_checkpoint`
gives, its **kept form**, and `_restore` makes a ref of that. Both are distinguished from a packed value by how they
begin.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from onceflow.errors import InvalidRef
from onceflow.values.handles import Handle

T_co = TypeVar("T_co", covariant=True)


class Ref(Handle, Generic[T_co]):
    """A reference to a value. `get()` gives the value.

    To bring your own, subclass it: say what identifies it (`_id`), how to load it (`get`), what to save of it
    (`_checkpoint`) and how to make it anew from that (`_restore`). It must be possible to pickle it, and it must not
    change. If what it refers to is gone, `get` raises `onceflow.errors.RefLost`: then the task that made it runs again.
    """

    __slots__ = ()

    def get(self) -> T_co:
        """The value."""
        raise NotImplementedError(f"{type(self).__qualname__} has to define `get`: how to load what it refers to")

    @property
    def _id(self) -> str:
        """Refs with equal ids are one."""
        raise NotImplementedError(f"{type(self).__qualname__} has to define `_id`: a text that identifies it")

    def _checkpoint(self) -> Any:
        """What has to be saved so that `_restore` can make it anew: data, or where a durable copy is. It may be called
        in any worker of the host, while others use the ref."""
        raise NotImplementedError(f"{type(self).__qualname__} has to define `_checkpoint`: what to save of it")

    @classmethod
    def _restore(cls, checkpoint: Any) -> Ref[T_co]:
        """A ref to the same value, made of what `_checkpoint` gave. It may be called anywhere, also in a program that
        asks for a result, several times, and by several processes at once."""
        raise NotImplementedError(f"{cls.__qualname__} has to define `_restore`: a ref made of what was saved of it")

    def _place(self) -> tuple[int, int]:
        return -1, 0  # where they have no order, that of the pickler is as good as any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and other._id == self._id

    def __hash__(self) -> int:
        return hash(self._id)


class ValueRef(Ref[T_co]):
    """A ref to a packed value. It belongs to the process that can load it, and cannot be pickled by itself."""

    __slots__ = ("__id", "__load", "__whose")

    def __init__(self, id: str, load: Callable[[], T_co], whose: str) -> None:
        """`whose` says where it is at home, for errors."""
        self.__id = id
        self.__load = load
        self.__whose = whose

    def get(self) -> T_co:
        return self.__load()

    @property
    def _id(self) -> str:
        return self.__id

    @property
    def _whose(self) -> str:
        return self.__whose

    def __reduce__(self) -> Any:
        raise InvalidRef(
            f"{self!r} cannot be pickled by itself: it belongs to {self.__whose}. Return it from a task, pass it to "
            "one, or pickle what `get()` gives"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # protocols that are asked for, such as copying
            raise AttributeError(name)
        raise AttributeError(f"a ref has no {name!r}: call `get()` for the value that {self!r} refers to")

    def __copy__(self) -> ValueRef[T_co]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ValueRef[T_co]:
        return self

    def __repr__(self) -> str:
        return f"<ref {self.__id}>"


# -- refs of users -----------------------------------------------------------------------------------------------------

LIVE = b"onceref:"
"""How the live form begins. What follows is a pickle of the ref."""

KEPT = b"onceckpt"
"""How the kept form begins. What follows is a pickle of its class and its checkpoint."""

_LONGEST = 64 * 1024


def live_form(ref: Ref[Any], dump: Callable[[Any], bytes]) -> bytes:
    """Raises `InvalidRef`."""
    try:
        form = LIVE + dump(ref)
    except Exception as error:
        raise InvalidRef(
            f"{type(ref).__qualname__} cannot be pickled: {error}. A ref should hold what is needed to find its value, "
            "and nothing that belongs to one process"
        ) from error
    if len(form) > _LONGEST:
        raise InvalidRef(
            f"{ref!r} takes {len(form)} bytes by itself. A ref should be small, and refer to what is large"
        )
    return form


def kept_form(live: bytes, dump: Callable[[Any], bytes]) -> bytes:
    """Calls `_checkpoint` of the ref."""
    ref = restore(live)
    try:
        return KEPT + dump((type(ref), ref._checkpoint()))
    except Exception as error:
        error.add_note(f"{type(ref).__qualname__}._checkpoint was asked what to save of a ref that the task returned")
        raise


def is_own(form: bytes | memoryview) -> bool:
    """Whether it is a ref of a user's, in either form."""
    return bytes(form[:8]) in (LIVE, KEPT)


def restore(form: bytes | memoryview) -> Ref[Any]:
    """The ref of either form."""
    content = pickle.loads(form[8:])
    if bytes(form[:8]) == KEPT:
        kind, checkpoint = content
        content = kind._restore(checkpoint)
    if not isinstance(content, Ref):
        raise InvalidRef(f"what was to be a ref is {content!r}, a {type(content).__qualname__}")
    return content
