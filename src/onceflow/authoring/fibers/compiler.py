"""From the source of a durable function to its code: the live function, the resuming one, and the table of points."""

from __future__ import annotations

import ast
import contextlib
import copy
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

from onceflow.authoring.fibers import code_hash, guards, nodes, restrictions, scopes, sources
from onceflow.authoring.fibers.assignment import Assignment
from onceflow.authoring.fibers.guards import GOAL, SAVED, Guards
from onceflow.authoring.fibers.liveness import Liveness
from onceflow.authoring.fibers.lowering import Lowering
from onceflow.authoring.fibers.nodes import Suspend, name, placed
from onceflow.authoring.fibers.points import Point
from onceflow.errors import DurableSyntaxError

CELLS = "_F_cells"
"""A function whose closure holds the captured variables, so that their cells can be found."""
MAKER = "_F_make"
MARK = 1_000_000
"""More lines than any source has."""
INNER = "_F_function"
"""Not the function's own name, which must remain a global for it."""
VALUES = "_F_w"


Inner = list[tuple[int, CodeType]]
"""The functions that are defined inside, with their number in source order."""


class Source(NamedTuple):
    node: nodes.Function
    qualname: str
    file: str
    flags: int


class Compiler:
    """Makes code of one source. The resuming function is compiled only when it is asked for: most processes never load
    a snapshot."""

    def __init__(self, source: Source) -> None:
        self.source = source
        node = source.node
        restrictions.check(node, source.qualname, source.file)
        self._classes = source.qualname.split(".")[:-1]
        body = code_hash.without_docstring(node.body) or [ast.copy_location(ast.Pass(), node)]
        if _mentions(body, "locals", "vars", "dir"):
            body = _Hiding().of(body)
        before = scopes.names_of(node.args, body)
        lowering = Lowering(source.file, before)
        self._lowered = lowering.function(body)
        self._holds = lowering.holds
        nodes.fill_positions(ast.Module(self._lowered, []))
        self._suspensions = guards.number(self._lowered)
        self._names = scopes.names_of(node.args, self._lowered)
        own = [id for id in self._names.bound if not id.startswith(nodes.PREFIX)]
        self.parameters = self._names.parameters
        self.variables = tuple(sorted(map(self._mangle, own)))
        """All of the user's, as they are called in a frame."""
        self.captured = tuple(sorted(map(self._mangle, self._names.captured)))
        self.points = self._all_points()
        self._functions = _inner_functions(node)

    def _mangle(self, id: str) -> str:
        """Private names of a class are spelled otherwise in its methods."""
        kind = self._classes[-1].lstrip("_") if self._classes else ""
        private = id.startswith("__") and not id.endswith("__") and kind
        return f"_{kind}{id}" if private else id

    def _all_points(self) -> tuple[Point, ...]:
        live = Liveness(self._lowered).at
        assigned = Assignment(self._names.parameters, self._lowered).at
        nothing: frozenset[str] = frozenset()
        return tuple(
            self._point(node, live.get(node.number, nothing), assigned.get(node.number, nothing))
            for node in self._suspensions
        )

    def _point(self, node: Suspend, live: frozenset[str], assigned: frozenset[str]) -> Point:
        kinds = [around.kind for around in node.around]
        last = max((index for index, kind in enumerate(kinds) if kind == "finally"), default=-1)
        hidden = tuple(
            pair
            for index, around in enumerate(node.around)
            if not around.pending or index < last
            for pair in around.hidden
        )
        roles = {variable for _, variable in hidden}
        generated = {id for id in live if id.startswith(nodes.PREFIX) and id != nodes.RUNTIME and id not in roles}
        temporaries = tuple(sorted(generated - self._names.captured, key=_age))
        shared = tuple(sorted(generated & self._names.captured))
        holds = self._holds | {chosen: f"case {number}" for chosen, number in node.cases.items()}
        bound = self._names.bound
        users = bound if self._names.reads_all else live & bound | self._names.captured & bound
        return Point(
            node.number,
            node.lineno,
            node.col_offset,
            node.text,
            node.label,
            tuple(kinds),
            hidden,
            temporaries,
            self._own(users),
            self._own(assigned),
            (*(holds[id] for id in (*(variable for _, variable in hidden), *temporaries)), *shared),
        )

    def _own(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset(self._mangle(id) for id in names if not id.startswith(nodes.PREFIX))

    def read_from(self, number: int) -> frozenset[str]:
        """Every name that may be read from this suspension on, also those of others than the function. 0 is the
        start."""
        if number:
            return Liveness(self._lowered).at.get(number, frozenset())
        everything = (node for statement in self._lowered for node in ast.walk(statement))
        return frozenset(node.id for node in everything if isinstance(node, ast.Name))

    def live(self) -> tuple[CodeType, Inner]:
        """The function with the user's parameters. Its defaults are those that the user's function has."""
        generator = Guards(resuming=False, mangle=self._mangle)
        body = generator.block(self._lowered)
        arguments = copy.copy(self.source.node.args)
        arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
        arguments.kw_defaults = [default and ast.Constant(None) for default in arguments.kw_defaults]
        return self._code(arguments, [*self._prologue(generator.uses_dead), *body], [])

    def resuming(self) -> tuple[CodeType, Inner]:
        """The function that takes the number of a suspension and what was saved."""
        generator = Guards(resuming=True, mangle=self._mangle)
        lowered = self._lowered
        if _mentions(self.source.node.body, "super"):
            lowered = _Super(self._names.parameters).of(lowered)
        captured = sorted(self._names.captured)
        if captured:
            lowered = _Unannotated(self._names.captured).of(lowered)
        body = generator.block(lowered)
        start: list[ast.stmt] = [ast.Nonlocal(captured)] if captured else []
        start.append(nodes.assign(VALUES, ast.Attribute(name(SAVED), "variables", ast.Load())))
        start += [self._restore(id) for id in self._restored()]
        start.append(nodes.assign(VALUES, None))
        empty = ast.Expr(nodes.call(nodes.helper("take"), name(SAVED), ast.Constant(0)))
        start.append(ast.If(nodes.negated(name(GOAL)), [empty], []))
        arguments = _arguments(GOAL, SAVED)
        first = self._first()
        return self._code(arguments, [*placed(start, first), *self._prologue(generator.uses_dead), *body], captured)

    def _restored(self) -> list[str]:
        """What a snapshot can bring: the user's variables, and what points hold besides."""
        own = {id for id in self._names.bound if not id.startswith(nodes.PREFIX)}
        for point in self.points:
            own.update(variable for _, variable in point.hidden)
            own.update(point.temporaries)
        return sorted(own - self._names.captured)

    def _restore(self, id: str) -> ast.stmt:
        text = ast.Constant(self._mangle(id))
        value = ast.Subscript(name(VALUES), text, ast.Load())
        return ast.If(ast.Compare(text, [ast.In()], [name(VALUES)]), [nodes.assign(id, value)], [])

    def _prologue(self, uses_dead: bool) -> list[ast.stmt]:
        lines: list[ast.stmt] = []
        if self._names.captured:
            values = ast.Tuple([name(id) for id in sorted(self._names.captured)], ast.Load())
            inner = ast.arguments([], [], ast.arg(CELLS), [], [], None, [])
            lines.append(nodes.assign(CELLS, ast.Lambda(inner, values)))
        if uses_dead:
            lines.append(nodes.assign(guards.DEAD, False))
        return placed(lines, self._first())

    def _first(self) -> ast.AST:
        return self._lowered[0] if self._lowered else self.source.node

    def _code(self, arguments: ast.arguments, body: list[ast.stmt], captured: list[str]) -> tuple[CodeType, Inner]:
        node = self.source.node
        function = type(node)(INNER, arguments, body, [], None)
        placed([function], node)
        code = self._compiled(function, captured)
        if not self._functions:
            return code, []
        with self._marked(function):
            marked = self._compiled(function, captured)
        return code, list(identify(code, marked))

    def _compiled(self, function: nodes.Function, captured: list[str]) -> CodeType:
        node = self.source.node
        maker = ast.FunctionDef(MAKER, _arguments(nodes.RUNTIME, *captured), [function], [], None)
        tree = sources.in_classes(ast.copy_location(maker, node), f"{'.'.join([*self._classes, MAKER])}")
        try:
            module = sources.compile_tree(tree, self.source.file, self.source.flags)
        except SyntaxError as error:
            raise DurableSyntaxError(
                self.source.file,
                error.lineno or node.lineno,
                f"durable function {self.source.qualname} cannot be compiled ({error.msg}); split it into several",
            ) from error
        code = sources.find_code(module, [*self._classes, MAKER, INNER])
        return _requalified(code, code.co_qualname, self.source.qualname).replace(co_name=node.name)

    @contextlib.contextmanager
    def _marked(self, function: nodes.Function) -> Iterator[None]:
        """For a while, the line of each inner function is its number."""
        before: list[tuple[ast.AST, dict[str, Any]]] = []
        for node in ast.walk(function):
            if isinstance(node, (*nodes.FUNCTIONS, ast.Lambda)) and not _holds_cells(node):
                index = self._functions.get((node.lineno, node.col_offset))
                if index is not None:
                    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
                    first = decorators[0] if decorators else node
                    before.append((first, vars(first).copy()))
                    first.lineno = first.end_lineno = (index + 1) * MARK
                    first.end_col_offset = first.col_offset + 1
        yield
        for changed, attributes in before:
            vars(changed).update(attributes)


def _mentions(body: list[ast.stmt], *names: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for statement in body for node in ast.walk(statement))


def _inner_functions(function: nodes.Function) -> dict[tuple[int, int], int]:
    """Where functions are defined inside, and their numbers in source order."""
    places = sorted(
        (node.lineno, node.col_offset)
        for node in ast.walk(function)
        if isinstance(node, (*nodes.FUNCTIONS, ast.Lambda)) and node is not function
    )
    return {place: index for index, place in enumerate(places)}


def _age(id: str) -> tuple[int, str]:
    """Temporaries are numbered as they are made."""
    digits = "".join(character if character.isdigit() else " " for character in id).split()
    return int(digits[0]), id


def _arguments(*names: str) -> ast.arguments:
    return ast.arguments([], [ast.arg(one) for one in names], None, [], [], None, [])


def _requalified(code: CodeType, old: str, new: str) -> CodeType:
    constants = tuple(
        _requalified(constant, old, new) if isinstance(constant, CodeType) else constant for constant in code.co_consts
    )
    return code.replace(co_qualname=new + code.co_qualname.removeprefix(old), co_consts=constants)


def _holds_cells(node: ast.AST) -> bool:
    return isinstance(node, ast.Lambda) and node.args.vararg is not None and node.args.vararg.arg == CELLS


def identify(code: CodeType, marked: CodeType) -> Iterator[tuple[int, CodeType]]:
    """The numbers of the functions in `code`, found by the same code with marks. Both have them in the same order;
    functions that are alike in everything may share one code object, and then it does not matter which of them."""
    left = _inner_codes(code)
    for twin in _inner_codes(marked):
        alike = [inner for inner in left if _likeness(inner) == _likeness(twin)]
        if not alike:
            alike = [inner for inner in _inner_codes(code) if _likeness(inner) == _likeness(twin)]
        else:
            left.remove(alike[0])
        if twin.co_firstlineno >= MARK:
            yield twin.co_firstlineno // MARK - 1, alike[0]
        yield from identify(alike[0], twin)


def _inner_codes(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _likeness(code: CodeType) -> tuple[object, ...]:
    plain = [repr(constant) for constant in code.co_consts if not isinstance(constant, CodeType)]
    return code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, tuple(plain)


class _OwnScope(ast.NodeTransformer):
    """Leaves inner functions and classes alone."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def of(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(copy.deepcopy(statement)) for statement in body]


class _Hiding(_OwnScope):
    """`locals()`, `vars()` and `dir()` do not show what the transformer has added."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and not node.args and not node.keywords:
            if node.func.id in ("locals", "vars"):
                return ast.copy_location(nodes.call(nodes.helper("visible"), node), node)
            if node.func.id == "dir":
                return ast.copy_location(nodes.call(nodes.helper("visible_names"), node), node)
        return node


class _Unannotated(_OwnScope):
    """A variable of an enclosing function, which captured ones are in the resuming function, cannot be annotated."""

    def __init__(self, captured: frozenset[str]) -> None:
        self._captured = captured

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name) or node.target.id not in self._captured:
            return node
        new = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        return ast.copy_location(new, node)


class _Super(_OwnScope):
    """`super()` finds its object as the first parameter, which the resuming function does not have."""

    def __init__(self, parameters: tuple[str, ...]) -> None:
        self._parameters = parameters

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self._parameters:
            node.args = [ast.copy_location(name(id), node) for id in ("__class__", self._parameters[0])]
        return node
