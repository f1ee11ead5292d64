"""What would become of fibers in the code that is on disk now.

A fiber goes on if the run that it belongs to can be loaded (its tasks are where they were), if everything that its
variables refer to is there, and if each function that it is in has a place for it (`authoring.fibers.changes`). All of
that is judged by names and versions. Modules are imported for it, as going on would; nothing in them is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from onceflow.authoring import storing
from onceflow.authoring.awaiting import outside
from onceflow.authoring.awaiting.continuations import Continuation
from onceflow.authoring.fibers import changes, definitions, sources
from onceflow.core.graph import Graph
from onceflow.engine.looking.fibers import FiberInfo, Standing, standing_in
from onceflow.engine.looking.listing import RunInfo
from onceflow.errors import CodeChanged
from onceflow.storage.places import Place

Verdict = Literal["same", "pin", "move", "lost"]
"""`same`: its code has not changed. `pin`: it finishes in the code in which it began. `move`: it goes on in the new
code. `lost`: it cannot go on."""

_GRAVITY: tuple[Verdict, ...] = ("same", "pin", "move", "lost")


class FiberOutlook(msgspec.Struct, frozen=True):
    """What would become of a fiber."""

    run: str
    name: str | None
    """Of the run."""
    fiber: FiberInfo
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """Why, for people."""


def deploy_check(home: Place, runs: list[RunInfo], module: str) -> list[FiberOutlook]:
    """Of the fibers of these runs, those that have to do with a module, or with modules inside it."""
    return [outlook for run in runs for outlook in _of_run(home, run, module)]


def _of_run(home: Place, run: RunInfo, module: str) -> list[FiberOutlook]:
    names: set[tuple[str, str]] = set()

    def load(node: str, value: bytes) -> Graph:
        reader = outside.graph_reader(value)
        graph: Graph = reader.load()
        names.update(outside.names_in(reader))
        return graph

    def concerned(other: str) -> bool:
        return other == module or other.startswith(f"{module}.")

    stored, standings = standing_in(home, run.id, load)
    if not standings:
        return []
    problems = [f"task {error.task} is gone: {error.reason}" for error in storing.missing_tasks(stored, concerned)]
    problems += _gone(names, concerned)
    judged = [(standing, _judge(standing, concerned)) for standing in standings]
    is_concerned = bool(problems) or any(concerned(found) for found, _ in names)
    return [
        FiberOutlook(run.id, run.name, standing.info, "lost" if problems else verdict, (*problems, *reasons))
        for standing, (verdict, reasons, touched) in judged
        if touched or is_concerned
    ]


def _judge(standing: Standing, concerned: Callable[[str], bool]) -> tuple[Verdict, list[str], bool]:
    """Verdict, reasons, and whether it has to do with what is concerned."""
    if standing.continuation is None:
        return _judge_new(standing.info.function, concerned)
    contents = outside.contents_of(standing.continuation)
    found: list[tuple[Verdict, str]] = [("lost", reason) for reason in _gone(contents.names, concerned)]
    _register(standing.continuation)
    frames = [frame for frame in contents.frames if concerned(_module_of(frame.ref))]
    found += [_of_frame(frame) for frame in frames]
    found += [_of_inner(ref, version) for ref, version in contents.inner if concerned(_module_of(ref))]
    verdict: Verdict = max((each for each, _ in found), key=_GRAVITY.index, default="same")
    reasons = [reason for each, reason in found if reason and (each == "lost" or verdict != "lost")]
    return verdict, reasons, bool(found) or any(concerned(module) for module, _ in contents.names)


def _judge_new(ref: str, concerned: Callable[[str], bool]) -> tuple[Verdict, list[str], bool]:
    """A fiber that has not begun begins in the new code."""
    module, _, name = ref.partition(":")
    if not concerned(module):
        return "same", [], False
    reasons = _gone({(module, name)}, concerned)
    verdict: Verdict = "lost" if reasons else "same"
    return verdict, reasons, True


def _register(continuation: Continuation) -> None:
    for version in continuation.versions:
        definitions.register(version)


def _of_frame(frame: outside.Frame) -> tuple[Verdict, str]:
    name = frame.ref.partition(":")[2]
    try:
        outlook = changes.outlook(frame.ref, frame.version, frame.number, frame.variables)
    except CodeChanged as error:
        return "lost", f"{name}: {error.verdict.removeprefix('lost: ')}"
    except Exception as error:  # whatever the module raises while it is imported, or its old code when it is compiled
        return "lost", f"{name}: {type(error).__name__}: {error}"
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


def _gone(names: set[tuple[str, str]], concerned: Callable[[str], bool]) -> list[str]:
    """Those of these names that are not there any more."""
    found: list[str] = []
    for module, name in sorted(names):
        if concerned(module) and (problem := _problem(module, name)):
            found.append(problem)
    return found


def _problem(module: str, name: str) -> str:
    try:
        place: Any = sources.import_named(module)
    except Exception as error:
        return f"{module} cannot be imported: {type(error).__name__}: {error}"
    if definitions.known(f"{module}:{name}") is not None:
        return ""
    for step in name.split("."):
        try:
            place = inspect.getattr_static(place, step)
        except AttributeError:
            return f"there is no {name} in {module} any more"
    return ""


def _module_of(ref: str) -> str:
    return ref.partition(":")[0]
