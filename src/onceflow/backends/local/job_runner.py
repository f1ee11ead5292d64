"""Running one job in a worker: load the function, fill the arguments, call, pickle the result."""

from __future__ import annotations

import itertools
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from onceflow.backends.local.messages import PACKET, Batch, Job, Outcome
from onceflow.backends.local.refs import JobRefs, Load, actors, close_actors
from onceflow.data.places import Live, Missing, Place
from onceflow.errors import (
    ActorNotReturned,
    FunctionNotLoaded,
    InvalidGraph,
    InvalidRef,
    InvalidVariable,
    OutputNotSent,
    SecretUnavailable,
    SharedActor,
    Stopped,
    UnfinishedCalls,
    UnpicklableArgument,
    UnpicklableOutput,
    WrongParts,
)
from onceflow.values import culprits, failures, functions, packed_outputs, snapshot, variables
from onceflow.values.context import annotated, running, sent, take_lost
from onceflow.values.functions import Main, Shipped
from onceflow.values.handler_answers import Answer
from onceflow.values.handles import Handle
from onceflow.values.packed_outputs import Packed
from onceflow.values.refs import Ref

if TYPE_CHECKING:
    from onceflow.backends.local.objects import Objects

PERMANENT = (
    ActorNotReturned,
    FunctionNotLoaded,
    InvalidGraph,
    InvalidRef,
    InvalidVariable,
    SecretUnavailable,
    SharedActor,
    UnfinishedCalls,
    UnpicklableArgument,
    UnpicklableOutput,
    WrongParts,
)
"""Errors that trying again can never help against."""

Leave = Callable[[Packed], bytes | Place | Live]
"""Puts a packed value where others find it. Raises `OSError` if there is no room."""

Find = Callable[[str], Callable[..., Any]]

large: dict[int, str] = {}
"""Jobs that returned graphs which need more than a packet, and how errors call them. Until they are sent."""


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


def arguments_of(job: Job, load: Load, refs: JobRefs) -> tuple[Sequence[Any], dict[str, Any]]:
    """Raises `FunctionNotLoaded`, or `Missing`."""
    try:
        inputs = _with_refs(job, load, refs) if job.tables else [load(part) for part in job.inputs]
        if job.spans:
            inputs = _joined(inputs, job.spans)
        output = inputs.pop() if job.has_output else None
        args: Sequence[Any]
        kwargs: dict[str, Any]
        if not inputs and not job.buffers:
            args, kwargs = pickle.loads(job.arguments)
        else:
            args, kwargs = snapshot.load(job.arguments, inputs, [refs.view(buffer) for buffer in job.buffers])
        if job.holes:
            args = list(args)
            for place, number in job.holes:
                if isinstance(place, int):
                    args[place] = inputs[number]
                else:
                    kwargs[place] = inputs[number]
        if job.undo:
            return (args, kwargs, output, job.context["key"]), {}
    except Missing:
        raise
    except Exception as error:
        raise FunctionNotLoaded(job.task, _not_loaded(job, load), f"{type(error).__name__}: {error}") from error
    return args, kwargs


def _with_refs(job: Job, load: Load, refs: JobRefs) -> list[Any]:
    given = refs.given
    inputs: list[Any] = []
    for number, part in enumerate(job.inputs):
        table: Sequence[int] = job.tables.get(number, ())
        if part == b"":
            inputs.append(given[table[0]])
        else:
            inputs.append(load(part, [given[place] if place >= 0 else None for place in table]))
    return inputs


def _joined(parts: Sequence[Any], spans: Sequence[int]) -> list[Any]:
    rest = iter(parts)
    return [next(rest) if span == 1 else tuple(itertools.islice(rest, span)) for span in spans]


def _not_loaded(job: Job, load: Load) -> str:
    """What of its arguments cannot be loaded."""
    places = {number: place for place, number in job.holes}
    slots = [number for number, span in enumerate(job.spans or [1] * len(job.inputs)) for _ in range(span)]
    for number, (index, part) in zip(slots, enumerate(job.inputs), strict=True):
        try:
            if part != b"":
                load(part, [None] * len(job.tables.get(index, ())))
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
    if before is None or before.token != job.follows or not before.parts or before.graph or before.refs:
        return False
    for number, part in job.fed:
        job.inputs[number] = before.parts[part]
    return True


def skipped(job: Job) -> Outcome:
    now = time.time()
    return Outcome(job.token, now, now, [], skipped=True)


def without_input(job: Job, missing: Missing) -> Outcome:
    """The outcome of a job that was not started, because what it reads is gone."""
    close_actors(job.token)
    take_lost(job.token)
    return msgspec.structs.replace(skipped(job), gone=[missing.number])


def execute(job: Job, known: Functions, objects: Objects, leave: Leave) -> Outcome:
    """Runs a job in this thread. Whatever happens, there is an outcome."""
    started = time.time()
    try:
        if job.failure is not None:
            return failed(job, started, failures.load(job.failure), known.get)
        function = function_of(job, known)
        started = time.time()  # the first call imports a module, which says nothing about how long calls take
        refs = JobRefs(job, objects)
        args, kwargs = arguments_of(job, objects.load, refs)
        before = running.set(job.context)
        try:
            result = function(*args, **kwargs)
        finally:
            running.reset(before)
        del args, kwargs  # what is not needed any more need not be mapped any more
        return finished(job, started, result, leave, refs)
    except Missing as missing:
        return without_input(job, missing)
    except BaseException as error:  # also SystemExit and the like: user code does not end a worker by raising
        return failed(job, started, error, known.get)


def finished(job: Job, started: float, result: Any, leave: Leave, refs: JobRefs) -> Outcome:
    """Raises one of `PERMANENT` if what the function returned cannot be sent."""
    ended = time.time()
    refs.end()
    told = annotated.pop(job.token, None) if annotated else None
    wrote = variables.take(job.token)
    held_actors = actors.get(job.token) if actors else None
    if held_actors is not None and not job.undo:
        held_actors.check()
    if sent:
        sent.pop(job.token, None)
    if lost := take_lost(job.token):
        close_actors(job.token)
        return Outcome(job.token, started, ended, [], lost=lost)
    if job.undo:
        close_actors(job.token)
        return Outcome(job.token, started, ended, [])
    is_graph = isinstance(result, Handle) and not isinstance(result, Ref)
    if is_graph:  # a node: the function returned a graph (design 2.9)
        from onceflow.authoring.graph_builder import build_graph  # most workers never need it

        if job.catch:
            from onceflow.authoring.caught_results import without_error

            result = without_error(result)
        graph = _pickle_graph(job, build_graph(result, refs.hold_in_graph))
        if len(graph) > PACKET:
            large[job.token] = job.task
        parts: list[bytes | Place | Live] = [graph]
    else:
        if job.catch:
            _check_parts(job, job.catch, result)
            result = (result, None)
        parts = _leave_parts(job, result, leave, refs)
    if held_actors is not None:
        held_actors.check_returned()
    held = refs.held(leave)
    close_actors(job.token)
    return Outcome(job.token, started, ended, parts, graph=is_graph, annotations=told, refs=held, writes=wrote)


def failed(job: Job, started: float, error: BaseException, find: Find | None = None) -> Outcome:
    """`find` gives the guard that is asked about it, by its hash."""
    annotated.pop(job.token, None)
    variables.take(job.token)
    sent.pop(job.token, None)
    close_actors(job.token)
    lost = take_lost(job.token)
    permanent = job.failure is not None or _is_permanent(job, error)
    answer: Answer | None = None
    if job.guard and find is not None and not lost and (permanent or job.last) and not isinstance(error, Stopped):
        error, answer = _ask(job, error, find)
    failure = failures.dump(error, f"worker {os.getpid()}, {job.task}")
    return Outcome(job.token, started, time.time(), [], failure, permanent, lost=lost, answer=answer)


def _ask(job: Job, error: BaseException, find: Find) -> tuple[BaseException, Answer | None]:
    """What the handlers in force say. If they cannot be asked, or what they give cannot be sent, that is the error."""
    before = running.set(job.context)
    try:
        guard = find(job.guard)
        error, verdict = guard(error, job.context, job.failed, hopeless=isinstance(error, PERMANENT))
        if verdict is None:
            return error, None
        values: tuple[Any, ...] = ()
        if verdict.kind == "value":
            _check_parts(job, verdict.parts, verdict.value)
            values = (verdict.value,) if verdict.parts == 1 else verdict.value
        parts = [_pack_part(job, number, value).joined() for number, value in enumerate(values)]
        return error, Answer(verdict.kind, verdict.at, parts, verdict.delay, verdict.jitter)
    except BaseException as problem:
        problem.__context__ = problem.__context__ or error
        return problem, None
    finally:
        running.reset(before)


def _is_permanent(job: Job, error: BaseException) -> bool:
    """Whether trying again can never help, or is not asked for."""
    if isinstance(error, PERMANENT):
        return True
    retried: tuple[type[BaseException], ...] = (Exception,) if job.retried is None else pickle.loads(job.retried)
    return not isinstance(error, retried)


def _leave_parts(job: Job, result: Any, leave: Leave, refs: JobRefs) -> list[bytes | Place | Live]:
    """The parts of an output. Raises `WrongParts`, `UnpicklableOutput` or `OutputNotSent`."""
    if job.parts == 1:
        return [_leave_part(job, 0, result, leave, refs)]
    _check_parts(job, job.parts, result)
    return [_leave_part(job, number, part, leave, refs) for number, part in enumerate(result)]


def _check_parts(job: Job, count: int, result: Any) -> None:
    if count > 1 and (not isinstance(result, tuple) or len(result) != count):
        kind = type(result).__qualname__
        raise WrongParts(job.task, count, f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {kind}")


def _leave_part(job: Job, number: int, part: Any, leave: Leave, refs: JobRefs) -> bytes | Place | Live:
    packed = _pack_part(job, number, part, refs)
    try:
        return leave(packed)
    except OSError as error:
        raise OutputNotSent(job.task, packed.size, culprits.told(error)) from error


def _pickle_graph(job: Job, graph: Any) -> bytes:
    """In one piece, with the large arguments in it: the driver of the run unpickles it."""
    try:
        return packed_outputs.dump(graph)
    except (MemoryError, InvalidRef):
        raise
    except Exception as error:
        raise _unpicklable(job, 0, graph, error) from error


def _pack_part(job: Job, number: int, part: Any, refs: JobRefs | None = None) -> Packed:
    try:
        return packed_outputs.pack(part, None if refs is None else refs.set_aside_for(number))
    except (MemoryError, InvalidRef):
        raise
    except Exception as error:
        raise _unpicklable(job, number, part, error) from error


def _unpicklable(job: Job, number: int, part: Any, error: Exception) -> UnpicklableOutput:
    root = f"output[{number}]" if job.parts > 1 else "output"
    found = culprits.find([(root, part)], packed_outputs.dump, error)
    path, value, reason = found or (root, part, culprits.told(error))
    return UnpicklableOutput(job.task, path, type(value).__qualname__, reason)


def without_output(outcome: Outcome, error: BaseException) -> Outcome:
    """The outcome of a job whose output could not be sent."""
    task = large.pop(outcome.token, None)
    if task is None:
        return outcome
    size = sum([len(part) for part in outcome.parts if isinstance(part, bytes)])
    failure = failures.dump(OutputNotSent(task, size, culprits.told(error)), f"worker {os.getpid()}, {task}")
    return Outcome(outcome.token, outcome.started, outcome.ended, [], failure)
