"""The tasks: what the steps of a plan do when they run, and how they are bound into a graph.

Each value names the attempt that made it by a token: a random one, or for deterministic tasks a hash of what was read.
Together with the ledger, which has the inputs of every attempt, a result can be followed back to everything it is made
from.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from onceflow import Ref, RetryPolicy, Variable, actor, current, put, task
from onceflow.actors import Exclusive, const, create, later
from onceflow.backends.local.live_outputs import WORTH_IT
from tests.tools.chaos import kills
from tests.tools.chaos.ledger import Ledger
from tests.tools.chaos.plans import FOREVER, Plan, Step

HEALED = "healed"
"""The fact after which no task raises any more."""

MOST_PASSED = 4
"""Refs that a task passes on."""

Input = tuple[str, str]
"""(node, token)."""

written: Variable[list[Input]] = Variable("written", [])
"""What tasks have written: each the value that it returned."""


class Trouble(Exception):
    """What tasks raise that raise."""


class Memory:
    """A large value that is not copied when it is pickled, and stays where it was made if it can (as arrays do)."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Memory, (pickle.PickleBuffer(self._content),)

    def __len__(self) -> int:
        return len(self._content)

    def __bytes__(self) -> bytes:
        return bytes(self._content)


class Passed(msgspec.Struct, frozen=True):
    """A ref that came from another task, and what it refers to."""

    token: str
    part: int
    ref: Ref[Any]


@actor
class Log:
    """An actor that knows what it has been through. The last entry is the value that it was returned in."""

    def __init__(self, ballast: int) -> None:
        self.entries: list[str] = []
        self.ballast = bytes(ballast)

    def enter(self, token: str) -> None:
        self.entries.append(token)

    @const
    def last(self) -> str:
        return self.entries[-1]


class Value(msgspec.Struct, frozen=True):
    node: str
    token: str
    part: int
    filler: bytes | Memory | Ref[Any]
    actors: tuple[Log, ...] = ()
    """All in the first part."""
    passed: tuple[Passed, ...] = ()
    """Refs that the task was given, and passes on."""


class Functions(msgspec.Struct, frozen=True):
    """The functions that tasks are made of: those of this module, or of a script that wraps them."""

    play: Callable[..., Any]
    play_async: Callable[..., Any]
    take_back: Callable[..., Any]


def bind(plan: Plan, folder: str, functions: Functions) -> Any:
    """The sink of the plan's graph."""
    return _bind(plan.steps, folder, None, b"\1" * plan.ballast, functions)


def _bind(
    steps: Sequence[Step],
    folder: str,
    origin: Input | None,
    ballast: bytes,
    functions: Functions,
    refs: Sequence[Passed] = (),
) -> Any:
    nodes: list[Any] = []
    for step in steps:
        inputs: list[Any] = list(refs) if not nodes else []
        taken: list[Any] = []
        after: list[Any] = []
        takes = {edge for edge, _ in step.takes}
        for edge, (parent, parts) in enumerate(step.edges):
            every = (1 << steps[parent].parts) - 1
            into = taken if edge in takes else inputs
            if parts == 0:
                after.append(nodes[parent])
            elif parts == every:
                into.append(nodes[parent])
            else:
                into += [nodes[parent][part] for part in range(steps[parent].parts) if parts >> part & 1]
        made = _task(step, functions)
        if after:
            made = made.options(after=after)
        first = ballast if not nodes else b""
        if step.takes:
            nodes.append(made.bind(step, folder, inputs, origin, first, taken))
        else:
            nodes.append(made.bind(step, folder, inputs, origin, first))
    return nodes[-1]


def _task(step: Step, functions: Functions) -> Any:
    function = functions.play_async if step.way == "async" else functions.play
    return task(
        name=step.name,
        checkpoint=step.checkpoint,
        deterministic=step.deterministic,
        can_rollback=step.effect != "irrevocable",
        rollback=functions.take_back if step.effect == "undoable" else None,
        num_returns=step.parts,
        retry=RetryPolicy(step.retries, delay=0.005),
        threads=step.way == "threads",
        writes=[written] if step.writes else [],
        queue=step.queue,
    )(function)


def play(
    step: Step,
    folder: str,
    inputs: list[Any],
    origin: Input | None,
    ballast: bytes,
    taken: Exclusive[Sequence[Any]] = (),
) -> Any:
    """Runs a step whose tasks are those of this module."""
    return perform(step, folder, inputs, origin, OWN, taken)


async def play_async(
    step: Step,
    folder: str,
    inputs: list[Any],
    origin: Input | None,
    ballast: bytes,
    taken: Exclusive[Sequence[Any]] = (),
) -> Any:
    import asyncio  # few workers need it

    await asyncio.sleep(step.pause)
    return perform(step, folder, inputs, origin, OWN, taken)


def take_back(
    step: Step,
    folder: str,
    inputs: list[Any],
    origin: Input | None,
    output: Any,
    key: str,
    taken: Sequence[Any],
) -> None:
    undo(step, folder, inputs, origin, output, key, taken)


OWN = Functions(play, play_async, take_back)


def perform(
    step: Step, folder: str, inputs: list[Any], origin: Input | None, functions: Functions, taken: Sequence[Any]
) -> Any:
    """Runs a step. `functions` are what the graph that it may return is made of, `taken` those of its inputs whose
    actors are its alone."""
    ledger = Ledger(folder)
    context = current()
    node, attempt, key = context.task, context.attempt, context.key
    with ledger.alone(node, attempt) if step.effect == "undoable" else contextlib.nullcontext():
        inputs = [*inputs, *taken]
        read = tokens(inputs, origin)
        ledger.write("begin", node, attempt, key, inputs=read)
        kills.explode(ledger, node, "begin")
        if step.way != "async":
            time.sleep(step.pause)
        raises = not ledger.knows(HEALED) if step.raises == FOREVER else ledger.count("raise", node) < step.raises
        if raises and not step.late:
            _raise(ledger, node, attempt, key)
        token = deterministic_token(step.name, read) if step.deterministic else os.urandom(6).hex()
        if step.effect != "none":
            ledger.write("apply", node, attempt, key, inputs=read, token=token, detail=step.effect)
            kills.explode(ledger, node, "apply")
        if raises:
            _raise(ledger, node, attempt, key)
        if step.writes:
            written.update(lambda before: [*before, (node, token)])
        choice = choose(step, token)
        if choice is not None:
            nested = step.alternatives[choice]
            assert nested is not None
            ledger.write("expand", node, attempt, key, inputs=read, token=token, detail=str(choice))
            kills.explode(ledger, node, "return")
            return _bind(nested, folder, (node, token), b"", functions, _refs_in(inputs))
        actors = _write(step, token, taken)
        ledger.write("return", node, attempt, key, inputs=read, token=token)
        kills.explode(ledger, node, "return")
        values = [
            Value(node, token, part, _filled(step, token, part), () if part else actors, _refs_in(inputs))
            for part in range(step.parts)
        ]
        return values[0] if step.parts == 1 else tuple(values)


def _write(step: Step, token: str, taken: Sequence[Any]) -> tuple[Log, ...]:
    """The actors that the step returns: those that it has taken, and those that it makes."""
    made = [create(Log, step.size) for _ in range(step.actors)]
    logs = [*[log for value in _flat(taken) if isinstance(value, Value) for log in value.actors], *made]
    for answer in [later(log.enter, token) for log in logs]:
        answer.result()
    return tuple(logs)


def undo(
    step: Step, folder: str, inputs: list[Any], origin: Input | None, output: Any, key: str, taken: Sequence[Any]
) -> None:
    ledger = Ledger(folder)
    context = current()
    node, attempt = context.task, context.attempt
    with ledger.alone(node, attempt):
        read = tokens([*inputs, *taken], origin)
        token = ""
        if output is not None:
            # A graph has no token that could be looked at.
            token = next((made for _, made in tokens([output])), "")
        ledger.write("undo begin", node, attempt, key, inputs=read, token=token)
        kills.explode(ledger, node, "undo begin")
        ledger.write("undo apply", node, attempt, key, inputs=read, token=token)
        kills.explode(ledger, node, "undo apply")
        ledger.write("undo return", node, attempt, key)


def _raise(ledger: Ledger, node: str, attempt: str, key: str) -> None:
    ledger.write("raise", node, attempt, key)
    raise Trouble(f"{node} has trouble")


def choose(step: Step, token: str) -> int | None:
    """Which graph a step returns that returns this token; None for a value."""
    if not step.alternatives:
        return None
    choice = int(token, 16) % len(step.alternatives)
    return None if step.alternatives[choice] is None else choice


def deterministic_token(name: str, read: Iterable[Input]) -> str:
    return hashlib.blake2b(repr((name, [tuple(pair) for pair in read])).encode(), digest_size=6).hexdigest()


def filler(token: str, part: int, size: int) -> bytes:
    """Bytes that belong to one part of one output and to no other."""
    return (hashlib.blake2b(f"{token}/{part}".encode()).digest() * (size // 64 + 1))[:size]


def _filled(step: Step, token: str, part: int) -> bytes | Memory | Ref[Any]:
    made = filler(token, part, step.size)
    content = Memory(bytearray(made)) if step.size >= WORTH_IT else made
    return put(content) if step.refs else content


def _refs_in(inputs: Iterable[Any]) -> tuple[Passed, ...]:
    """Some of the refs that a task was given."""
    found: list[Passed] = []
    for value in _flat(inputs):
        if isinstance(value, Value) and isinstance(value.filler, Ref):
            found.append(Passed(value.token, value.part, value.filler))
        found += [value] if isinstance(value, Passed) else value.passed
    return tuple(found[:MOST_PASSED])


def _flat(inputs: Iterable[Any]) -> Iterator[Value | Passed]:
    for given in inputs:
        for value in given if isinstance(given, tuple) else (given,):
            if isinstance(value, Value | Passed):
                yield value


def _check(token: str, part: int, content: bytes | Memory | Ref[Any]) -> None:
    found: bytes | Memory = content.get() if isinstance(content, Ref) else content
    if bytes(found) != filler(token, part, len(found)):
        raise AssertionError(f"what {token} made is damaged")


def tokens(inputs: list[Any], origin: Input | None = None) -> list[Input]:
    """The names of all values read, in order. Raises if one is not what its maker made."""
    found: list[Input] = [] if origin is None else [(origin[0], origin[1])]
    for value in _flat(inputs):
        if isinstance(value, Value):
            _check(value.token, value.part, value.filler)
            found.append((value.node, value.token))
            for log in value.actors:
                if log.last() != value.token:
                    raise AssertionError(f"an actor that {value.node} returned is at {log.last()}, not {value.token}")
        for passed in (value,) if isinstance(value, Passed) else value.passed:
            _check(passed.token, passed.part, passed.ref)
    return found
