"""Plays programs, and judges what they leave behind.

A program is played once without a crash, once more for each task that fails or not depending on crashes
(`verdicts`), and then once for each crash. What holds for each of these lives:

- The result is that of a life without a crash, but for what steps make that are not deterministic.
- Everything that is left tells one story: whatever was built on an output was built on the same one. That concerns the
  result, the effects that are there, what was written to variables, and what actors have in them.
- An effect is there once if the law says that it must be, or if something was built on it; never, if it may not be.
  What stands on it is there only if it is. What was undone was undone with the inputs and the output that it had,
  after all
  that stood on it.
- Each writer has written once, or not at all. What was read of a variable is what was committed at some moment, with
  everything that the reader comes after.
- No place in a queue is held for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from onceflow import TaskFailed
from onceflow.testing import MemoryEngine
from tests.testing.random_programs.language import FATAL, Program, walk
from tests.testing.random_programs.tasks import QUEUE, QUEUE_OF_RUNS, graph_of, pass_through, plain
from tests.testing.random_programs.verdicts import MUST, NEVER, Verdicts
from tests.testing.random_programs.world import Plain, world


class Left(msgspec.Struct, frozen=True):
    """What a life has left behind, without what differs from one life to the next."""

    result: Plain
    effects: dict[str, Plain]
    """Label → inputs."""


class Allowed(msgspec.Struct):
    """One of the outcomes that a program may have."""

    verdicts: Verdicts
    left: Left
    moments: int
    """Of the life without a crash."""


def play(program: Program, engine: MemoryEngine, calm: frozenset[str] = frozenset()) -> tuple[Plain, dict[str, Any]]:
    """The result and the variables. What was done outside is in `world`."""
    world.begin(program, calm)
    engine.queue(QUEUE, concurrency=program.concurrency, rate=program.rate)
    engine.queue(QUEUE_OF_RUNS, concurrency=1)
    queue = QUEUE_OF_RUNS if program.in_queue else None
    handle = engine.run_async(graph_of(program), name="program", on_failure=program.on_failure, queue=queue)
    try:
        result = plain(handle.result())
    except TaskFailed as failed:
        result = FATAL
        plain(failed.__cause__)
        _judge_failure(program, failed)
    if world.unsafe is not None:
        raise world.unsafe
    variables = handle.variables
    engine.clock.advance(1)
    held = engine.get_queue(QUEUE).places or engine.get_queue(QUEUE_OF_RUNS).places
    if held:  # a crash left them, and they are there for whoever asks
        engine.run(pass_through.bind(), queue=QUEUE_OF_RUNS)
    return result, variables


def _judge_failure(program: Program, failed: TaskFailed) -> None:
    kept = sorted(label for _, label, _ in world.standing() if world.steps[label].effect == "undoable")
    if program.on_failure == "undo" and failed.undone != (not kept):
        world.note(f"the run says undone={failed.undone}, and {kept} are there")


def outcomes(program: Program) -> list[Allowed]:
    """What the program may lead to, by playing it without crashes. Raises `Racing` if anything is possible."""
    _shapes.clear()
    found: dict[frozenset[str], Allowed] = {}
    rest = [frozenset[str]()]
    while rest:
        calm = rest.pop()
        if calm not in found:
            verdicts = Verdicts(program, calm)
            with MemoryEngine(seed=program.order) as engine:
                try:
                    result, variables = play(program, engine, calm)
                    left = judge(result, variables)
                    found[calm] = Allowed(verdicts, left, 0)
                    compare(left, variables, found[calm])
                    go_on(program, engine, result)
                    found[calm].moments = len(engine.moments)
                except BaseException as error:
                    error.add_note(f"{program}\nThis was without a crash, and {sorted(calm)} calm.\n{engine.story}")
                    raise
            rest += [calm | {one} for one in verdicts.fleeting]
    return list(found.values())


# -- what holds for each life by itself --------------------------------------------------------------------------------


def judge(result: Plain, variables: dict[str, Any]) -> Left:
    assert not world.wrong, "; ".join(world.wrong)
    standing = list(world.standing())
    effects = {label: inputs for _, label, inputs in standing}
    assert len(effects) == len(standing), f"something is there twice: {sorted(label for _, label, _ in standing)}"
    entries, cell = variables.get("entries", ()), variables.get("cell")
    written = tuple(number for _, number in entries) + (() if cell is None else (cell[1],))
    history = world.foundation((result, written, *effects.values()))
    _judge_history(history, effects)
    _judge_entries(history, entries)
    _judge_cell(history, cell)
    return Left(_shape(result), {label: _shape(inputs) for label, inputs in effects.items()})


def _judge_history(history: frozenset[int], effects: dict[str, Plain]) -> None:
    made: dict[str, int] = {}
    for number in sorted(history):
        value = world.values[number]
        before = made.setdefault(value.label, number)
        assert before == number, f"{value.label} counts as {before} and as {number}"
        step = world.steps.get(value.label)
        if step is not None and step.effect != "none":
            assert value.label in effects, f"{value.label} counts as {number}, and its effect is not there"
            there = effects[value.label]
            assert there == value.inputs, f"{value.label} counts with {value.inputs}, and is there with {there}"


def _judge_entries(history: frozenset[int], entries: tuple[tuple[str, int], ...]) -> None:
    labels = [label for label, _ in entries]
    assert len(set(labels)) == len(labels), f"something was written twice: {entries}"
    for label, number in entries:
        assert world.values[number].label == label
        assert "entries" in world.steps[label].writes
    for number, value in enumerate(world.values):
        assert value.saw == entries[: len(value.saw)], f"{value.label} saw {value.saw}, but written was {entries}"
        if number not in history:
            continue
        for below in world.foundation(value.inputs) | {number}:
            writer = world.values[below]
            step = world.steps.get(writer.label)
            if step is None or "entries" not in step.writes:
                continue
            entry = writer.label, below
            assert entry in entries, f"{entry} was never written: {entries}"
            looks = value.label.endswith(" saw") or (value.label in world.steps and world.steps[value.label].looks)
            if looks and below != number:
                assert entry in value.saw, f"{value.label} comes after {entry}, and saw {value.saw}"


def _judge_cell(history: frozenset[int], cell: tuple[str, int] | None) -> None:
    writers = [number for number in history if _writes_cell(number)]
    if cell is None:
        assert not writers, f"{writers} have written, and there is nothing"
        return
    label, last = cell
    assert _writes_cell(last)
    assert world.values[last].label == label
    for number in writers:
        assert last == number or last not in world.foundation(number), f"{number} has written after {cell}"


def _writes_cell(number: int) -> bool:
    step = world.steps.get(world.values[number].label)
    return step is not None and "cell" in step.writes


_shapes: dict[Plain, int] = {}


def _shape(plain: Plain) -> Plain:
    """The same without numbers that differ: of each value which step made it, and the shape of what it was made of."""
    if isinstance(plain, tuple):
        return tuple(map(_shape, plain))
    if not isinstance(plain, int):
        return plain
    value = world.values[plain]
    return _shapes.setdefault((value.label, _shape(value.inputs)), len(_shapes))


# -- what holds compared with others -----------------------------------------------------------------------------------


def compare(left: Left, variables: dict[str, Any], allowed: Allowed) -> None:
    problems = list(_differences(left, variables, allowed))
    assert not problems, "; ".join(problems)


def _differences(left: Left, variables: dict[str, Any], allowed: Allowed) -> Iterator[str]:
    if left.result != allowed.left.result:
        yield f"the result is {told(left.result)}, not {told(allowed.left.result)}"
    if (left.result == FATAL) != allowed.verdicts.fails:
        yield f"the run {'failed' if left.result == FATAL else 'succeeded'}"
    for label, verdict in allowed.verdicts.effects.items():
        there = label in left.effects
        if (there and verdict is NEVER) or (not there and verdict is MUST):
            yield f"the effect of {label} {verdict.value} be there, and is{'' if there else ' not'}"
        elif there and label in allowed.left.effects and left.effects[label] != allowed.left.effects[label]:
            yield f"{label} is there as {told(left.effects[label])}, not as {told(allowed.left.effects[label])}"
    for label in left.effects.keys() - allowed.verdicts.effects.keys():
        yield f"the effect of {label} is there"
    written = {label for label, _ in variables.get("entries", ())}
    for label, verdict in allowed.verdicts.writes.items():
        if "entries" in world.steps[label].writes:
            if (label in written and verdict is NEVER) or (label not in written and verdict is MUST):
                yield f"{label} {verdict.value} have written, and has{'' if label in written else ' not'}"
        elif verdict is MUST and variables.get("cell") is None:
            yield f"{label} must have written, and nothing is there"
    cell = variables.get("cell")
    if cell is not None and allowed.verdicts.writes[cell[0]] is NEVER:
        yield f"{cell[0]} never writes, and has"


def told(shape: Plain) -> str:
    """A shape for people."""
    if isinstance(shape, tuple):
        return f"({', '.join(map(told, shape))})"
    if not isinstance(shape, int):
        return repr(shape)
    label, inputs = next(key for key, number in _shapes.items() if number == shape)  # type: ignore[misc]
    return f"{label}{told(inputs)}"


def judge_life(program: Program, engine: MemoryEngine, allowed: list[Allowed]) -> None:
    """Plays it, and raises `AssertionError` if it leads to what none of these has."""
    result, variables = play(program, engine)
    left = judge(result, variables)
    if all(next(_differences(left, variables, one), None) for one in allowed):
        problems = ["; ".join(_differences(left, variables, one)) for one in allowed]
        raise AssertionError(" | or: ".join(problems))
    go_on(program, engine, result)


def go_on(program: Program, engine: MemoryEngine, result: Plain) -> None:
    """Resumes a run that failed, if the program says so: now nothing raises, and it succeeds. What handlers had
    answered for before is left as it is, so nobody knows what the result must be, only that it tells one story with
    the rest."""
    if result != FATAL or not program.resumed:
        return
    world.calm = frozenset(world.steps)
    for last in (False, False, True):  # a crash may forget that it was asked for
        try:
            result = plain(engine.resume("program"))
            break
        except TaskFailed:
            if last and not _has_forks(program):  # what a child has raised stays so, and whoever joins it raises it
                raise
    judge(result, engine.variables("program"))


def _has_forks(program: Program) -> bool:
    return any(said.verb == "fork" for step in walk(program.steps) for said in step.statements)
