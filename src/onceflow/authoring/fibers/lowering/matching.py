"""`match` statements that suspend: choosing a case becomes a step of its own, which sets a number; the bodies follow as
a chain of `if`s."""

from __future__ import annotations

import ast

from onceflow.authoring.fibers import nodes
from onceflow.authoring.fibers.lowering.targets import Targets
from onceflow.authoring.fibers.nodes import name, negated, suspends


class Matching(Targets):
    def stmt_Match(self, node: ast.Match) -> None:
        subject = self.expr(node.subject)
        if not any(suspends([case.guard, *case.body]) for case in node.cases):
            self.emit(node, ast.copy_location(ast.Match(subject, node.cases), node))
            return
        chosen = self.fresh("n", "case")
        self.emit(node, nodes.assign(chosen, 0))
        if any(suspends(case.guard) for case in node.cases):
            self._choose_step_by_step(node, subject, chosen)
        else:
            cases = [
                ast.match_case(case.pattern, case.guard, nodes.placed([nodes.assign(chosen, number)], case.pattern))
                for number, case in enumerate(node.cases, 1)
            ]
            self.emit(node, ast.copy_location(ast.Match(subject, cases), node))
        self._bodies(node, chosen)

    def _choose_step_by_step(self, node: ast.Match, subject: ast.expr, chosen: str) -> None:
        """A guard suspends: one `match` for each case, each only if none before it was chosen."""
        subject = self.pin(subject)
        for number, case in enumerate(node.cases, 1):

            def attempt(case: ast.match_case = case, number: int = number) -> None:
                matched = nodes.placed([nodes.assign(chosen, number)], case.pattern)
                self.emit(case.pattern, ast.Match(subject, [ast.match_case(case.pattern, None, matched)]))
                if case.guard is None:
                    return
                guard = case.guard

                def reset() -> None:
                    self.emit(guard, ast.If(negated(self.expr(guard)), [nodes.assign(chosen, 0)], []))

                self.cases[chosen] = number
                self.emit(guard, ast.If(_is(chosen, number), self.inside(reset), []))

            self.emit(case.pattern, ast.If(negated(name(chosen)), self.inside(attempt), []))

    def _bodies(self, node: ast.Match, chosen: str) -> None:
        for number, case in enumerate(node.cases, 1):
            self.cases[chosen] = number
            self.emit(case.body[0], ast.If(_is(chosen, number), self.block(case.body), []))
        del self.cases[chosen]


def _is(chosen: str, number: int) -> ast.expr:
    return ast.Compare(name(chosen), [ast.Eq()], [ast.Constant(number)])
