"""Deploy check: whether parked fibers can continue in the code that is on disk now.

A fiber goes on if the run that it belongs to can be loaded (its tasks are where they were), if everything that its
variables refer to is there, and if each function that it is in has a place for it (`authoring.fibers.changes`). All of
that is judged by names and versions. Modules are imported for it, as going on would; nothing in them is called.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Literal

import msgspec

from onceflow.authoring import graph_storage
from onceflow.authoring.fiber_tasks import stored_graphs
from onceflow.authoring.fiber_tasks.continuations import Continuation
from onceflow.authoring.fibers import changes, definitions
from onceflow.core.model.graph import Graph
from onceflow.engine.inspect.fibers import FiberInfo, Standing, standing_in
from onceflow.engine.inspect.run_info import RunInfo
from onceflow.engine.inspect.stored_names import problem_in, problems
from onceflow.engine.statuses import Status
from onceflow.errors import BadSnapshot, CodeChanged, InvalidOption
from onceflow.storage.run_stores import Place

Verdict = Literal["same", "pin", "move", "lost"]
"""`same`: its code has not changed. `pin`: it finishes in the code in which it began. `move`: it continues in the new
code. `lost`: it cannot continue."""

_GRAVITY: tuple[Verdict, ...] = ("same", "pin", "move", "lost")


class FiberOutlook(msgspec.Struct, frozen=True):
    """What would become of a fiber."""

    run: str
    name: str | None
    """Of the run."""
    fiber: FiberInfo
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """The reasons, for users."""
    status: Status = "waiting"
    """Of the run. The fibers of one that has failed go on if it is resumed."""


def deploy_check(home: Place, runs: list[RunInfo], module: str) -> list[FiberOutlook]:
    """Of the fibers of these runs, those that have to do with a module, or with modules inside it. Raises
    `InvalidOption` if there is no such module, nor a fiber that knows it."""
    scope = _Scope(module)
    found = [outlook for run in runs for outlook in _of_run(home, run, scope)]
    if not found and not scope.is_there:
        raise InvalidOption(module, "there is no such module here, and no fiber that is parked in it", kind="module")
    return found


class _Scope:
    """The modules that a user asks about: one, those inside it, and the same under another name. A script that was
    started as `python jobs/orders.py` is called `orders`; from outside, the file is `jobs.orders`."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._file = _file_of(module)
        self._same: dict[str, bool] = {}

    @property
    def is_there(self) -> bool:
        return self._file is not None or self._module in sys.modules

    def learn(self, standing: Standing) -> None:
        """The files of what a fiber is in."""
        for frame in standing.info.frames:
            module = _module_of(frame.function)
            self._same[module] = self._same.get(module, False) or self._is_same(module, frame.file)

    def covers(self, module: str) -> bool:
        if module == self._module or module.startswith(f"{self._module}."):
            return True
        if module not in self._same:
            self._same[module] = self._is_same(module, "")
        return self._same[module]

    def _is_same(self, other: str, file: str) -> bool:
        """`file` is where it was when a fiber came there, perhaps in another checkout."""
        shorter, longer = sorted((self._module.split("."), other.split(".")), key=len)
        if self._file is None or shorter == longer or longer[-len(shorter) :] != shorter:
            return False
        here = _file_of(other)
        return here == self._file or (_ends_with(self._file, longer) and _ends_with(file, longer))


def _file_of(module: str) -> str | None:
    known = sys.modules.get(module)
    try:
        file = importlib.util.find_spec(module) if known is None else None
    except (ImportError, AttributeError, ValueError):  # a part of its name is no package
        return None
    path = getattr(known, "__file__", None) if file is None else file.origin
    return None if path is None else str(Path(path).resolve())


def _ends_with(file: str, steps: list[str]) -> bool:
    """Whether a module of this name may lie there."""
    parts = Path(file).with_suffix("").parts
    parts = parts[:-1] if parts[-1:] == ("__init__",) else parts
    return list(parts[-len(steps) :]) == steps


def _of_run(home: Place, run: RunInfo, scope: _Scope) -> list[FiberOutlook]:
    names: stored_graphs.Names = {}

    def load(node: str, value: bytes) -> Graph:
        graph, reader = stored_graphs.read_graph(node, value)
        names.update(stored_graphs.names_in(reader, graph))
        return graph

    stored, standings = standing_in(home, run.id, load)
    for standing in standings:
        scope.learn(standing)
    concerned = any(scope.covers(module) for module, _ in names)
    concerned = concerned or bool(graph_storage.missing_tasks(stored, scope.covers, problem_in))
    reported = [standing for standing in standings if concerned or _touches(standing, scope)]
    if not reported:
        return []
    problems: list[tuple[Verdict, str]] = [
        ("lost", f"task {error.task} is gone: {error.reason}")
        for error in graph_storage.missing_tasks(stored, _anything, problem_in)
    ]
    problems += _lost(names)
    return [_outlook(run, standing, [*problems, *_judge(standing)]) for standing in reported]


def _anything(module: str) -> bool:
    return True


def _outlook(run: RunInfo, standing: Standing, found: list[tuple[Verdict, str]]) -> FiberOutlook:
    """The gravest verdict, with the reasons for it and for those that do not contradict it."""
    verdict: Verdict = max((each for each, _ in found), key=_GRAVITY.index, default="same")
    reasons = dict.fromkeys(reason for each, reason in found if reason and (each == "lost" or verdict != "lost"))
    return FiberOutlook(run.id, run.name, standing.info, verdict, tuple(reasons), run.status)


def _touches(standing: Standing, scope: _Scope) -> bool:
    """Whether a fiber has to do with these modules."""
    if standing.continuation is None:
        return scope.covers(_module_of(standing.info.function))
    try:
        contents = stored_graphs.contents_of(standing.continuation)
    except BadSnapshot:
        return True
    refs = [*(frame.ref for frame in contents.frames), *(ref for ref, _ in contents.inner)]
    return any(map(scope.covers, [*map(_module_of, refs), *(module for module, _ in contents.names)]))


def _judge(standing: Standing) -> list[tuple[Verdict, str]]:
    """What there is to say of a fiber, of all functions that it is in."""
    if standing.continuation is None:  # it begins in the new code
        module, _, name = standing.info.function.partition(":")
        return _lost({(module, name): "fiber"})
    try:
        contents = stored_graphs.contents_of(standing.continuation)
        _register(standing.continuation)
    except BadSnapshot as error:
        return [("lost", str(error))]
    found = _lost(contents.names)
    found += [_of_frame(frame) for frame in contents.frames]
    found += [_of_inner(ref, version) for ref, version in contents.inner]
    return found


def _register(continuation: Continuation) -> None:
    for version in continuation.versions:
        definitions.register(version)


def _of_frame(frame: stored_graphs.Frame) -> tuple[Verdict, str]:
    name = frame.ref.partition(":")[2]
    try:
        outlook = changes.outlook(frame.ref, frame.version, frame.number, frame.variables)
    except CodeChanged as error:
        return "lost", f"{name}: {error.verdict.removeprefix('lost: ')}"
    except Exception as error:  # whatever the module raises while it is imported, or its old code when it is compiled
        return "lost", f"{name}: {type(error).__name__}: {error}"
    if outlook.needed:
        code = "the code in which it began" if outlook.how == "pin" else "its code"
        return "lost", f"{name}: {code} needs {', '.join(outlook.needed)}, not found in {_module_of(frame.ref)}"
    match outlook.how:
        case "same":
            return "same", ""
        case "pin":
            return "pin", f"{name} finishes in the code in which it began"
        case "move":
            more = f", if migrate supplies {', '.join(outlook.missing)}" if outlook.missing else ""
            return "move", f"{name} goes on at line {outlook.line} of the new code{more}"


def _of_inner(ref: str, version: str) -> tuple[Verdict, str]:
    try:
        changes.unmoved(ref, version)
    except CodeChanged as error:
        return "lost", f"{ref.partition(':')[2]}: {error.verdict}"
    return "same", ""


def _lost(names: stored_graphs.Names) -> list[tuple[Verdict, str]]:
    return [("lost", problem) for problem in problems(names)]


def _module_of(ref: str) -> str:
    return ref.partition(":")[0]
