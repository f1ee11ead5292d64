"""From `module:workflow` and `--arg name=value` to a node."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import msgspec

from onceflow.authoring.targets import Target, as_target
from onceflow.authoring.tasks import AnyTask
from onceflow.authoring.workflows import Workflow
from onceflow.cli.exits import Wrong
from onceflow.cli.types import AGE, PAIR, TEXT
from onceflow.errors import OnceflowError


def arguments(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The parameters of a verb that takes a workflow."""
    return click.argument("target", type=TEXT, metavar="MODULE:WORKFLOW")(values(verb))


def values(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Those for what the workflow is given."""
    for option in (
        click.option("--input", type=TEXT, metavar="FILE", help="A JSON object with arguments; - reads it from stdin."),
        click.option(
            "--arg",
            "given",
            type=TEXT,
            multiple=True,
            metavar="NAME=VALUE",
            help="An argument: JSON, or else a text. May be given many times; counts more than --input.",
        ),
    ):
        verb = option(verb)
    return verb


name_option = click.option(
    "--name", type=TEXT, metavar="N", help="Which piece of work this is: the same name is never done twice."
)


def run_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """What can be said of a new run: options of `Engine.submit`."""
    for option in (
        click.option(
            "--meta",
            "metadata",
            type=PAIR,
            multiple=True,
            metavar="NAME=VALUE",
            callback=lambda context, option, pairs: dict(pairs),
            help="Something to find it by later. JSON, or else a text.",
        ),
        click.option("--priority", type=int, default=0, metavar="N", help="Higher ones go first: -100 to 100."),
        click.option("--queue", type=TEXT, metavar="NAME", help="The queue in which the run needs a place."),
        click.option("--timeout", type=AGE, metavar="AGE", help="How long the run may take: 90s, 30m, 12h."),
        click.option(
            "--on-failure", type=click.Choice(["keep", "undo"]), default="keep", help="What becomes of a failed run."
        ),
        name_option,
    ):
        verb = option(verb)
    return verb


def bind(target: str, given: Sequence[str], input: str | None) -> object:
    """The node. Whatever the user's code raises meanwhile is told in one line."""
    found = find(target)
    arguments = read_values(found, given, input)
    try:
        return found.bind(**arguments)
    except OnceflowError:
        raise
    except Exception as error:
        raise Wrong(f"{target} cannot build its graph: {type(error).__name__}: {error}") from error


def find(target: str) -> Target:
    place, colon, path = target.rpartition(":")
    if not (colon and place and path):
        raise Wrong(f"{target!r} is not MODULE:WORKFLOW, as in shop.trips:trip or shop/trips.py:trip")
    module = load(place)
    found: Any = module
    for step in path.split("."):
        found = getattr(found, step, None)
    wanted = as_target(found)
    if wanted is not None:
        return wanted
    there = [name for name, value in vars(module).items() if isinstance(value, Workflow)]
    there += [name for name, value in vars(module).items() if isinstance(as_target(value), AnyTask)]
    problem = f"no {path!r}" if found is None else f"a {path!r} that is neither a workflow nor a task"
    raise Wrong(f"there is {problem} in {place}; it has {', '.join(there) or 'no workflow and no task'}")


def look_in_current_folder() -> None:
    """As `python -m` does: what lies there can be imported."""
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)


def load(place: str) -> ModuleType:
    """The module of this name, or of this file."""
    look_in_current_folder()
    file = Path(place).absolute() if place.endswith(".py") or os.sep in place else None
    name = place if file is None else _name_of(file)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            raise Wrong(f"there is no module {place!r} here, nor where Python looks for modules") from error
        raise Wrong(f"{place} cannot be imported: {error}") from error
    except BaseException as error:  # whatever the module raises, sys.exit() as well
        raise Wrong(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    if file is not None and (module.__file__ is None or not os.path.samefile(module.__file__, file)):
        raise Wrong(f"{place} cannot be imported as {name!r}, because that is {module.__file__ or 'another module'}")
    return module


def _name_of(file: Path) -> str:
    """The name under which the file can be imported, here and in a worker. If it lies below the current folder, it is
    the one under which any later command that is given there finds it, too."""
    if not file.is_file():
        raise Wrong(f"there is no file {file}")
    below = _steps(file, Path.cwd())
    root = file.parent
    while below is None and (root / "__init__.py").exists() and root.parent != root:
        root = root.parent
    steps = below or _steps(file, root)
    if steps is None:
        raise Wrong(f"{file} cannot be imported, because its name is not one that Python takes for a module")
    for folder in (str(root), str(file.parent)):
        if folder not in sys.path:
            sys.path.append(folder)
    return ".".join(steps)


def _steps(file: Path, root: Path) -> list[str] | None:
    """The parts of the module's name, if it can be imported from there."""
    if file.suffix != ".py" or not file.is_relative_to(root):
        return None
    steps = list(file.relative_to(root).with_suffix("").parts)
    if steps[-1] == "__init__":  # the file of a package
        steps.pop()
    return steps if steps and all(step.isidentifier() for step in steps) else None


# -- values ------------------------------------------------------------------------------------------------------------


def read_values(target: Target, given: Sequence[str], input: str | None) -> dict[str, Any]:
    """What `--arg` and `--input` give, each in the type that its parameter has."""
    hints = _hints(target)
    found = {}
    if input is not None:
        for name, value in _read(input).items():
            found[name] = _fitting(name, [value], hints.get(name))
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise Wrong(f"--arg {pair!r} is not NAME=VALUE")
        found[name] = _fitting(name, _readings(text, hints.get(name)), hints.get(name))
    return found


def _hints(target: Target) -> Mapping[str, Any]:
    from onceflow.authoring.fiber_tasks.segments import FiberTask  # not needed for other targets

    try:
        hints = typing.get_type_hints(target.durable if isinstance(target, FiberTask) else target.function)
    except Exception:  # annotations are the user's: names that do not exist, calls that raise
        hints = {}
    parameters = target.signature.parameters.values()
    spread = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {p.name: hints[p.name] for p in parameters if p.name in hints and p.kind not in spread}


def _read(file: str) -> dict[str, Any]:
    shown = "stdin" if file == "-" else file
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Wrong(f"{shown} cannot be read: {error.strerror or error}") from error
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Wrong(f"{shown} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Wrong(f"{shown} is not a JSON object with a value for each argument")
    return found


def _readings(text: str, hint: Any) -> list[Any]:
    """What a text may mean, the best first."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [text]
    if hint is str and not isinstance(value, str):
        return [text]  # 007 is a name, if a name is wanted
    return [value, text]


def _fitting(name: str, readings: list[Any], hint: Any) -> Any:
    """The first reading that the parameter's type takes, in that type (a date, a dataclass …)."""
    if hint is None or hint is Any:
        return readings[0]
    problem: Exception | None = None
    for value in readings:
        try:
            return msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            problem = problem or error
        except Exception:  # not a type that values can be held against
            return value
    raise Wrong(f"the argument {name!r} does not fit: {problem}") from problem
