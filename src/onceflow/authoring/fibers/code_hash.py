"""The version of a function's code: a hash of its syntax tree, equal on all Pythons.

Positions, comments and formatting are not in the tree; docstrings and annotations are left out, since they are never
executed. Fields that are empty or false count as absent, so that a field that a later Python adds does not change the
versions of functions which do not use it.
"""

from __future__ import annotations

import ast
import hashlib
from typing import Any

from onceflow.authoring.fibers import nodes
from onceflow.authoring.fibers.points import ABI

_LEFT_OUT = frozenset({"annotation", "returns", "type_comment", "ctx", "kind", "is_lazy", "simple", "str"})


def version_of(function: nodes.Function) -> str:
    kind = "async" if isinstance(function, ast.AsyncFunctionDef) else "def"
    text = f"{ABI} {kind} {_dump(function.args)} {_dump(without_docstring(function.body))}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(ast.Constant(str())), *rest]:
            return rest
    return body


def _dump(value: Any) -> str:
    if isinstance(value, list):
        return f"[{' '.join(map(_dump, value))}]"
    if not isinstance(value, ast.AST):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, ast.Constant):
        return f"Constant:{_dump(value.value)}"
    if isinstance(value, ast.JoinedStr):
        return f"JoinedStr{_dump(_merged(value.values))}"
    fields = [
        f"{name}={_dump(field)}"
        for name, field in ast.iter_fields(value)
        if name not in _LEFT_OUT and field is not None and field != [] and field is not False
    ]
    return f"{type(value).__name__}({' '.join(fields)})"


def _merged(pieces: list[ast.expr]) -> list[ast.expr]:
    """Pieces of an f-string. Plain text between values is one piece or none, however a parser has cut it."""
    merged: list[ast.expr] = []
    for piece in pieces:
        before = merged[-1] if merged else None
        if isinstance(piece, ast.Constant) and piece.value == "":
            continue
        if isinstance(piece, ast.Constant) and isinstance(before, ast.Constant):
            merged[-1] = ast.Constant(f"{before.value!s}{piece.value!s}")
        else:
            merged.append(piece)
    return merged
