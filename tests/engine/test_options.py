"""Options of runs, schedules and engines: the types name what is really taken, and nothing else is."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import onceflow
from onceflow import Engine, runs
from onceflow.engine import default, options, submission
from onceflow.engine.run_commands import rerun
from onceflow.engine.schedules import declaration
from onceflow.engine.settings import EngineSettings
from onceflow.errors import InvalidOption
from onceflow.testing import MemoryEngine, use
from tests.engine.common import add

ON_AN_ENGINE = ["run", "run_async", "submit"]


def test_each_setting_is_an_option_of_an_engine_and_of_configure() -> None:
    names = set(EngineSettings.__struct_fields__)

    assert options.Configuration.__optional_keys__ == names
    assert options.EngineOptions.__optional_keys__ == names - {"home"}
    assert options.Location.__optional_keys__ == set(default.LOCATION)
    assert set(default.LOCATION) < names


def test_the_options_of_runs_and_schedules_are_those_that_are_taken_apart() -> None:
    of_runs = set(inspect.signature(submission.prepare).parameters) - {"node", "home", "id"}
    of_schedules = set(inspect.signature(declaration.define).parameters) - {"id", "target"}

    of_reruns = set(inspect.signature(rerun.create).parameters) - {"row", "home", "id"}

    assert options.RunOptions.__optional_keys__ == of_runs
    assert options.RerunOptions.__optional_keys__ == of_reruns
    assert options.ScheduleOptions.__optional_keys__ == of_schedules


@pytest.mark.parametrize("name", ON_AN_ENGINE)
def test_an_option_of_a_run_that_does_not_exist_is_refused(name: str) -> None:
    wrong: dict[str, Any] = {"nmae": "trip-17"}

    with MemoryEngine() as engine, use(engine):
        for call in (getattr(engine, name), getattr(default, name)):
            with pytest.raises(InvalidOption, match=r"option 'nmae': .* has only .*metadata, name, "):
                call(add.bind(1, 2), **wrong)
        with pytest.raises(InvalidOption, match="option 'name'"):
            engine.run_many([add.bind(1, 2)], name="trip-17")  # type: ignore[call-arg]
        assert runs.list_runs() == []


def test_an_option_of_an_engine_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"option 'wokers': Engine has only .*, workers$"):
        Engine(tmp_path / "home", wokers=2)  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="option 'wokers': configure has only"):
        onceflow.configure(wokers=2)  # type: ignore[call-arg]
    assert not (tmp_path / "home").exists()


def test_functions_have_the_signatures_of_the_methods_of_an_engine() -> None:
    method = inspect.signature(Engine.list_runs)
    parameters = list(method.parameters.values())[1:]

    assert inspect.signature(runs.list_runs) == method.replace(parameters=parameters)
    assert runs.list_runs.__doc__ == Engine.list_runs.__doc__
