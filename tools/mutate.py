#!/usr/bin/env python3
"""The test of the tests: break each decision of the law once, and see that something notices.

A **mutant** is `onceflow.core` with one decision changed. A decision is a test (`if`, `while`, ternary, comprehension,
guard of a case) or a boolean value (returned, assigned, counted, passed on). Each is negated once, and each operand of
an `and` or `or` is left out once. All functions of core are mutated except those in `NOT_RULES`, so a new function is
covered without being named here. Assertions and default values are not changed.

A mutant is **killed** by the first unit test of core, or the first schedule of the simulation (with every state
compared with its definition), that fails on it. A mutant that nothing kills **survives**: a test is missing, or the
change cannot be noticed. `equivalent_mutants.toml` lists the latter, with reasons.

How it is fast: this process collects the tests once. A survey of the unchanged package notes which decisions each test
and each schedule comes to, so that a mutant meets only those that could notice it. For each mutant a child is forked,
which replaces the code object of one function: classes, imports and collected tests stay as they are. The likeliest
killers come first: those of the latest mutants of that file, then the quick tests.

    python tools/mutate.py [--jobs 2] [--only starting.py] [--known verdicts.jsonl] [--survivors survivors.txt]
    python tools/mutate.py --list

Exit status: 0 if all mutants are killed, 1 if some survive or the unchanged package does not pass, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import gc
import hashlib
import importlib
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "onceflow"
TESTS = ROOT / "tests" / "core"
SIMULATION = ROOT / "tests" / "tools" / "simulation"

JUDGE = "the judge: the simulation compares core with it"
ADVICE = "advice for people"
FORMAT = "how a graph is written down, not what may happen to it"
NOT_RULES: dict[str, str] = {
    "core/checks/definitions.py": JUDGE,
    "core/checks/validating.py": JUDGE,
    "core/checks/proposals.py": ADVICE,
    "core/checks/check.py:describe": ADVICE,
    "core/checks/check.py:draw": ADVICE,
    "core/checks/check.py:_draw_taken": ADVICE,
    "core/checks/check.py:_path_to": ADVICE,
    "core/checks/check.py:_taker_before": ADVICE,
    "core/checks/check.py:_waits_to_take": ADVICE,
    "core/model/graph.py:digest": FORMAT,
    "core/model/graph.py:pack": FORMAT,
    "core/model/graph.py:narrow": FORMAT,
    "core/model/graph.py:widen": FORMAT,
    "core/model/graph.py:number_ids": FORMAT,
}
"""File, or file and function → why it is not mutated."""


def read_equivalent() -> dict[str, str]:
    with (Path(__file__).parent / "equivalent_mutants.toml").open("rb") as file:
        files = tomllib.load(file)
    return {f"{name}:{mutant}": reason for name, mutants in files.items() for mutant, reason in mutants.items()}


EQUIVALENT = read_equivalent()
"""Name of a mutant → why nothing can notice it."""

SURVEY_SECONDS = 60.0
"""CPU time that a test or a schedule may need on the unchanged package."""
QUICK_TEST = 0.05
"""CPU time. Nearly all tests need less; the others need most of the time."""
MEMORY = 3 << 30
"""Bytes of address space that a mutant may use."""
RECENT = 12
"""Killers of the latest mutants of a file that are tried first on the next one."""


# -- what is mutated ---------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where an expression stands in its tree."""

    parent: ast.AST
    field: str
    position: int | None
    node: ast.expr
    call: ast.Call | None = None
    """The one that the parent is an argument of."""
    branch: str = ""
    """The test of the nearest `if` that it stands under."""

    def put(self, node: ast.expr) -> None:
        if self.position is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.position] = node


class Rule(NamedTuple):
    """A function of core."""

    file: str
    tree: ast.Module
    qualname: str
    function: ast.FunctionDef


class Mutant(NamedTuple):
    """One changed decision. `name` contains no line number, so it lasts as long as the decision does."""

    name: str
    rule: Rule
    decision: Place
    place: Place
    """What is changed: the decision, or an `and` or `or` in it."""
    instead: ast.expr

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Meanwhile the tree is that of the mutant."""
        self.place.put(self.instead)
        try:
            yield
        finally:
            self.place.put(self.place.node)


def parse(sources: dict[str, str]) -> dict[str, ast.Module]:
    return {file: ast.parse(source) for file, source in sources.items()}


def read_core() -> dict[str, str]:
    """File, relative to the package → its text."""
    paths = sorted((PACKAGE / "core").rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in paths}


def functions_of(file: str, tree: ast.Module) -> Iterator[Rule]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield Rule(file, tree, node.name, node)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name != "__repr__":
                    yield Rule(file, tree, f"{node.name}.{inner.name}", inner)


def all_mutants(trees: dict[str, ast.Module]) -> Iterator[Mutant]:
    booleans = boolean_names(tree for file, tree in trees.items() if file not in NOT_RULES)
    exceptions = set(NOT_RULES)
    seen: dict[str, int] = {}
    for file, tree in trees.items():
        for rule in functions_of(file, tree):
            short = f"{file}:{rule.function.name}"
            exceptions -= {file, short}
            if file in NOT_RULES or short in NOT_RULES:
                continue
            for decision in decisions(rule.function, booleans):
                for label, place, instead in changes(decision):
                    name = f"{short}: {label}"
                    seen[name] = seen.get(name, 0) + 1
                    if seen[name] > 1:
                        name += f" ({seen[name]})"
                    yield Mutant(name, rule, decision, place, instead)
    if exceptions:
        sys.exit(f"NOT_RULES names what does not exist any more: {', '.join(sorted(exceptions))}")


# -- how it is mutated -------------------------------------------------------------------------------------------------

TESTS_OF = {(ast.If, "test"), (ast.While, "test"), (ast.IfExp, "test"), (ast.comprehension, "ifs")}
TESTS_OF |= {(ast.match_case, "guard")}
VALUE_HOLDERS = (
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.Return, ast.Yield, ast.Call, ast.keyword),
    *(ast.IfExp, ast.Lambda, ast.Tuple, ast.BinOp, ast.GeneratorExp, ast.ListComp, ast.SetComp),
)
"""What a boolean can be a value of."""


def boolean_names(trees: Iterable[ast.Module]) -> set[str]:
    """The names of fields, parameters and functions that are boolean wherever core declares them."""
    types: dict[str, set[str]] = {name: {"bool"} for name in ("any", "all", "bool", "isinstance")}
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case (
                ast.AnnAssign(target=ast.Name(name) | ast.Attribute(attr=name), annotation=ast.expr() as declared)
                | ast.arg(arg=name, annotation=ast.expr() as declared)
                | ast.FunctionDef(name=name, returns=ast.expr() as declared)
            ):
                types.setdefault(name, set()).add(ast.unparse(declared))
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Constant(bool())):
                types.setdefault(name, set()).add("bool")
    return {name for name, declared in types.items() if declared == {"bool"}}


def decisions(function: ast.FunctionDef, booleans: set[str]) -> Iterator[Place]:
    """Every test and every boolean value in the body. What is only an operand of one belongs to it."""
    for statement in function.body:
        for place in places(statement):
            parent, field, node = place.parent, place.field, place.node
            if (type(parent), field) in TESTS_OF:
                if not isinstance(node, ast.Constant):
                    yield place
            elif not isinstance(parent, ast.BoolOp) and not is_not(parent):
                is_value = isinstance(parent, VALUE_HOLDERS) and field != "func"
                if (
                    isinstance(node, ast.BoolOp | ast.Compare)
                    or is_not(node)
                    or (is_value and is_boolean(node, booleans))
                ):
                    yield place


def places(node: ast.AST, call: ast.Call | None = None, branch: str = "") -> Iterator[Place]:
    """Every expression below a node, in the order of the source."""
    if isinstance(node, ast.Assert) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        return  # what only checks the code itself
    test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
    branches = {"body": f" if {test}", "orelse": f" unless {test}"} if test else {}
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and field not in ("annotation", "returns"):
                if isinstance(child, ast.expr):
                    yield Place(node, field, index, child, call, branch)
                yield from places(child, node if isinstance(node, ast.Call) else None, branches.get(field, branch))


def is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def is_boolean(node: ast.expr, booleans: set[str]) -> bool:
    match node:
        case ast.Constant(bool()):
            return True
        case ast.Name(name, ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
            return name in booleans
        case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name)):
            return name in booleans
    return False


def changes(place: Place) -> Iterator[tuple[str, Place, ast.expr]]:
    """What the change is called, where it is made, and what stands there instead."""
    node = place.node
    text = ast.unparse(node)
    negated = ast.copy_location(ast.UnaryOp(ast.Not(), node), node)
    if isinstance(node, ast.Constant | ast.Name | ast.Attribute) and (type(place.parent), place.field) not in TESTS_OF:
        place.put(negated)
        label = ast.unparse(place.call or place.parent)
        place.put(node)
        yield label + place.branch * isinstance(place.parent, ast.Return), place, negated
    else:
        yield f"not ({text})", place, negated
    for inner in connectives(place):
        connective = inner.node
        assert isinstance(connective, ast.BoolOp)
        for index, operand in enumerate(connective.values):
            rest = [value for position, value in enumerate(connective.values) if position != index]
            left = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(connective.op, rest), connective)
            yield f"{text} without {ast.unparse(operand)}", inner, left


def connectives(place: Place) -> Iterator[Place]:
    """Every `and` and `or` that a condition is made of."""
    node = place.node
    if isinstance(node, ast.BoolOp):
        yield place
        for index, value in enumerate(node.values):
            yield from connectives(Place(node, "values", index, value))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from connectives(Place(node, "operand", None, node.operand))


# -- how it is killed --------------------------------------------------------------------------------------------------


class Killer(NamedTuple):
    """A test or a schedule."""

    name: str
    fails: Callable[[], bool]
    """Whether it fails in this process."""
    seed: int | None = None
    """Of a schedule."""
    seconds: float | None = None
    """CPU time that it needs on the unchanged package, once that is known."""
    reached: int = -1
    """Mask of the decisions that it comes to."""

    @property
    def limit(self) -> float:
        """CPU time after which it counts as one that never ends."""
        return SURVEY_SECONDS if self.seconds is None else 2 + 10 * self.seconds


def unit_tests(session: pytest.Session) -> list[Killer]:
    def fails(item: pytest.Item) -> bool:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return session.testsfailed > 0

    return [Killer(item.nodeid, functools.partial(fails, item)) for item in session.items]


def schedules(count: int) -> list[Killer]:
    from tests.tools.simulation import Caught, Settings, play

    settings = Settings(validate=True, mixed=True)

    def fails(seed: int) -> bool:
        try:
            play(seed, settings)
        except Caught:
            return True
        return False

    return [Killer(f"--seed {seed}{settings.flags}", functools.partial(fails, seed), seed) for seed in range(count)]


def install(rules: Iterable[Rule]) -> None:
    """In this process these functions do from now on what their trees say, for all that refer to them."""
    compiled: dict[str, dict[str, CodeType]] = {}
    for rule in rules:
        if rule.file not in compiled:
            whole = compile(rule.tree, PACKAGE / rule.file, "exec")
            compiled[rule.file] = {code.co_qualname: code for code in codes_in(whole)}
        found: Any = importlib.import_module(module_name(rule.file))
        for name in rule.qualname.split("."):
            found = vars(found)[name]
        for wrapper in ("fget", "func", "__func__"):  # of a property, a cached property, a class method
            found = getattr(found, wrapper, found)
        assert isinstance(found, FunctionType), f"{rule.qualname} in {rule.file} is not a function"
        found.__code__ = compiled[rule.file][rule.qualname]


def install_mutant(mutant: Mutant) -> None:
    with mutant.applied():
        install([mutant.rule])


def install_survey(mutants: list[Mutant], numbers: dict[Place, int], seen: set[int]) -> None:
    """Each decision adds its number to `seen` when it is made."""
    for decision, number in numbers.items():
        noted = ast.Tuple([ast.parse(f"__seen__.add({number})", mode="eval").body, decision.node], ast.Load())
        value = ast.Subscript(noted, ast.Constant(1), ast.Load())
        decision.put(ast.fix_missing_locations(ast.copy_location(value, decision.node)))
    for file in {mutant.rule.file for mutant in mutants}:
        vars(importlib.import_module(module_name(file)))["__seen__"] = seen
    install(dict.fromkeys(mutant.rule for mutant in mutants))


def module_name(file: str) -> str:
    return "onceflow." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)


# -- children ----------------------------------------------------------------------------------------------------------


class Trial:
    """A child in which core is changed, and killers are tried until one of them fails."""

    def __init__(
        self,
        killers: list[Killer],
        change: Callable[[], None],
        passed: Callable[[int], None] = lambda number: None,
        mutant: Mutant | None = None,
    ) -> None:
        """`passed` is called in the child with the number of each killer that does not fail."""
        self.mutant = mutant
        self.killers = killers
        context = multiprocessing.get_context("fork")
        self._current = context.RawValue("i", -1)
        self.process = context.Process(target=self._try_killers, args=(change, passed))
        self.process.start()

    def _try_killers(self, change: Callable[[], None], passed: Callable[[int], None]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        change()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        for number, killer in enumerate(self.killers):
            self._current.value = number
            # The kernel ends the process when one of these rings. A busy machine is no reason to: the first counts CPU
            # time. The second is for what waits for ever.
            signal.setitimer(signal.ITIMER_PROF, killer.limit)
            signal.setitimer(signal.ITIMER_REAL, 30 * killer.limit)
            if killer.fails():
                os._exit(1)
            passed(number)
        os._exit(0)

    @property
    def killer(self) -> Killer | None:
        """Which one failed, after the end."""
        self.process.join()
        if self.process.exitcode == 0:
            return None
        number: int = self._current.value
        assert number >= 0, f"the change could not be made: {self.mutant}"
        return self.killers[number]

    @property
    def end(self) -> str:
        """How the killer failed."""
        rung = (-signal.SIGPROF, -signal.SIGALRM)
        status = self.process.exitcode
        return "" if status == 1 else " (never ended)" if status in rung else f" (the process died: {status})"


def run_trials(trials: Iterator[Trial], jobs: int) -> Iterator[Trial]:
    """Starts so many at a time, and gives each when it has ended."""
    running: dict[int, Trial] = {}
    try:
        while True:
            running.update((trial.process.sentinel, trial) for trial in islice(trials, jobs - len(running)))
            if not running:
                return
            for sentinel in wait(list(running)):
                assert isinstance(sentinel, int)
                yield running.pop(sentinel)
    finally:
        for trial in running.values():
            trial.process.kill()
            trial.process.join()


class Survey:
    """What each killer needs on the unchanged package, and which decisions it comes to. Children write it, in memory
    that they share with this process."""

    def __init__(self, mutants: list[Mutant], killers: list[Killer], jobs: int) -> None:
        self.numbers = {place: n for n, place in enumerate(dict.fromkeys(mutant.decision for mutant in mutants))}
        self.mutants = mutants
        self.killers = killers
        self.jobs = jobs
        self._size = len(self.numbers) // 8 + 1
        self._masks = multiprocessing.RawArray("c", self._size * len(killers))
        self._seconds = multiprocessing.RawArray("d", len(killers))
        self._seen: set[int] = set()
        self._began = 0.0

    def run(self) -> str | None:
        """Returns the name of a killer that fails."""
        parts = (
            Trial(self.killers[n :: self.jobs], self._begin, functools.partial(self._passed, n))
            for n in range(self.jobs)
        )
        for trial in run_trials(parts, self.jobs):
            if trial.killer is not None:
                return trial.killer.name + trial.end
        return None

    def _begin(self) -> None:
        install_survey(self.mutants, self.numbers, self._seen)
        self._began = time.process_time()

    def _passed(self, part: int, number: int) -> None:
        at = part + number * self.jobs
        self._seconds[at] = time.process_time() - self._began
        mask = sum(1 << decision for decision in self._seen)
        self._masks[at * self._size : (at + 1) * self._size] = mask.to_bytes(self._size, "little")
        self._seen.clear()
        self._began = time.process_time()

    def surveyed(self) -> Iterator[Killer]:
        for at, killer in enumerate(self.killers):
            mask = int.from_bytes(self._masks[at * self._size : (at + 1) * self._size], "little")
            yield killer._replace(seconds=self._seconds[at], reached=mask)


# -- the hunt ----------------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    name: str
    key: str
    """Of the mutant: its function, and all of core."""
    killers: str
    """Of the tests and schedules. What survived these may be killed by others; what was killed stays dead."""
    killer: str | None
    """None if it survived."""
    tried: int
    """How many tests and schedules could have noticed."""


class Hunt:
    """Runs inside of pytest, which has collected the tests."""

    def __init__(self, sources: dict[str, str], mutants: list[Mutant], arguments: argparse.Namespace) -> None:
        self.sources = sources
        self.mutants = mutants
        self.jobs: int = arguments.jobs
        self.quick: int = arguments.quick
        self.thorough: int = arguments.thorough
        self.known: Path | None = arguments.known
        self.core_hash = digest(ast.dump(tree) for tree in parse(sources).values())
        judges = sorted([*TESTS.rglob("*.py"), *SIMULATION.rglob("*.py")])
        self.killers_hash = digest([str(self.thorough), *(path.read_text() for path in judges)])
        self.verdicts: dict[str, Verdict] = {}
        self.recent: dict[str, list[Killer]] = {}
        """File → killers of its latest mutants."""
        self.status: int | None = None
        """None until the tests are collected."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for file in self.sources:
            importlib.import_module(module_name(file))
        if read_core() == self.sources:
            self.killers = [*unit_tests(session), *schedules(self.thorough)]
            gc.collect()
            gc.freeze()  # children need not look for garbage here, and copy it all
            try:
                self.status = self._hunt()
            except KeyboardInterrupt:
                self.status = 130
        else:
            print("core was changed while it was being loaded: start again")
            self.status = 1
        return True

    def _hunt(self) -> int:
        left = self._without_known()
        if left and (failing := self._survey(left)) is not None:
            print(f"the unchanged package does not pass: {failing}")
            return 1
        began = time.monotonic()
        for number, verdict in enumerate(map(self._note, run_trials(map(self._try, left), self.jobs)), 1):
            rate = number / (time.monotonic() - began)
            pace = f"{60 * rate:.0f}/min, {(len(left) - number) / rate / 60:.0f} min left"
            print(f"{number}/{len(left)} ({pace}) {fate(verdict)}: {verdict.name}", flush=True)
        return 1 if self.survivors() else 0

    def _survey(self, mutants: list[Mutant]) -> str | None:
        print(f"{len(mutants)} mutants, {len(self.killers)} tests and schedules: a survey comes first", flush=True)
        survey = Survey(mutants, self.killers, self.jobs)
        failing = survey.run()
        self.numbers = survey.numbers
        self.killers = sorted(survey.surveyed(), key=self._rank)
        return failing

    def _rank(self, killer: Killer) -> tuple[int, float]:
        """A quick test kills more mutants in a second than schedules do, and a slow one hardly any."""
        if killer.seed is not None:
            return (1 if killer.seed < self.quick else 3), killer.seed
        return (0 if (killer.seconds or 0) < QUICK_TEST else 2), killer.seconds or 0

    def _try(self, mutant: Mutant) -> Trial:
        return Trial(self._killers_of(mutant), functools.partial(install_mutant, mutant), mutant=mutant)

    def _killers_of(self, mutant: Mutant) -> list[Killer]:
        """Those that come to its decision, the likeliest and cheapest first."""
        number = self.numbers[mutant.decision]
        order = [*self.recent.get(mutant.rule.file, ()), *self.killers]
        return [killer for killer in dict.fromkeys(order) if killer.reached >> number & 1]

    def _note(self, trial: Trial) -> Verdict:
        mutant, killer = trial.mutant, trial.killer
        assert mutant is not None
        if killer is not None:
            recent = self.recent.get(mutant.rule.file, [])
            self.recent[mutant.rule.file] = [killer, *(other for other in recent if other is not killer)][:RECENT]
        name = None if killer is None else killer.name + trial.end
        verdict = Verdict(mutant.name, self._key(mutant), self.killers_hash, name, len(trial.killers))
        self.verdicts[mutant.name] = verdict
        if self.known is not None:
            with self.known.open("a") as file:
                file.write(json.dumps(verdict._asdict()) + "\n")
        return verdict

    def _without_known(self) -> list[Mutant]:
        """The mutants without those whose verdict is known."""
        if self.known is None or not self.known.exists():
            return self.mutants
        lines = self.known.read_text().splitlines()
        known = {verdict.key: verdict for verdict in (Verdict(**json.loads(line)) for line in lines)}
        for mutant in self.mutants:
            verdict = known.get(self._key(mutant))
            if verdict is not None and (verdict.killer is not None or verdict.killers == self.killers_hash):
                self.verdicts[mutant.name] = verdict
        print(f"{len(self.verdicts)} of {len(self.mutants)} verdicts are known")
        return [mutant for mutant in self.mutants if mutant.name not in self.verdicts]

    def _key(self, mutant: Mutant) -> str:
        with mutant.applied():
            return digest([mutant.name, ast.dump(mutant.rule.function), self.core_hash])

    def survivors(self) -> list[Verdict]:
        found = [self.verdicts[mutant.name] for mutant in self.mutants if mutant.name in self.verdicts]
        return [verdict for verdict in found if verdict.killer is None]


def fate(verdict: Verdict) -> str:
    if verdict.killer is not None:
        return f"killed by {verdict.killer}"
    return f"SURVIVED {verdict.tried} tests and schedules" if verdict.tried else "SURVIVED, as nothing comes to it"


def digest(texts: Iterable[str]) -> str:
    seen = hashlib.blake2b(digest_size=12)
    for text in texts:
        seen.update(text.encode() + b"\0")
    return seen.hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants hunted at the same time")
    parser.add_argument("--only", action="append", metavar="TEXT", help="mutants whose name contains it (repeatable)")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--known", type=Path, metavar="FILE", help="verdicts of earlier hunts; new ones are appended")
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="where to write the names of the survivors")
    parser.add_argument("--quick", type=int, default=300, metavar="N", help="schedules that come before the slow tests")
    parser.add_argument("--thorough", type=int, default=4_000, metavar="N", help="schedules in all, for who survives")
    arguments = parser.parse_args()

    sources = read_core()
    everything = list(all_mutants(parse(sources)))
    stale = set(EQUIVALENT) - {mutant.name for mutant in everything}
    if stale:
        print(
            "equivalent_mutants.toml names mutants that do not exist any more:",
            *sorted(stale),
            sep="\n  ",
            file=sys.stderr,
        )
        return 1
    wanted = [mutant for mutant in everything if any(text in mutant.name for text in arguments.only or [""])]
    if arguments.list:
        for mutant in wanted:
            reason = EQUIVALENT.get(mutant.name)
            print(mutant.name if reason is None else f"{mutant.name} (equivalent: {reason})")
        return 0

    hunt = Hunt(sources, [mutant for mutant in wanted if mutant.name not in EQUIVALENT], arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = ["--capture=no", "--timeout=0", "-p", "no:cacheprovider", "-qq", f"--rootdir={ROOT}"]
    ended = pytest.main([*options, str(TESTS)], plugins=[hunt])
    if hunt.status is None:
        return 130 if ended == pytest.ExitCode.INTERRUPTED else 1
    survivors = hunt.survivors()
    untried = len(hunt.mutants) - len(hunt.verdicts)
    print(f"{len(hunt.verdicts) - len(survivors)} mutants killed, {len(survivors)} survived, {untried} not tried")
    for verdict in survivors:
        print(f"  {verdict.name}\n    {fate(verdict)}")
    if arguments.survivors is not None:
        arguments.survivors.write_text("".join(f"{verdict.name}\n" for verdict in survivors))
    return hunt.status


if __name__ == "__main__":
    sys.exit(main())
