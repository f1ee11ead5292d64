"""The family of errors."""

from __future__ import annotations

import pickle

import pytest

import onceflow
from onceflow import errors

EXAMPLES = [
    errors.InvalidGraph("no nodes"),
    errors.UnsafeGraph(("n",), {"n": "  a ──▶ n"}, {"n": ("a",)}, {"n": ("s",)}, {"n": True}),
    errors.BrokenPromise("charge", "quote"),
    errors.NotDeterministic("plan"),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_arrives_whole_in_another_process(error: errors.OnceflowError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_every_error_is_public_and_of_one_family() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(kind, errors.OnceflowError)
            assert getattr(onceflow, name, kind) is kind


def test_the_reason_of_a_failed_task_ends_with_one_full_stop() -> None:
    error = errors.TaskFailed("r", ("a",), reason="ValueError: no such file.")

    assert "no such file. When" in str(error)
