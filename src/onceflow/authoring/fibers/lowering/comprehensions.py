"""Comprehensions that suspend become loops. Their targets get names of their own: they must not be seen outside."""

from __future__ import annotations

import ast
import copy
from abc import abstractmethod
from collections.abc import Iterable, Sequence

from onceflow.authoring.fibers import nodes, scopes
from onceflow.authoring.fibers.lowering.expressions import Expressions
from onceflow.authoring.fibers.nodes import Around, call, helper, name


class Comprehensions(Expressions):
    @abstractmethod
    def statements(self, body: Sequence[ast.stmt]) -> None: ...

    @abstractmethod
    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]: ...

    def expr_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._loops(node, ast.List([], ast.Load()), "append", node.elt)

    def expr_SetComp(self, node: ast.SetComp) -> ast.expr:
        return self._loops(node, call(helper("set")), "add", node.elt)

    def expr_DictComp(self, node: ast.DictComp) -> ast.expr:
        return self._loops(node, ast.Dict([], []), "put", node.key, node.value)

    def _loops(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp, empty: ast.expr, collect: str, *parts: ast.expr
    ) -> ast.expr:
        first = self.expr(node.generators[0].iter)
        result = self.fresh("t", node)
        self.emit(node, nodes.assign(result, empty))
        number = result.removeprefix(nodes.PREFIX)
        new = {id: f"{nodes.PREFIX}{number}_{id}" for id in scopes.targets_of(node)}
        self.holds.update({renamed: id for id, renamed in new.items()})
        renaming = _Renaming(new)
        collected = call(helper(collect), name(result), *(renaming.of(part) for part in parts))
        body: list[ast.stmt] = nodes.placed([ast.Expr(collected)], parts[0])
        for index, generator in reversed(list(enumerate(node.generators))):
            for test in reversed(generator.ifs):
                body = nodes.placed([ast.If(renaming.of(test), body, [])], test)
            target = renaming.of(generator.target)
            source = renaming.of(generator.iter) if index else first
            loop = ast.AsyncFor if generator.is_async else ast.For
            body = nodes.placed([loop(target, source, body, [])], generator.target)
        self.around.append(Around("comprehension"))
        self.statements(body)
        self.around.pop()
        return name(result)


class _Renaming(ast.NodeTransformer):
    """Renames variables of a comprehension, as far as inner scopes do not hide them."""

    def __init__(self, new: dict[str, str]) -> None:
        self._new = new

    def of(self, node: ast.expr) -> ast.expr:
        renamed: ast.expr = self.visit(copy.deepcopy(node))
        return renamed

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._new.get(node.id, node.id)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args = self.visit(node.args)
        node.body = self._without(scopes.parameters_of(node.args)).visit(node.body)
        return node

    def _without(self, hidden: Iterable[str]) -> _Renaming:
        return _Renaming({old: new for old, new in self._new.items() if old not in set(hidden)})

    def _visit_comprehension(self, node: nodes.Comprehension) -> ast.AST:
        first = node.generators[0]
        first.iter = self.visit(first.iter)
        inner = self._without(scopes.targets_of(node))
        for index, generator in enumerate(node.generators):
            generator.target = inner.visit(generator.target)
            generator.ifs = [inner.visit(test) for test in generator.ifs]
            if index:
                generator.iter = inner.visit(generator.iter)
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, inner.visit(getattr(node, part)))
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension
