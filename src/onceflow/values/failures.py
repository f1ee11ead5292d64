"""Failures: exceptions of user code on their way to another process.

An exception travels with its type, arguments, attributes, notes, cause and context. Traceback objects cannot travel;
their text does, as a note, which every printed traceback then shows. What cannot be pickled is replaced by an
`ExceptionLost` that names its type and text; the others of the chain stay what they are. Secrets are masked.
"""

from __future__ import annotations

import pickle
import traceback
from typing import Any, Literal

import msgspec

from onceflow.errors import ExceptionLost
from onceflow.values import packed_outputs, scripts, secret_masks

_LONGEST = 50
"""Exceptions of a chain that travel. A loop that handles errors can make chains without end."""

_LONGEST_LINE = 1000
"""Characters of a text that is shown in one line."""


Blame = Literal["certain", "possible", "none"]
"""Whether an attempt is the cause of its worker's death: it was the only one that ran there; others ran beside it; or
it had ended before, and its outcome was lost with the worker."""


class _Link(msgspec.Struct, array_like=True):
    pickled: bytes
    text: str
    cause: int | None
    context: int | None
    suppress: bool
    told: str = ""
    """Its type and text in one line. Empty in what older versions wrote."""


def dump(error: BaseException, where: str) -> bytes:
    """The exception as bytes. `where` says in its note where it was raised."""
    chain: list[BaseException] = [error]
    numbers = {id(error): 0}
    for member in chain:
        for other in (member.__cause__, member.__context__):
            if other is not None and id(other) not in numbers and len(chain) < _LONGEST:
                numbers[id(other)] = len(chain)
                chain.append(other)
    return msgspec.msgpack.encode(
        [
            _Link(
                _pickled(member),
                _traceback(member, where),
                numbers.get(id(member.__cause__)),
                numbers.get(id(member.__context__)),
                member.__suppress_context__,
                _in_one_line(member),
            )
            for member in chain
        ]
    )


def load(failure: bytes) -> BaseException:
    """The exception, with its causes, made of classes of this process."""
    links = msgspec.msgpack.decode(failure, type=list[_Link])
    chain = [_unpickled(link) for link in links]
    for error, link in zip(chain, links, strict=True):
        error.__cause__ = None if link.cause is None else chain[link.cause]
        error.__context__ = None if link.context is None else chain[link.context]
        error.__suppress_context__ = link.suppress
        if link.text:
            error.add_note(link.text)
    return chain[0]


def tell(failure: bytes) -> str:
    """Type and text of the exception in one line. Nothing is unpickled, so no code of the user's is needed."""
    return msgspec.msgpack.decode(failure, type=list[_Link])[0].told


def tell_causes(failure: bytes) -> list[str]:
    """The same of the exception, and of those from which it was raised (`raise … from …`)."""
    links = msgspec.msgpack.decode(failure, type=list[_Link])
    told: list[str] = []
    place: int | None = 0
    while place is not None and len(told) < len(links):
        told.append(links[place].told)
        place = links[place].cause
    return told


def _in_one_line(error: BaseException) -> str:
    text = " ".join(secret_masks.mask(text_of(error)).split())
    told = f"{type(error).__name__}: {text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 1] + '…'}"
    return _encodable(told)


def _encodable(text: str) -> str:
    """Lone surrogates, as in names of files that are not UTF-8, written out: no encoding has them."""
    return text.encode(errors="backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """What it says."""
    try:
        return str(error)
    except Exception:  # its class is the user's
        return "its text cannot be told"


def _pickled(error: BaseException) -> bytes:
    """In the first way of four that leads back to an exception of the same type and gives no secret away. In the first,
    its constructor is called with what `args` holds, which may be something else than what it takes: then its text is
    not the same."""
    for value in (error, _Bare(error), _Bare(error, masked=True)):
        try:
            pickled = packed_outputs.dump(value)
            copy = pickle.loads(pickled)
            if type(copy) is not type(error) or secret_masks.reveals(pickled):
                continue
            if value is not error or text_of(copy) == text_of(error):
                return pickled
        except Exception:  # whatever user code raises while it is pickled: the next way may do
            continue
    return pickle.dumps(_stand_in(error))


class _Bare:
    """An exception reduced to type, arguments and what of its attributes can be pickled. For classes whose constructor
    does not take what `args` holds, or that hold a connection or a lock."""

    def __init__(self, error: BaseException, *, masked: bool = False) -> None:
        self._error = error
        self._masked = masked

    def __reduce__(self) -> tuple[Any, ...]:
        attributes = {name: value for name, value in vars(self._error).items() if _can_travel(value)}
        args = self._error.args
        if self._masked:
            args, attributes = tuple(map(_without_secrets, args)), _without_secrets(attributes)
        return _rebuild, (type(self._error), args, attributes)


def _rebuild(kind: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


def _without_secrets(value: Any) -> Any:
    """The same, masked as far as it can be looked into."""
    if isinstance(value, str):
        return secret_masks.mask(value)
    if isinstance(value, bytes):
        return secret_masks.mask_bytes(value)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(_without_secrets, value))
    if type(value) is dict:
        return {_without_secrets(key): _without_secrets(item) for key, item in value.items()}
    return value if not secret_masks.reveals(packed_outputs.dump(value)) else secret_masks.MASK


def _can_travel(value: object) -> bool:
    try:
        pickle.loads(packed_outputs.dump(value))
    except Exception:
        return False
    return True


def _stand_in(error: BaseException) -> ExceptionLost:
    kind = type(error)
    return ExceptionLost(f"{kind.__module__}.{kind.__qualname__}", secret_masks.mask(text_of(error)))


def _unpickled(link: _Link) -> BaseException:
    try:
        error = scripts.loads(link.pickled)
    except Exception as problem:  # a class that this process does not have
        return ExceptionLost("an exception", f"it cannot be loaded here: {type(problem).__name__}: {problem}")
    assert isinstance(error, BaseException)
    return error


def _traceback(error: BaseException, where: str) -> str:
    if error.__traceback__ is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_OWN)]
    text = f"raised in {where}:\n{''.join(traceback.format_list(own or frames)).rstrip()}"
    return _encodable(secret_masks.mask(text))


_OWN = __file__.removesuffix("values/failures.py") + "backends/"
"""Frames of the backends themselves do not help the user."""
