"""Bad luck, for those who want to see what becomes of it."""

from __future__ import annotations

import functools
import os
import random
import signal
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from onceflow import RetryPolicy

P = ParamSpec("P")
R = TypeVar("R")

RATE = "TRAVEL_FAILURES"
"""The variable that says how often attempts fail: 0.1 is one in ten."""

PATIENT = RetryPolicy(20, delay=0.01, max_delay=0.1)


class Unlucky(Exception):
    """Raised for nothing."""


def unlucky(function: Callable[P, R]) -> Callable[P, R]:
    """Fails now and then, before or after it has done what it does: it raises, or its process is killed. How often is
    in the environment, as workers see it."""

    @functools.wraps(function)
    def attempt(*args: P.args, **kwargs: P.kwargs) -> R:
        rate = float(os.environ.get(RATE, "0"))
        fate = random.random() / rate if rate else 1.0
        if fate < 0.5:
            _fail(fate < 0.25)
        result = function(*args, **kwargs)
        if 0.5 <= fate < 1.0:
            _fail(fate < 0.75)
        return result

    return attempt


def _fail(hard: bool) -> None:
    if hard:
        os.kill(os.getpid(), signal.SIGKILL)
    raise Unlucky
