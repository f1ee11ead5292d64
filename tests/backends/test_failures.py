"""Exceptions that travel."""

from __future__ import annotations

import threading
import traceback

import pytest

from onceflow.errors import ExceptionLost
from onceflow.values import failures
from tests.backends.common import Loop


def travelled(error: BaseException) -> BaseException:
    return failures.load(failures.dump(error, "worker 1"))


class Odd(Exception):
    """Its constructor does not take what its `args` hold."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{reason} ({code})")
        self.code = code
        self.lock = threading.Lock()


class Refused(Exception):
    """Its constructor takes what its `args` hold for something else."""

    def __init__(self, who: str) -> None:
        super().__init__(f"{who} said no")
        self.who = who


def test_type_arguments_and_attributes_arrive() -> None:
    error = ValueError("no", 3)
    error.hint = "try again"  # type: ignore[attr-defined]

    copy = travelled(error)

    assert type(copy) is ValueError
    assert copy.args == ("no", 3)
    assert copy.hint == "try again"  # type: ignore[attr-defined]


def test_an_exception_whose_constructor_takes_something_else_keeps_its_type() -> None:
    copy = travelled(Odd(7, reason="no"))

    assert type(copy) is Odd
    assert copy.code == 7
    assert str(copy) == "no (7)"
    assert not hasattr(copy, "lock")


def test_an_exception_whose_constructor_makes_another_text_keeps_its_own() -> None:
    copy = travelled(travelled(Refused("ann")))

    assert isinstance(copy, Refused)
    assert (str(copy), copy.who) == ("ann said no", "ann")


def test_an_error_of_the_operating_system_keeps_its_number_and_file() -> None:
    copy = travelled(FileNotFoundError(2, "No such file", "/nowhere"))

    assert isinstance(copy, FileNotFoundError)
    assert (copy.errno, copy.filename) == (2, "/nowhere")


def test_cause_and_context_arrive() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as outer:
        copy = travelled(outer)

    assert type(copy.__cause__) is KeyError
    assert copy.__cause__ is copy.__context__
    assert copy.__suppress_context__


def test_a_chain_that_bites_its_tail_arrives() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first

    copy = travelled(first)

    assert copy.__context__ is not None
    assert copy.__context__.__context__ is copy


def test_what_cannot_be_pickled_is_replaced_by_what_it_was_called_and_said() -> None:
    copy = travelled(ConnectionError(threading.Lock()))

    assert isinstance(copy, ExceptionLost)
    assert copy.kind == "builtins.ConnectionError"
    assert "unlocked" in copy.text


def test_the_traceback_of_the_worker_is_shown_with_the_exception(loop: Loop) -> None:
    def fail_here() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        loop.call(fail_here)

    shown = "".join(traceback.format_exception(caught.value))
    assert "in fail_here" in shown
    assert "raised in worker" in shown
    assert "running.py" not in shown
