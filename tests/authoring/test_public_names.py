"""What `import onceflow` offers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args, get_origin

import pytest

import onceflow
from onceflow import errors

TOPICS = ["actors", "errors", "fibers", "handlers", "loops", "queues", "runs", "schedules", "tasks"]
LAZY = ["onceflow", "onceflow.runs", "onceflow.testing"]
MODULES = ["onceflow", "onceflow.testing", *(f"onceflow.{topic}" for topic in TOPICS if topic != "errors")]


def names_of(module: str) -> dict[str, object]:
    found = importlib.import_module(module)
    return {name: getattr(found, name) for name in found.__all__}


def imported_for_type_checkers(module: ModuleType) -> dict[str, str]:
    """Name → module, of the block `if TYPE_CHECKING`."""
    assert module.__file__ is not None
    [block] = [
        node
        for node in ast.parse(Path(module.__file__).read_text("utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.name: alias.name if node.module == "onceflow" else str(node.module).removeprefix("onceflow.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_top_level_has_about_thirty_names_and_a_module_for_each_subject() -> None:
    modules = [name for name, value in names_of("onceflow").items() if inspect.ismodule(value)]

    assert sorted(modules) == TOPICS
    assert len(onceflow.__all__) - len(modules) <= 32


def test_the_docstring_of_the_package_lists_its_modules() -> None:
    assert re.findall(r"^- `(\w+)`: \S", onceflow.__doc__ or "", re.MULTILINE) == TOPICS


def test_every_error_is_in_the_module_of_errors_and_is_one_family() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            assert value.__module__ == errors.__name__, name
            assert issubclass(value, errors.OnceflowError)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_exists_and_is_documented(module: str) -> None:
    assert importlib.import_module(module).__doc__
    for name, value in names_of(module).items():
        assert value.__doc__ or get_origin(value) is Literal or get_args(value), name


@pytest.mark.parametrize("module", MODULES)
def test_no_name_stands_in_two_modules_but_those_of_errors(module: str) -> None:
    others = {name for other in MODULES if other != module for name in names_of(other)}

    assert others & set(names_of(module)) == set()


@pytest.mark.parametrize("module", LAZY)
def test_a_table_of_names_is_what_type_checkers_see(module: str) -> None:
    found = importlib.import_module(module)

    assert imported_for_type_checkers(found) == found._HOMES
    assert sorted(found._HOMES) == sorted(found.__all__)


@pytest.mark.parametrize("module", LAZY)
def test_names_that_are_imported_when_they_are_used_are_listed(module: str) -> None:
    found = importlib.import_module(module)

    assert set(found.__all__) <= set(dir(found))
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        found.no_such_name  # noqa: B018


def test_a_module_with_tasks_is_imported_without_an_engine() -> None:
    program = (
        "import sys; from onceflow import RetryPolicy, Secret, TaskFailed, Variable, current, task, workflow; "
        "from onceflow.handlers import handler, retry; from onceflow.tasks import track; "
        "print([name for name in sys.modules if name.startswith(('onceflow.engine', 'onceflow.storage'))])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_the_class_of_engines_is_imported_without_what_drives_runs() -> None:
    program = (
        "import sys; from onceflow import Engine, run, task; from onceflow.runs import RunHandle, find; "
        "heavy = ('onceflow.backends', 'onceflow.engine.runtime.host', 'onceflow.driver.driver', 'onceflow.core.run', "
        "'onceflow.storage.home', 'onceflow.authoring.fibers'); "
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
