"""The tasks of a stored graph: as names wherever they can be imported, else by value, and where their code is now.

A run goes on with the code that exists now, so a task that can be imported is stored as a name. What cannot (lambdas,
local functions, tasks of a script) is stored by value; but if the present process runs the same script and that has the
task under its name, the script's is taken.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from onceflow.authoring.tasks import AnyTask
from onceflow.errors import CodeMissing, UnpicklableTask
from onceflow.values import imports, versions


class Home(msgspec.Struct, array_like=True, gc=False):
    """Where a task is defined. The tasks that `.options(...)` made of it are at home in the same place."""

    name: str
    module: str
    qualname: str
    payload: bytes
    """The task by value; empty if it can be imported."""
    version: str
    """Of the code of its function."""


class Origin(Protocol):
    """Where a graph was stored."""

    interpreter: str
    main: str
    """The script of that process; empty if there was none, or nothing of it is stored."""


ProblemIn = Callable[[bytes], str]
"""Says why a task that is stored by value could not be loaded, without loading it; empty if it could."""


def home_of(base: AnyTask[..., Any], name: str) -> Home:
    module, qualname = getattr(base, "__module__", None) or "", getattr(base, "__qualname__", "")
    payload = b"" if base._found_by_name() else by_value(base, name)
    return Home(base.name, module, qualname, payload, versions.code_version(base.function))


def by_value(value: Any, task: str) -> bytes:
    from onceflow.values.by_value import dump  # slow to import, not needed for tasks of modules

    try:
        return dump(value).payload
    except Exception as error:
        raise UnpicklableTask(task, f"{type(error).__name__}: {error}") from error


def script() -> str:
    """The file that this process runs as its `__main__`; empty if there is none (a notebook, a prompt)."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(file) if isinstance(file, str) else ""


def find(home: Home, origin: Origin) -> AnyTask[..., Any]:
    if not home.payload:
        return _import(home)
    present = _task_of_script(home, origin)
    if present is not None:
        return present
    found: AnyTask[..., Any] = load(home.payload, "its code", home.name, home.module, origin)
    return found


def _task_of_script(home: Home, origin: Origin) -> AnyTask[..., Any] | None:
    present = in_script(home.module, home.qualname, origin)
    return present._base if isinstance(present, AnyTask) and present._base.name == home.name else None


def look_up(home: Home, origin: Origin, problem_in: ProblemIn) -> AnyTask[..., Any] | None:
    """As `find`, but None for a task that is stored by value and would have to be unpickled."""
    if not home.payload:
        return _import(home)
    present = _task_of_script(home, origin)
    if present is None:
        _refuse_foreign(home.payload, "its code", home.name, home.module, origin)
        if problem := problem_in(home.payload):
            raise _cannot_be_loaded("its code", home.name, home.module, f"would fail: {problem}")
    return present


def present_version(home: Home, origin: Origin, problem_in: ProblemIn) -> str | None:
    try:
        found = look_up(home, origin, problem_in)
    except CodeMissing:
        return None
    return home.version if found is None else versions.code_version(found.function)


def in_script(module: str, qualname: str, origin: Origin) -> Any:
    """What the script of this process has under a name, if it is the script that stored the graph; else None."""
    if module != "__main__" or not origin.main or origin.main != script():
        return None
    found: Any = sys.modules["__main__"]
    for step in qualname.split("."):
        found = getattr(found, step, None)
    return found


def _import(home: Home) -> AnyTask[..., Any]:
    found: Any = _module(home.name, home.module)
    for step in home.qualname.split("."):
        found = getattr(found, step, None)
    if isinstance(found, AnyTask):
        return found._base
    problem = f"there is no {home.qualname!r} in that module" if found is None else f"{home.qualname!r} is not a task"
    raise CodeMissing(home.name, home.module, problem, "Bring the task back under that name, then resume.")


def _module(task: str, module: str) -> Any:
    """The module of a task."""
    if module not in sys.modules:
        importlib.invalidate_caches()  # its file may be younger than what this process knows of the folder
    try:
        return imports.import_module(module)
    except Exception as error:
        is_gone = isinstance(error, ModuleNotFoundError)
        how = " (install it, set PYTHONPATH, or start where the run was started)" if is_gone else ""
        raise CodeMissing(
            task,
            module,
            f"that module cannot be imported, {type(error).__name__}: {error}",
            f"A run goes on with the code that exists now: make the module importable again{how}, then resume.",
        ) from error


def load(payload: bytes, what: str, task: str, module: str, origin: Origin) -> Any:
    """What was pickled by value."""
    _refuse_foreign(payload, what, task, module, origin)
    try:
        return imports.loads(payload)
    except CodeMissing:
        raise
    except Exception as error:
        if module != "__main__":
            _module(task, module)  # which may be what has failed: that of a fiber, say
        raise _cannot_be_loaded(what, task, module, f"raised {type(error).__name__}: {error}") from error


def _cannot_be_loaded(what: str, task: str, module: str, how: str) -> CodeMissing:
    reason = f"loading {what}, which was stored by value, {how}"
    return CodeMissing(task, module, reason, "Make what it refers to importable again, then resume.")


def _refuse_foreign(payload: bytes, what: str, task: str, module: str, origin: Origin) -> None:
    """Raises `CodeMissing` for what another interpreter has stored by value."""
    if origin.interpreter != versions.TAG and b"CodeType" in payload:  # foreign instructions: undefined behaviour
        raise CodeMissing(
            task,
            module,
            f"{what} was stored by value for {origin.interpreter}, and this interpreter is {versions.TAG}",
            "Resume with the interpreter that started the run"
            + (f", or by running {origin.main} again." if origin.main else "."),
        )
