"""Shipping functions."""

from __future__ import annotations

import functools
import json
import os
import pickle
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from onceflow import task
from onceflow.values import functions, packed_outputs
from onceflow.values.functions import load, ship


def plain() -> str:
    return "plain"


@task
def decorated() -> str:
    return "decorated"


def doubled(function: Callable[[], str]) -> Callable[[], str]:
    @functools.wraps(function)
    def wrapper() -> str:
        return function() * 2

    return wrapper


@task
@doubled
def twice() -> str:
    return "twice"


class Home:
    @staticmethod
    def method() -> str:
        return "method"


@pytest.mark.parametrize("function", [plain, decorated.function, twice.function, Home.method, json.dumps])
def test_a_function_of_a_module_goes_by_name_and_is_the_same_function(function: Callable[..., Any]) -> None:
    shipped = ship(function)

    assert shipped.payload == b""
    assert load(shipped) is function


def test_a_builtin_goes_by_name() -> None:
    assert load(ship(len)) is len


def test_lambdas_and_local_functions_go_by_value() -> None:
    number = 3

    def local() -> int:
        return number

    assert load(ship(local))() == 3
    assert load(ship(lambda: number + 1))() == 4


def test_a_function_of_a_module_that_was_made_by_hand_goes_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_by_hand")
    exec("def function(): return 5", module.__dict__)
    monkeypatch.setitem(sys.modules, "made_by_hand", module)

    shipped = ship(module.function)

    assert shipped.module == ""
    assert shipped.payload


def test_a_module_that_was_registered_with_cloudpickle_goes_by_value() -> None:
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        assert ship(plain).payload
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert not ship(plain).payload


def test_a_function_of_a_file_that_changed_has_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "module_that_changes.py"
    file.write_text("def function(): return 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    import module_that_changes  # type: ignore[import-not-found]

    before = ship(module_that_changes.function)
    assert ship(module_that_changes.function) == before
    os.utime(file, ns=(1, 1))
    after = ship(module_that_changes.function)

    assert after.hash != before.hash
    del sys.modules["module_that_changes"]


def test_a_lookup_in_the_main_module_asks_the_caller_once() -> None:
    asked = []

    def ask(name: str) -> bytes | None:
        asked.append(name)
        return cloudpickle.dumps(Home) if name == "Home" else None

    main = functions.Main(ask)

    assert main.Home is Home
    assert main.Home is Home
    with pytest.raises(AttributeError, match="Absent"):
        _ = main.Absent
    with pytest.raises(AttributeError):
        _ = main.__path__
    assert asked == ["Home", "Absent"]

    main.forget()
    assert main.Home is Home
    assert asked[2:] == ["Home"]


def test_an_output_that_cannot_be_pickled_raises() -> None:
    with pytest.raises(TypeError, match="lock"):
        packed_outputs.dump([threading.Lock()])


def test_an_open_file_is_not_shipped_with_its_content() -> None:
    with open(os.devnull) as file, pytest.raises(pickle.PicklingError, match="belongs to this process"):
        packed_outputs.dump([file])
