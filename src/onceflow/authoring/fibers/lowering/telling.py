"""Describes generated variables in terms of the user's source.

It decides whether a fiber may move (`changes`): newer code goes on with intermediate values that the old code has
computed, so it must mean the same by them.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Mapping

from onceflow.authoring.fibers import nodes

LONGEST = 160
"""Characters of a text. What is longer ends with a hash, since it may be repeated at every await of an expression."""


def source_of(node: ast.AST, holds: Mapping[str, str]) -> str:
    """The expression as the user wrote it, with what these generated variables hold in their place."""
    return _unparsed(_Telling(holds, labels=False).of(node))


def meaning_of(node: ast.AST, holds: Mapping[str, str]) -> str:
    """The same, for comparing: short, and with labels for the awaits that have one."""
    text = _unparsed(_Telling(holds, labels=True).of(node))
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _unparsed(node: ast.AST) -> str:
    try:
        return ast.unparse(node)
    except ValueError:  # quotes inside the values of an f-string, before Python 3.12
        return ast.dump(node)


class _Telling(ast.NodeTransformer):
    def __init__(self, holds: Mapping[str, str], *, labels: bool) -> None:
        self._holds = holds
        self._labels = labels

    def of(self, node: ast.AST) -> ast.AST:
        told: ast.AST = self.visit(copy.deepcopy(node))
        return told

    def visit_Name(self, node: ast.Name) -> ast.AST:
        text = self._holds.get(node.id)
        return node if text is None else nodes.name(text if text.isidentifier() else f"({text})")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == nodes.RUNTIME:
            return nodes.name(node.attr)
        return self.generic_visit(node)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        label = nodes.label_of(node) if self._labels else None
        return self.generic_visit(node) if label is None else ast.Await(nodes.name(f"label {label!r}"))
