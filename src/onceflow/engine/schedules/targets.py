"""Which workflow a schedule runs, and with which arguments.

A workflow that can be imported is stored by name: what fires is the code that the engine finds, as for runs that are
resumed. One of a script, or a local one, is stored by value, and stays what it was when the schedule was declared.
Arguments are stored as they were.

If the workflow has a parameter `scheduled` that is not given, it gets the instant for which it is fired: a datetime in
the schedule's time zone. That is not the time at which it runs, which may be later.
"""

from __future__ import annotations

import importlib
import inspect
import reprlib
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from onceflow.authoring.targets import Target, as_target
from onceflow.authoring.tasks import AnyTask
from onceflow.authoring.workflows import Workflow
from onceflow.engine.schedules.definitions import Definition
from onceflow.engine.schedules.rules import zone_of
from onceflow.errors import CodeMissing, InvalidOption, UnpicklableTask, WrongArguments
from onceflow.values import imports, snapshot, versions

SCHEDULED = "scheduled"
"""The parameter that gets the instant."""

_shortener = reprlib.Repr()
_shortener.maxstring = _shortener.maxother = 100


def store_code(target: Target) -> bytes:
    """The workflow by value; empty if it can be imported."""
    if target._found_by_name():
        return b""
    from onceflow.values import by_value  # slow to import, not needed for workflows of modules

    try:
        return by_value.dump(target).payload
    except Exception as error:
        raise UnpicklableTask(target.name, f"{type(error).__name__}: {error}") from error


def store_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Raises `InvalidOption` if they cannot be kept in a row of the journal."""
    try:
        frozen = snapshot.take((tuple(args), dict(kwargs)))
    except Exception as error:
        problem = f"the arguments cannot be stored: {type(error).__name__}: {error}"
        raise InvalidOption("args", problem, kind="setting") from error
    if frozen.handles:
        problem = "an argument is a node, which belongs into the workflow itself"
    elif frozen.buffers or len(frozen.payload) > snapshot.LARGE:
        problem = f"the arguments take more than {snapshot.LARGE} bytes: pass a path, and read it in a task"
    else:
        return frozen.payload
    raise InvalidOption("args", problem, kind="setting")


def show_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    shown = [_shortener.repr(value) for value in args]
    shown += [f"{name}={_shortener.repr(value)}" for name, value in kwargs.items()]
    return ", ".join(shown).encode(errors="replace").decode()


def bind(definition: Definition, instant: float) -> Any:
    """The node to be run. Raises what importing the workflow and building its graph raises."""
    args, kwargs = imports.loads(definition.arguments)
    return bind_target(find(definition), args, kwargs, datetime.fromtimestamp(instant, zone_of(definition.zone)))


def bind_target(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any], scheduled: datetime) -> Any:
    given = dict(kwargs)
    if SCHEDULED in target.signature.parameters:
        try:
            if SCHEDULED not in target.signature.bind_partial(*args, **kwargs).arguments:
                given[SCHEDULED] = scheduled
        except TypeError as error:
            raise WrongArguments(target.name, str(target.signature), str(error)) from None
    return target.bind(*args, **given)


def find(definition: Definition) -> Target:
    """Raises `CodeMissing`."""
    if definition.code:
        return _load(definition)
    module, name = definition.module, definition.workflow
    if module not in sys.modules:
        importlib.invalidate_caches()  # its file may be younger than what this process knows of the folder
    try:
        found: Any = imports.import_module(module)
    except Exception as error:
        raise CodeMissing(
            name,
            module,
            f"importing that module raised {type(error).__name__}: {error}",
            "Make it importable where schedules are fired (install it, set PYTHONPATH, or start where it lies).",
        ) from error
    for step in definition.qualname.split("."):
        found = getattr(found, step, None)
    if isinstance(found, (Workflow, AnyTask)):
        return found
    problem = f"{definition.qualname!r} is no workflow and no task in that module"
    raise CodeMissing(name, module, problem, "Bring it back under that name, or declare the schedule anew.")


def _load(definition: Definition) -> Target:
    advice = "Declare the schedule anew, best with a workflow of a module."
    if definition.interpreter != versions.TAG:  # foreign instructions: undefined behaviour
        problem = f"its code was stored for {definition.interpreter}, and this interpreter is {versions.TAG}"
        raise CodeMissing(definition.workflow, definition.module, problem, advice)
    try:
        found: Target = imports.loads(definition.code)
    except Exception as error:
        problem = f"loading its code, which was stored by value, raised {type(error).__name__}: {error}"
        raise CodeMissing(definition.workflow, definition.module, problem, advice) from error
    return found


def check(target: Any) -> Target:
    found = as_target(target)
    if found is not None:
        return found
    hint = "; give the workflow itself, and its arguments as args= and kwargs=" if hasattr(target, "_workflow") else ""
    shown = getattr(target, "__name__", None) or type(target).__name__
    kind = "a function" if inspect.isfunction(target) else f"a {type(target).__name__}"
    raise InvalidOption(str(shown), f"a schedule runs a workflow, a task or a fiber, not {kind}{hint}", kind="workflow")
