"""What `import onceflow` offers."""

from __future__ import annotations

import inspect
from typing import Literal, get_origin

import onceflow
from onceflow import errors


def test_every_error_can_be_imported_from_onceflow_and_is_one_family() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Exception):
            assert getattr(onceflow, name, None) is value, name
            assert issubclass(value, onceflow.OnceflowError)


def test_every_public_name_exists_and_is_documented() -> None:
    for name in onceflow.__all__:
        value = getattr(onceflow, name)
        assert value.__doc__ or get_origin(value) is Literal, name
