"""Running one job in a worker: load the function, fill the arguments, call, pickle what comes back."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from onceflow.backends.local.messages import PACKET, Batch, Job, Outcome
from onceflow.errors import (
    FunctionNotLoaded,
    InvalidGraph,
    OutputNotSent,
    SecretUnavailable,
    UnpicklableArgument,
    UnpicklableOutput,
    WrongParts,
)
from onceflow.values import culprits, failures, functions, snapshot
from onceflow.values.context import annotated, running
from onceflow.values.functions import Main, Shipped
from onceflow.values.handles import Handle

PERMANENT = (FunctionNotLoaded, InvalidGraph, SecretUnavailable, UnpicklableArgument, UnpicklableOutput, WrongParts)
"""Errors that trying again can never help against."""


large: dict[int, str] = {}
"""Jobs whose outputs need shared memory, and how errors call them. Until they are sent."""


class Functions:
    """The functions a worker knows, each loaded when it is first called."""

    def __init__(self, main: Main) -> None:
        self._main = main
        self._shipped: dict[str, Shipped] = {}
        self._loaded: dict[str, Callable[..., Any]] = {}
        self._loading = threading.Lock()

    def add(self, batch: Batch) -> None:
        if batch.path is not None:
            sys.path[:] = batch.path
        for shipped in batch.functions:
            if shipped.payload and shipped.hash not in self._shipped:
                self._main.forget()
            self._shipped[shipped.hash] = shipped

    def get(self, key: str) -> Callable[..., Any]:
        """Raises whatever loading it raises."""
        function = self._loaded.get(key)
        if function is None:
            with self._loading:
                function = self._loaded[key] = functions.load(self._shipped[key])
        return function


def function_of(job: Job, known: Functions) -> Callable[..., Any]:
    """Raises `FunctionNotLoaded`."""
    try:
        return known.get(job.function)
    except Exception as error:
        raise FunctionNotLoaded(job.task, "its function", f"{type(error).__name__}: {error}") from error


def arguments_of(job: Job) -> tuple[Sequence[Any], dict[str, Any]]:
    """Raises `FunctionNotLoaded`."""
    try:
        inputs = [pickle.loads(value) for value in job.inputs]
        args: Sequence[Any]
        kwargs: dict[str, Any]
        if not inputs and not job.buffers:
            args, kwargs = pickle.loads(job.arguments)
        else:
            args, kwargs = snapshot.load(job.arguments, inputs, job.buffers)
        if job.holes:
            args = list(args)
            for place, number in job.holes:
                if isinstance(place, int):
                    args[place] = inputs[number]
                else:
                    kwargs[place] = inputs[number]
        if job.undo:
            output = None if job.output is None else pickle.loads(job.output)
            return (args, kwargs, output, job.context["key"]), {}
    except Exception as error:
        raise FunctionNotLoaded(job.task, _not_loaded(job), f"{type(error).__name__}: {error}") from error
    return args, kwargs


def _not_loaded(job: Job) -> str:
    """What of its arguments cannot be loaded."""
    places = {number: place for place, number in job.holes}
    for number, value in enumerate(job.inputs):
        try:
            pickle.loads(value)
        except Exception:
            place = places.get(number)
            if place is None:
                return "an output that it reads"
            return (
                f"the output that is its argument {place!r}"
                if isinstance(place, str)
                else (f"the output that is its argument number {place + 1}")
            )
    return "one of its arguments"


def feed(job: Job, before: Outcome | None) -> bool:
    """Gives a job the output of the one that it follows. False if there is none."""
    if before is None or before.token != job.follows or not before.parts or before.graph:
        return False
    for number, part in job.fed:
        job.inputs[number] = before.parts[part]
    return True


def skipped(job: Job) -> Outcome:
    now = time.time()
    return Outcome(job.token, now, now, [], skipped=True)


def execute(job: Job, known: Functions) -> Outcome:
    """Runs a job in this thread. Whatever happens, there is an outcome."""
    started = time.time()
    try:
        function = function_of(job, known)
        started = time.time()  # the first call imports a module, which says nothing about how long calls take
        args, kwargs = arguments_of(job)
        before = running.set(job.context)
        try:
            result = function(*args, **kwargs)
        finally:
            running.reset(before)
        return finished(job, started, result)
    except BaseException as error:  # also SystemExit and the like: user code does not end a worker by raising
        return failed(job, started, error)


def finished(job: Job, started: float, result: Any) -> Outcome:
    """Raises one of `PERMANENT` if what the function returned cannot be sent."""
    ended = time.time()
    told = annotated.pop(job.token, None) if annotated else None
    if job.undo:
        return Outcome(job.token, started, ended, [])
    if isinstance(result, Handle):  # a node: the function returned a graph (design 2.9)
        from onceflow.authoring.building import build_graph  # most workers never need it

        return Outcome(
            job.token, started, ended, [_pickle_part(job, 0, build_graph(result))], graph=True, annotations=told
        )
    return Outcome(job.token, started, ended, _pickle_parts(job, result), annotations=told)


def failed(job: Job, started: float, error: BaseException) -> Outcome:
    annotated.pop(job.token, None)
    failure = failures.dump(error, f"worker {os.getpid()}, {job.task}")
    return Outcome(job.token, started, time.time(), [], failure, _is_permanent(job, error))


def _is_permanent(job: Job, error: BaseException) -> bool:
    """Whether trying again can never help, or is not asked for."""
    if isinstance(error, PERMANENT):
        return True
    retried: tuple[type[BaseException], ...] = (Exception,) if job.retried is None else pickle.loads(job.retried)
    return not isinstance(error, retried)


def _pickle_parts(job: Job, result: Any) -> list[bytes]:
    """The parts of an output. Raises `WrongParts` or `UnpicklableOutput`."""
    if job.parts == 1:
        return [_pickle_part(job, 0, result)]
    if not isinstance(result, tuple) or len(result) != job.parts:
        kind = type(result).__qualname__
        raise WrongParts(job.task, job.parts, f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {kind}")
    return [_pickle_part(job, number, part) for number, part in enumerate(result)]


def _pickle_part(job: Job, number: int, part: Any) -> bytes:
    try:
        pickled = functions.dump(part)
    except MemoryError:
        raise
    except Exception as error:
        root = f"output[{number}]" if job.parts > 1 else "output"
        found = culprits.find([(root, part)], functions.dump, error)
        path, value, reason = found or (root, part, culprits.told(error))
        raise UnpicklableOutput(job.task, path, type(value).__qualname__, reason) from error
    if len(pickled) > PACKET:
        large[job.token] = job.task
    return pickled


def without_output(outcome: Outcome, error: BaseException) -> Outcome:
    """The outcome of a job whose output could not be sent."""
    task = large.pop(outcome.token, None)
    if task is None:
        return outcome
    size = sum(map(len, outcome.parts))
    failure = failures.dump(OutputNotSent(task, size, culprits.told(error)), f"worker {os.getpid()}, {task}")
    return Outcome(outcome.token, outcome.started, outcome.ended, [], failure)
