"""Statements that suspend, but for assignments."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import Any

from onceflow.authoring.fibers import nodes, restrictions
from onceflow.authoring.fibers.lowering.matching import Matching
from onceflow.authoring.fibers.nodes import (
    Around,
    Finally,
    Invented,
    Loop,
    Record,
    call,
    helper,
    name,
    negated,
    stored,
    suspends,
)


class Statements(Matching):
    def function(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The body of a whole function. Declarations of globals come first, so that no use of theirs is before them."""
        declared = [node for statement in body for node in nodes.own_scope(statement) if isinstance(node, ast.Global)]
        names = sorted({id for node in declared for id in node.names})
        lowered = self.block(_Undeclared().of(body) if names else body)
        return [*nodes.placed([ast.Global(names)], declared[0]), *lowered] if names else lowered

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return self.inside(lambda: self.statements(body))

    def within(self, around: Around, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        self.around.append(around)
        try:
            return self.block(body)
        finally:
            self.around.pop()

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if suspends(statement):
                lower: Callable[[Any], None] | None = getattr(self, f"stmt_{type(statement).__name__}", None)
                if lower is None:
                    kind = type(statement).__name__
                    restrictions.refuse(self.file, statement, f"await in {kind} is not supported in a durable function")
                lower(statement)
            else:
                self.out.append(statement)

    def stmt_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, (ast.Await, ast.Yield, ast.YieldFrom)):
            self.suspend(node.value, None)
        else:
            self.emit(node, ast.copy_location(ast.Expr(self.expr(node.value)), node))

    def stmt_Return(self, node: ast.Return) -> None:
        assert node.value is not None
        self.emit(node, ast.copy_location(ast.Return(self.expr(node.value)), node))

    def stmt_Raise(self, node: ast.Raise) -> None:
        assert node.exc is not None
        error, *cause = self.siblings([node.exc, *([node.cause] if node.cause else [])])
        self.emit(node, ast.copy_location(ast.Raise(error, cause[0] if cause else None), node))

    def stmt_Assert(self, node: ast.Assert) -> None:
        def fail() -> None:
            error = call(helper("assertion_error"), *([self.expr(node.msg)] if node.msg else []))
            self.emit(node, ast.Raise(error, None))

        def check() -> None:
            test = self.condition(node.test)
            self.emit(node, ast.If(negated(test), self.inside(fail), []))

        self.emit(node, ast.If(name("__debug__"), self.inside(check), []))

    def stmt_If(self, node: ast.If) -> None:
        test = self.condition(node.test)
        self.emit(node, ast.copy_location(ast.If(test, self.block(node.body), self.block(node.orelse)), node))

    def stmt_While(self, node: ast.While) -> None:
        around = Around("while")
        if not suspends(node.test):
            body, orelse = self.within(around, node.body), self.block(node.orelse)
            self.emit(node, ast.copy_location(ast.While(node.test, body, orelse), node))
            return
        ended = self.fresh("b", "end of while")

        def iteration() -> None:
            test = self.condition(node.test)
            self.emit(node.test, ast.If(negated(test), [nodes.assign(ended, True), ast.Break()], []))
            self.statements(node.body)

        self.around.append(around)
        body = self.inside(iteration)
        self.around.pop()
        self.emit(node, nodes.assign(ended, False), ast.While(ast.Constant(True), body, []))
        if node.orelse:
            self.emit(node.orelse[0], ast.If(name(ended), self.block(node.orelse), []))

    def stmt_For(self, node: ast.For) -> None:
        source = self.expr(node.iter)
        if not suspends([node.target, *node.body, *node.orelse]):
            self.emit(node, ast.copy_location(ast.For(node.target, source, node.body, node.orelse), node))
            return
        head = self._head(node, self.meaning)
        iterator = self.fresh("i", head)
        target, body = node.target, list(node.body)
        if not self.keeps_its_value(target):
            value = self.fresh("t", f"item of {head}")
            target = ast.copy_location(stored(value), node.target)
            body.insert(0, ast.copy_location(ast.Assign([node.target], name(value)), node.target))
        loop = Loop(target, source, self.within(Around("for", (("for", iterator),)), body), self.block(node.orelse))
        loop.iterator = iterator
        self.emit(node, loop)

    def _head(self, node: ast.For | ast.AsyncFor, tell: Callable[[ast.AST], str]) -> str:
        keyword = "for" if isinstance(node, ast.For) else "async for"
        return f"{keyword} {tell(node.target)} in {tell(node.iter)}"

    def keeps_its_value(self, target: ast.expr) -> bool:
        """Whether a loop can be entered again by setting its target to the value that it has."""
        return isinstance(target, ast.Name) and target.id in self.steady

    def stmt_AsyncFor(self, node: ast.AsyncFor) -> None:
        head = self._head(node, self.meaning)
        iterator, value = self.fresh("i", head), self.fresh("t", f"item of {head}")
        ended = self.fresh("b", "end of async for")
        source = self.expr(node.iter)
        self.emit(node, nodes.assign(iterator, call(helper("aiter"), source)), nodes.assign(ended, False))
        following = _invented(node, call(helper("anext"), name(iterator)), self._head(node, self.source))
        stop = ast.ExceptHandler(helper("stop_async_iteration"), None, [nodes.assign(ended, True), ast.Break()])
        fetch = ast.Try([nodes.assign(value, following)], [stop], [], [])
        take = ast.copy_location(ast.Assign([node.target], name(value)), node.target)
        around = Around("async for", (("async for", iterator),))
        body = self.within(around, [*nodes.placed([fetch, take], node), *node.body])
        self.emit(node, ast.While(ast.Constant(True), body, []))
        if node.orelse:
            self.emit(node.orelse[0], ast.If(name(ended), self.block(node.orelse), []))

    def stmt_With(self, node: ast.With | ast.AsyncWith) -> None:
        first, *others = node.items
        if others:
            inner = ast.copy_location(type(node)(others, node.body), node)
            self.stmt_With(ast.copy_location(type(node)([first], [inner]), node))
            return
        if isinstance(node, ast.With) and not suspends([*node.body, first.optional_vars]):
            item = ast.withitem(self.expr(first.context_expr), first.optional_vars)
            self.emit(node, ast.copy_location(ast.With([item], node.body), node))
            return
        self._managed(node, first)

    stmt_AsyncWith = stmt_With

    def _managed(self, node: ast.With | ast.AsyncWith, item: ast.withitem) -> None:
        """As the language reference has it:

        enter; try: target = value; body; except: if not exit(error): raise; finally: unless failed, exit(None)
        """
        is_async = isinstance(node, ast.AsyncWith)
        enter, leave = ("__aenter__", "__aexit__") if is_async else ("__enter__", "__exit__")
        head = f"{'async with' if is_async else 'with'} {self.meaning(item.context_expr)}"
        manager, value, failed = self.fresh("m", head), self.fresh("t", f"{head}: value"), self.fresh("b", "failed")
        where = f"async with {self.source(item.context_expr)}"

        def special(method: str, *arguments: ast.expr) -> ast.expr:
            bound = call(helper("special"), name(manager), ast.Constant(method))
            done = call(bound, *arguments)
            return _invented(node, done, f"{where}: {method}") if is_async else done

        self.emit(node, nodes.assign(manager, self.expr(item.context_expr)))
        check = call(helper("check_manager"), name(manager), ast.Constant(enter), ast.Constant(leave))
        entry = [ast.Expr(check), nodes.assign(value, special(enter)), nodes.assign(failed, False)]
        self.statements(nodes.placed(entry, node))
        body = list(node.body)
        if item.optional_vars is not None:
            body.insert(0, ast.copy_location(ast.Assign([item.optional_vars], name(value)), item.optional_vars))
        error = special(leave, ast.Starred(call(helper("exc_info")), ast.Load()))
        handler = ast.ExceptHandler(
            helper("base_exception"), None, [nodes.assign(failed, True), ast.If(negated(error), [ast.Raise()], [])]
        )
        nothing = [ast.Constant(None)] * 3
        final = ast.If(negated(name(failed)), [ast.Expr(special(leave, *nothing))], [])
        whole = ast.Try(body, [handler], [], [final])
        around = Around("with", (("with", manager), ("with", failed)))
        self.out += self.within(around, nodes.placed([whole], node))

    def stmt_Try(self, node: ast.Try) -> None:
        """Handlers and a `finally` are nested, unless nothing but the body suspends: only there can a fiber be dropped
        then. (The interpreter limits how deeply blocks are nested.)"""
        handling = [*node.handlers, *node.orelse]
        if handling and node.finalbody and suspends([*handling, *node.finalbody]):
            inner = ast.copy_location(ast.Try(node.body, node.handlers, node.orelse, []), node)
            node = ast.copy_location(ast.Try([inner], [], [], node.finalbody), node)
        if suspends(node.finalbody):
            self._try_finally(node)
            return
        body, orelse = self.block(node.body), self.block(node.orelse)
        handlers = [self._handler(handler) for handler in node.handlers]
        self.emit(node, ast.copy_location(ast.Try(body, handlers, orelse, node.finalbody), node))

    def _handler(self, handler: ast.ExceptHandler) -> ast.ExceptHandler:
        """One that suspends names its exception, for itself: to be entered again, that exception is raised again. The
        user's name for it is a variable like any other, which is deleted in the end."""
        if not suspends(handler.body):
            return handler
        error = self.fresh("x", f"except {self.meaning(handler.type)}" if handler.type else "except")
        around = Around("except", (("except", error),))
        if handler.name is None:
            body = self.within(around, handler.body)
        else:
            forget = [nodes.assign(handler.name, None), ast.Delete([ast.Name(handler.name, ast.Del())])]
            keep = nodes.assign(handler.name, name(error))
            named = ast.Try(handler.body, [], [], nodes.placed(forget, handler))
            body = self.within(around, nodes.placed([keep, named], handler))
        return ast.copy_location(ast.ExceptHandler(handler.type, error, body), handler)

    def _try_finally(self, node: ast.Try) -> None:
        record = Record(self.fresh("k", "way"), self.fresh("v", "returned"), self.fresh("x", "raised"))
        parts = (("kind", record.kind), ("value", record.value))
        body = self.within(Around("try-finally", parts, pending=True), node.body)
        final = self.within(Around("finally", (*parts, ("error", record.error))), node.finalbody)
        whole = Finally(body, [], [], final)
        whole.record = record
        self.emit(node, ast.copy_location(whole, node))

    def stmt_TryStar(self, node: ast.TryStar) -> None:
        if node.finalbody:
            inner: ast.stmt = ast.copy_location(ast.TryStar(node.body, node.handlers, node.orelse, []), node)
            self.stmt_Try(ast.copy_location(ast.Try([inner], [], [], node.finalbody), node))
            return
        body, orelse = self.block(node.body), self.block(node.orelse)
        self.emit(node, ast.copy_location(ast.TryStar(body, node.handlers, orelse, []), node))

    def stmt_FunctionDef(self, node: nodes.Function) -> None:
        """Only decorators and defaults of an inner function can suspend; its body is its own."""
        decorators, arguments = self._decorated(node, lambda: self.defaults(node.args))
        new = type(node)(node.name, arguments, node.body, decorators, node.returns)
        self._keep_type_parameters(node, new)

    stmt_AsyncFunctionDef = stmt_FunctionDef

    def stmt_ClassDef(self, node: ast.ClassDef) -> None:
        def heads() -> tuple[list[ast.expr], list[ast.keyword]]:
            head = ast.copy_location(ast.Call(name("object"), node.bases, node.keywords), node)
            done = self.expr(head)
            assert isinstance(done, ast.Call)
            return done.args, done.keywords

        decorators, (bases, keywords) = self._decorated(node, heads)
        self._keep_type_parameters(node, ast.ClassDef(node.name, bases, keywords, node.body, decorators))

    def _decorated(self, node: nodes.Function | ast.ClassDef, rest: Callable[[], Any]) -> tuple[list[ast.expr], Any]:
        """Decorators are evaluated before everything else."""
        decorators = [self.pin(self.expr(decorator)) for decorator in node.decorator_list]
        return decorators, rest()

    def _keep_type_parameters(self, node: nodes.Function | ast.ClassDef, new: nodes.Function | ast.ClassDef) -> None:
        if hasattr(node, "type_params"):
            setattr(new, "type_params", node.type_params)  # noqa: B010 - not there before Python 3.12
        self.emit(node, ast.copy_location(new, node))


class _Undeclared(ast.NodeTransformer):
    """Without declarations of globals."""

    def of(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(copy.deepcopy(statement)) for statement in body]

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node


def _invented(node: ast.AST, operand: ast.expr, text: str) -> Invented:
    new = Invented(operand)
    new.text = text
    return ast.copy_location(new, node)
