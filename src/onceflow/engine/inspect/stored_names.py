"""Names in stored pickles, and whether the code on disk has what they stand for.

Modules are imported to find that out, as resuming the run would. Nothing is unpickled, and nothing that is found is
called.
"""

from __future__ import annotations

import inspect
import pickle
from types import ModuleType
from typing import Any

from onceflow.authoring.fiber_tasks import stored_graphs
from onceflow.authoring.fibers import definitions, sources
from onceflow.authoring.targets import as_target
from onceflow.values.inert import Reader


def problems(names: stored_graphs.Names) -> list[str]:
    """Why those of these names cannot be used that are not there any more, or stand for something else. What is in a
    script goes by value, but for what has the script's own name."""
    found = [_problem(module, name, kind) for (module, name), kind in sorted(names.items()) if module != "__main__"]
    return [problem for problem in found if problem]


def problem_in(payload: bytes) -> str:
    """Why something that is stored by value could not be loaded; empty if nothing is known against it."""
    reader = Reader(payload)
    try:
        reader.load()
        names = stored_graphs.names_in(reader)
    except (pickle.UnpicklingError, LookupError, TypeError) as error:
        return f"what is stored cannot be read: {error}"
    return next(iter(problems(names)), "")


def find(module: str, name: str) -> Any:
    """What has this name, found as unpickling finds it. Raises AttributeError, or what importing the module raises."""
    place: Any = sources.import_named(module)
    for step in name.split(".") if name else ():
        found_in = getattr if isinstance(place, ModuleType) else inspect.getattr_static
        place = found_in(place, step)
    return place.__func__ if isinstance(place, (staticmethod, classmethod)) else place


def _problem(module: str, name: str, kind: stored_graphs.Kind) -> str:
    try:
        sources.import_named(module)
    except Exception as error:
        return f"{module} cannot be imported: {type(error).__name__}: {error}"
    if definitions.known(f"{module}:{name}") is not None:
        return ""
    try:
        found = find(module, name)
    except AttributeError:
        return f"there is no {f'fiber {module}:{name}' if kind == 'fiber' else f'{name} in {module}'} any more"
    if kind == "fiber" or (kind == "task" and as_target(found) is None):
        return f"{name} in {module} is not a {kind} any more"
    return ""
