"""Exceptions and tracebacks as data.

An exception is rebuilt without running its `__init__` in Python again: that may take other arguments than `args`, and
may do something. Its traceback is saved as file, line and function of each frame, and rebuilt from stub code: printing
it looks the same, but its frames hold no variables.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType, FrameType, FunctionType, GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import Any

Entry = tuple[str, int, str, str]
"""File, line, name and qualified name of a frame."""

_NOT_SAVED = frozenset({"obj", "exceptions", "message", "with_traceback", "add_note", "characters_written"})
"""`AttributeError.obj` may be anything; the others follow from `args`."""


def state_of(error: BaseException) -> tuple[Any, ...]:
    kind: Any = type(error)
    fields = {name: value for name in _fields(kind) if (value := getattr(error, name, None)) is not None}
    return (
        error.args,
        error.__dict__ or None,
        fields or None,
        error.__cause__,
        error.__context__,
        error.__suppress_context__,
        entries(error.__traceback__),
    )


def make(kind: Any, *args: Any) -> BaseException:
    """Without state. Only groups need arguments already here."""
    made: BaseException = _builtin(kind).__new__(kind, *args)
    return made


def set_state(error: BaseException, state: tuple[Any, ...]) -> None:
    args, attributes, fields, cause, context, suppress, trace = state
    kind: Any = type(error)
    _builtin(kind).__init__(error, *args)
    error.args = args
    for name, value in (fields or {}).items():
        setattr(error, name, value)
    error.__dict__.update(attributes or {})
    error.__cause__ = cause
    error.__context__ = context
    error.__suppress_context__ = suppress
    error.__traceback__ = traceback_of(trace)


def constructor_args(error: BaseException) -> tuple[Any, ...]:
    return error.args if isinstance(error, BaseExceptionGroup) else ()


@functools.lru_cache(maxsize=256)
def _builtin(kind: type) -> Any:
    """The class in which the layout of the exception is defined."""
    return next(base for base in kind.__mro__ if not base.__flags__ & _HEAP)


_HEAP = 1 << 9


@functools.lru_cache(maxsize=256)
def _fields(kind: type) -> tuple[str, ...]:
    """Attributes beside `args` and the dictionary: those of built-in exceptions, and slots."""
    found: dict[str, None] = {}
    for base in kind.__mro__:
        if base is BaseException:
            break
        for name, value in vars(base).items():
            is_field = isinstance(value, (MemberDescriptorType, GetSetDescriptorType))
            if is_field and not name.startswith("__") and name not in _NOT_SAVED:
                found[name] = None
    return tuple(found)


def entries(trace: TracebackType | None) -> list[Entry] | None:
    if trace is None:
        return None
    found: list[Entry] = []
    step: TracebackType | None = trace
    while step is not None:
        code = step.tb_frame.f_code
        found.append((code.co_filename, step.tb_lineno, code.co_name, code.co_qualname))
        step = step.tb_next
    return found


def traceback_of(found: list[Entry] | None) -> TracebackType | None:
    trace: TracebackType | None = None
    for file, line, name, qualname in reversed(found or ()):
        trace = TracebackType(trace, _frame(file, line, name, qualname), -1, line)
    return trace


def _here() -> FrameType:
    return sys._getframe()


@functools.lru_cache(maxsize=256)
def _stub(file: str, line: int, name: str, qualname: str) -> CodeType:
    return _here.__code__.replace(co_filename=file, co_firstlineno=line, co_name=name, co_qualname=qualname)


def _frame(file: str, line: int, name: str, qualname: str) -> FrameType:
    stub = FunctionType(_stub(file, line, name, qualname), {"sys": sys, "__name__": "", "__file__": file})
    frame: FrameType = stub()
    return frame
