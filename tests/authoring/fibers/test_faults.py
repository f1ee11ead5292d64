"""The test of the tests: break the transformer in one place, and see that the corpus notices."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

import onceflow.authoring.fibers
from tests.authoring.fibers import comparing

PACKAGE = Path(onceflow.authoring.fibers.__file__).parent

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Fault(NamedTuple):
    name: str
    module: str
    old: str
    new: str
    corpus: str
    """Where it should be noticed."""


FAULTS = [
    Fault(
        "an operand is not pinned",
        "lowering.expressions",
        "if index < last else self._part(part)",
        "if index < last - 1 else self._part(part)",
        "expressions",
    ),
    Fault(
        "an unpacked argument is pinned as it is",
        "lowering.expressions",
        "if isinstance(part, ast.Starred):\n            unpacked",
        "if isinstance(part, ast.Starred):\n            return part\n            unpacked",
        "expressions",
    ),
    Fault(
        "`or` goes on like `and`",
        "lowering.expressions",
        "branch = ast.If(told if isinstance(node.op, ast.And) else negated(told), [], [])",
        "branch = ast.If(told, [], [])",
        "expressions",
    ),
    Fault(
        "a chain of comparisons is cut short",
        "lowering.expressions",
        "                branch = ast.If(name(result), [], [])",
        "                branch = ast.If(negated(name(result)), [], [])",
        "expressions",
    ),
    Fault(
        "an augmented assignment reads its target last",
        "lowering.targets",
        "        added = self.expr(node.value)\n",
        "        added = self.expr(node.value)\n"
        "        self.emit(node, nodes.assign(current, ast.copy_location(value_of(goal), node.target)))\n",
        "expressions",
    ),
    Fault(
        "the `else` of a loop whose test suspends is never reached",
        "lowering.statements",
        "ast.If(negated(test), [nodes.assign(ended, True), ast.Break()], [])",
        "ast.If(negated(test), [ast.Break()], [])",
        "control",
    ),
    Fault(
        "a guard of a case does not count",
        "lowering.matching",
        "self.emit(guard, ast.If(negated(self.expr(guard)), [nodes.assign(chosen, 0)], []))",
        "self.emit(guard, ast.Expr(self.expr(guard)))",
        "control",
    ),
    Fault(
        "the targets of a comprehension are seen outside",
        "lowering.comprehensions",
        "renaming = _Renaming(new)",
        "renaming = _Renaming({})",
        "control",
    ),
    Fault(
        "the name of an exception is not forgotten",
        "lowering.statements",
        "forget = [nodes.assign(handler.name, None), ast.Delete([ast.Name(handler.name, ast.Del())])]",
        "forget = [ast.Pass()]",
        "errors",
    ),
    Fault(
        "the way ends one suspension too early",
        "guards",
        "return ast.Compare(name(GOAL), [ast.LtE()], [ast.Constant(last)])",
        "return ast.Compare(name(GOAL), [ast.Lt()], [ast.Constant(last)])",
        "control",
    ),
    Fault(
        "the last suspension of a block is never guarded",
        "guards",
        "if self.resuming and not (direct and index == last):",
        "if self.resuming and index != last:",
        "errors",
    ),
    Fault(
        "statements before the way are repeated",
        "guards",
        "goal = skipped if self.resuming and (index < last or not direct) else done",
        "goal = done",
        "expressions",
    ),
    Fault(
        "a loop is entered again with its next item",
        "guards",
        "            source = ast.IfExp(_resting(), source, self._again(node))",
        "            pass",
        "control",
    ),
    Fault(
        "any handler accepts an exception that is raised again",
        "guards",
        "nothing: ast.expr = ast.Tuple([], ast.Load())\n            closed",
        'nothing: ast.expr = helper("base_exception")\n            closed',
        "errors",
    ),
    Fault(
        "handlers see that a fiber is dropped",
        "guards",
        "handlers = [self._vanishing(where, remember=bool(node.finalbody))] if self.interval(node.body) else []",
        "handlers = []",
        "errors",
    ),
    Fault(
        "a stale completion is repeated",
        "guards",
        "body += self._unless_resuming(placed([nodes.assign(record.kind, 0)], node.finalbody[0]))",
        "pass",
        "errors",
    ),
    Fault(
        "only the innermost `finally` learns how it was reached",
        "guards",
        "kinds: list[ast.expr] = [nodes.stored(record.kind) for record in records]",
        "kinds: list[ast.expr] = [nodes.stored(records[-1].kind)]",
        "errors",
    ),
    Fault(
        "what raising again has changed stays so",
        "runtime",
        "original, error.__traceback__, error.__context__ = saved.raised.pop()",
        "original, *_ = saved.raised.pop()",
        "errors",
    ),
    Fault(
        "what a handler reads is dead",
        "liveness",
        "dataclasses.replace(ways, error=handlers | ways.error)",
        "ways",
        "errors",
    ),
    Fault(
        "what the next round reads is dead",
        "liveness",
        "grown = live | (self._block(node.body, live, inner)",
        "grown = live | (self._block(node.body, after, inner)",
        "control",
    ),
    Fault(
        "functions get cells of their own",
        "pickling",
        'if name not in (nodes.RUNTIME, "__class__")',
        "if False",
        "functions",
    ),
    Fault(
        "the context of an exception is lost",
        "exceptions",
        "error.__context__ = context",
        "pass",
        "errors",
    ),
    Fault(
        "inner functions are mixed up",
        "compiler",
        "yield twin.co_firstlineno // MARK - 1, alike[0]",
        "yield twin.co_firstlineno // MARK - 1, alike[-1]",
        "functions",
    ),
    Fault(
        "generators that nobody awaits are not taken to their place",
        "rebuilding",
        "            routine.send(None)",
        "            pass",
        "generators",
    ),
]


@pytest.fixture
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fault:
    """The package with one fault. Every function and method of the module is exchanged."""
    fault: Fault = request.param
    original = importlib.import_module(f"onceflow.authoring.fibers.{fault.module}")
    source = Path(str(original.__file__)).read_text("utf-8")
    assert source.count(fault.old) == 1, "the fault does not fit the source any more"
    twin = ModuleType(original.__name__)
    exec(compile(source.replace(fault.old, fault.new), str(original.__file__), "exec", dont_inherit=True), vars(twin))
    for name, new in vars(twin).items():
        old = vars(original).get(name)
        if isinstance(new, FunctionType) and new.__module__ == original.__name__:
            exchange(monkeypatch, old, new)
        elif isinstance(new, type) and new.__module__ == original.__name__ and old is not None:
            for member, value in vars(new).items():
                if isinstance(value, FunctionType):
                    exchange(monkeypatch, vars(old)[member], value)
                elif isinstance(value, staticmethod) and isinstance(value.__func__, FunctionType):
                    exchange(monkeypatch, vars(old)[member].__func__, value.__func__)
    return fault


def exchange(monkeypatch: pytest.MonkeyPatch, old: Any, new: FunctionType) -> None:
    """The old function gets the code of the new one: whoever has imported it has the fault."""
    if old is not None and not new.__code__.co_freevars:
        monkeypatch.setattr(old, "__code__", new.__code__)


def faulty_corpus(name: str) -> ModuleType:
    path = comparing.CORPUS / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"faulty_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def notices(module: str) -> str:
    """The first case of the corpus that does not do what native code does."""
    try:
        corpus = faulty_corpus(module)
    except Exception as error:
        return f"not even compiled: {error!r}"
    for case in comparing.cases(module):
        try:
            outcome = comparing.run_durable(getattr(corpus, case), comparing.fork)
        except Exception:
            return case
        if outcome != comparing.expected(module, case):
            return case
    return ""


@pytest.mark.parametrize("module", comparing.modules())
def test_without_a_fault_nothing_is_noticed(module: str) -> None:
    assert notices(module) == ""


@pytest.mark.parametrize("broken", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"), indirect=True)
def test_a_fault_is_noticed(broken: Fault) -> None:
    noticed = notices(broken.corpus)
    gc.collect()  # a broken fiber may complain when it is freed, which must not fall upon another test

    assert noticed
