#!/usr/bin/env python3
"""The test of the tests: break each condition of the start and recovery rules once, and see that something notices.

For every condition in the functions of `RULES` there is a mutant with the condition negated, and for every `and` and
`or` one mutant for each operand left out. Each mutant is a copy of the package in a temporary folder; first the unit
tests of the core and then the simulation (with every state compared with its definition) are let loose on it until
one fails. A mutant that nothing kills is printed and makes the exit status 1. `EQUIVALENT` lists the ones that cannot
be noticed, with the reason.

    python tools/mutate.py [--jobs 2] [--only starting.py] [--list]
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import copy
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "onceflow"

RULES: dict[str, tuple[str, ...]] = {
    "core/starting.py": ("_start_if_allowed", "_may_begin", "_begin"),
    "core/settling.py": ("_note_saved", "_note_done", "_reconsider_row", "_set_quiet", "_set_reproducible"),
    "core/retiring.py": ("_cover", "_cover_readers"),
    "core/outputs.py": (
        "_gain",
        "_gain_with_refs",
        "_share",
        "_lose_parts",
        "_lose",
        "_note_loss",
        "_needs_inputs",
        "_ask_to_save",
        "_become_saved",
        "_let_nested_begin",
    ),
    "core/sharing.py": (
        "_describe",
        "_set_refs",
        "_origin",
        "_makers_of_lost",
        "_maker",
        "_made",
        "_shared",
        "_still_shared",
        "_is_still_there",
    ),
    "core/recovery.py": (
        "_recover",
        "_rerun_set",
        "_take_back",
        "_end_attempt",
        "_begin_recovery",
        "_order_undos",
        "_reset",
        "_has_saves",
    ),
    "core/undoing.py": ("_advance_undos", "_has_inputs", "_clear", "_note_undone"),
    "core/stopping.py": ("_attempt_raised", "_stop", "_conclude", "_saga"),
    "core/loading.py": ("_infer_done", "_take_stock", "_continue_undos", "_replay_save", "_save_the_rest"),
}

WITNESS = "the witness that was set when it was saved settles it as well, only later"
WORK = "saves work and nothing else"
EQUIVALENT: dict[str, str] = {
    "core/settling.py:_note_done: mark is not None and mark.hinders without mark.hinders": WORK,
    "core/settling.py:_reconsider_row: row.unquiet == 0 and (row.saved == row.every_part or (row.unsettled == 0 and "
    "row.consumers)) without row.saved == row.every_part": WITNESS,
    "core/stopping.py:_conclude: self._undo_all and (not self._undoing_all) without not self._undoing_all": (
        "after the undo of the whole nothing is left that could be undone"
    ),
    "core/outputs.py:_share: regained or (lost and consumer not in suspects) without lost": WORK,
    "core/outputs.py:_share: regained or (lost and consumer not in suspects) without consumer not in suspects": WORK,
    "core/outputs.py:_share: consumer.refs is None or consumer.released without consumer.refs is None": WORK,
    "core/sharing.py:_origin: row.refs is None or part < row.node.parts without row.refs is None": (
        "a row without refs has no other parts than the declared ones"
    ),
    "core/loading.py:_replay_save: record.refs or (row.refs is not None and record.attempt != row.attempt) without "
    "row.refs is not None": WORK,
}
"""Name of a mutant → why nobody can notice it."""

QUICK, THOROUGH = 300, 3_000
"""Schedules of the simulation that come first, and last."""


class Mutant(NamedTuple):
    """One changed condition. `name` is stable as long as the condition is: it does not depend on line numbers."""

    name: str
    file: str
    source: str


def mutants(file: str, functions: tuple[str, ...]) -> Iterator[Mutant]:
    tree = ast.parse((PACKAGE / file).read_text())
    found = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in functions}
    missing = set(functions) - set(found)
    if missing:
        sys.exit(f"{file} has no function {', '.join(sorted(missing))}: bring RULES up to date")
    seen: dict[str, int] = {}
    for name in functions:
        for parent, field, index, condition in conditions(found[name]):
            for label, changed in changes(condition):
                full = f"{file}:{name}: {label}"
                seen[full] = seen.get(full, 0) + 1
                if seen[full] > 1:
                    full += f" ({seen[full]})"
                put(parent, field, index, changed)
                yield Mutant(full, file, ast.unparse(ast.fix_missing_locations(copy.deepcopy(tree))))
                put(parent, field, index, condition)


def conditions(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Everything in the function that is tested, and where it stands."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp):
            yield node, "test", None, node.test
        elif isinstance(node, ast.comprehension):
            for index, test in enumerate(node.ifs):
                yield node, "ifs", index, test
        elif isinstance(node, ast.Return | ast.Assign) and isinstance(node.value, ast.BoolOp | ast.Compare):
            yield node, "value", None, node.value
        elif isinstance(node, ast.GeneratorExp) and isinstance(node.elt, ast.BoolOp):
            yield node, "elt", None, node.elt


def changes(condition: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    text = ast.unparse(condition)
    yield f"not ({text})", ast.UnaryOp(ast.Not(), condition)
    for path, operand in operands(condition):
        changed = copy.deepcopy(condition)
        target: ast.expr = changed
        for step in path[:-1]:
            assert isinstance(target, ast.BoolOp)
            target = target.values[step]
        assert isinstance(target, ast.BoolOp)
        del target.values[path[-1]]
        yield f"{text} without {ast.unparse(operand)}", changed


def operands(condition: ast.expr, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], ast.expr]]:
    if isinstance(condition, ast.BoolOp):
        for index, value in enumerate(condition.values):
            yield (*path, index), value
            yield from operands(value, (*path, index))


def put(parent: ast.AST, field: str, index: int | None, value: ast.expr) -> None:
    if index is None:
        setattr(parent, field, value)
    else:
        getattr(parent, field)[index] = value


def kill(mutant: Mutant) -> str | None:
    """What noticed the mutant; None if nothing did."""
    with tempfile.TemporaryDirectory(prefix="onceflow-mutant-") as folder:
        package = Path(folder) / "onceflow"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        (package / mutant.file).write_text(mutant.source)
        environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        simulation = [sys.executable, "-m", "onceflow.testing.simulation", "--jobs", "1", "--validate"]
        killers = {
            ("simulation", 60): [*simulation, "--schedules", str(QUICK)],
            ("unit tests", 300): [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "tests/core"],
            ("long simulation", 600): [*simulation, "--first", str(QUICK), "--schedules", str(THOROUGH)],
        }
        for (name, seconds), command in killers.items():
            try:
                done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=seconds)
            except subprocess.TimeoutExpired:
                return f"{name} (never ended)"
            if done.returncode:
                return name
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants hunted at the same time")
    parser.add_argument("--only", action="append", help="only mutants whose name contains this (may be repeated)")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    arguments = parser.parse_args()

    everything = [mutant for file, functions in RULES.items() for mutant in mutants(file, functions)]
    stale = set(EQUIVALENT) - {mutant.name for mutant in everything}
    if stale:
        print("EQUIVALENT names mutants that do not exist any more:", *sorted(stale), sep="\n  ")
        return 1
    wanted = arguments.only or [""]
    hunted = [
        mutant for mutant in everything if mutant.name not in EQUIVALENT and any(text in mutant.name for text in wanted)
    ]
    if arguments.list:
        print(*(mutant.name for mutant in hunted), sep="\n")
        return 0

    original = Mutant("the package as it is", "errors.py", (PACKAGE / "errors.py").read_text())
    noticed = kill(original)
    if noticed:
        print(f"the unchanged package does not pass: {noticed}")
        return 1
    started = time.monotonic()
    survivors: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        try:
            for number, (mutant, killer) in enumerate(zip(hunted, pool.map(kill, hunted), strict=True), 1):
                print(f"{number}/{len(hunted)} {killer or 'SURVIVED':16} {mutant.name}", flush=True)
                if killer is None:
                    survivors.append(mutant.name)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            return 130
    print(f"{len(hunted) - len(survivors)} of {len(hunted)} mutants killed in {time.monotonic() - started:.0f} s")
    if survivors:
        print("nothing noticed:", *survivors, sep="\n  ")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
