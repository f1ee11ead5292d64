"""Assignments that suspend: on their right side, or inside a target."""

from __future__ import annotations

import ast

from onceflow.authoring.fibers import nodes
from onceflow.authoring.fibers.lowering.comprehensions import Comprehensions
from onceflow.authoring.fibers.nodes import name, stored, target_of, value_of


class Targets(Comprehensions):
    def stmt_Assign(self, node: ast.Assign) -> None:
        if not nodes.suspends(node.targets):
            self._assign_plainly(node)
            return
        value = self.pin(self.expr(node.value))
        for target in node.targets:
            self.assign_to(target, value)

    def _assign_plainly(self, node: ast.Assign) -> None:
        target = node.targets[0]
        direct = isinstance(node.value, (ast.Await, ast.Yield, ast.YieldFrom)) and len(node.targets) == 1
        if direct and isinstance(target, ast.Name):
            self.suspend(node.value, target)
        else:
            self.emit(node, ast.copy_location(ast.Assign(node.targets, self.expr(node.value)), node))

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Annotations in functions are not evaluated."""
        if node.value is None:
            self.assign_to(node.target, None)
        else:
            self.stmt_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def assign_to(self, target: ast.expr, value: ast.expr | None) -> None:
        """`target = value`, where the target may suspend. Without a value the target is only evaluated."""
        if isinstance(target, (ast.Tuple, ast.List)) and nodes.suspends(target):
            assert value is not None
            self._unpack(target, value)
        elif isinstance(target, ast.Starred):
            self.assign_to(target.value, value)
        else:
            goal = self.target(target)
            if value is not None:
                self.emit(target, ast.copy_location(ast.Assign([goal], value), target))

    def target(self, target: ast.expr) -> ast.expr:
        """What is left of it once the suspensions in it are over."""
        if isinstance(target, ast.Attribute):
            return ast.copy_location(ast.Attribute(self.expr(target.value), target.attr, target.ctx), target)
        if isinstance(target, ast.Subscript):
            value, index = self.siblings([target.value, target.slice])
            return ast.copy_location(ast.Subscript(value, index, target.ctx), target)
        return target

    def _unpack(self, target: ast.Tuple | ast.List, value: ast.expr) -> None:
        names: list[ast.expr] = []
        parts: list[tuple[ast.expr, str]] = []
        for part in target.elts:
            temporary = self.fresh("t", f"for {self.meaning(part)} of {self.meaning(value)}")
            parts.append((part, temporary))
            goal: ast.expr = stored(temporary)
            names.append(ast.Starred(goal, ast.Store()) if isinstance(part, ast.Starred) else goal)
        self.emit(target, nodes.assign(ast.Tuple(names, ast.Store()), value))
        for part, temporary in parts:
            self.assign_to(part, ast.copy_location(name(temporary), part))

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        goal = self._pinned_target(node.target)
        before = ast.copy_location(value_of(goal), node.target)
        current = self.fresh("t", before)
        self.emit(node, nodes.assign(current, before))
        added = self.expr(node.value)
        self.emit(
            node,
            ast.copy_location(ast.AugAssign(stored(current), node.op, added), node),
            nodes.assign(target_of(goal), name(current)),
        )

    def _pinned_target(self, target: ast.expr) -> ast.expr:
        """A target that can be read and written without evaluating any part of it twice."""
        if isinstance(target, ast.Attribute):
            value = self.pin(self.expr(target.value))
            return ast.copy_location(ast.Attribute(value, target.attr, ast.Store()), target)
        if isinstance(target, ast.Subscript):
            value, index = self.siblings([target.value, target.slice])
            value, index = self.pin(value), self._pin_part(index)
            return ast.copy_location(ast.Subscript(value, index, ast.Store()), target)
        return target

    def stmt_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                self.stmt_Delete(ast.copy_location(ast.Delete(target.elts), target))
            else:
                self.emit(node, ast.Delete([self.target(target)]))
