"""The world outside, and what a program leaves there.

Whatever a task makes is a number, and the world knows how it was made: by which step, out of which inputs. A step that
is not deterministic makes a new number each time, a deterministic one the same for the same inputs. So everything that
was built on an output can be told from everything that was built on another one, whatever the engine says. Effects
are entered into a `Ledger` under the key of the task that runs, together with the inputs.

Some rules hold at each moment, and are looked at here, when something happens; `judge` looks at what is left at the
end. A task must not fail by what it is told here, so whatever is wrong is noted, and told later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any

import msgspec

from onceflow import UnsafeGraph, current
from onceflow.testing import Ledger
from tests.testing.random_programs.language import Program, Step, labels_of, walk

Plain = Hashable
"""What a task was given, as plain data: numbers of values, and what stands for something else."""


class Value(msgspec.Struct, frozen=True):
    """Something that a step made."""

    label: str
    inputs: Plain
    saw: tuple[Any, ...]
    """What was in the variable when it looked."""


class World:
    def __init__(self) -> None:
        self.ledger = Ledger()
        self.program = None
        self.begin(Program(0, ()))

    def begin(self, program: Program, calm: frozenset[str] = frozenset()) -> None:
        """A new world for this program. Steps in `calm` do not raise."""
        if program is not self.program:
            self.tasks: dict[str, Any] = {}
            """Label → the task of the step."""
        self.program = program
        self.calm = calm
        self.steps: dict[str, Step] = {}
        for step in walk(program.steps):
            self.steps[step.label] = step
            self.steps |= dict.fromkeys(labels_of(step), step)
        self.statements = {step.label: step.statements for step in self.steps.values()}
        self.ledger.clear()
        self.values: list[Value] = []
        self.wrong: list[str] = []
        self.unsafe: UnsafeGraph | None = None
        """A graph that a task returned was refused, because of what it was nested in."""
        self._same: dict[tuple[str, Plain], int] = {}
        self._calls: Counter[str] = Counter()
        self._given: dict[str, tuple[str, Plain]] = {}
        """Key → label and inputs of the attempt that it was for."""
        self._made: dict[str, int] = {}
        """Key → what that attempt made."""
        self._foundations: dict[int, frozenset[int]] = {}

    # -- what tasks do -------------------------------------------------------------------------------------------------

    def raises(self, label: str) -> bool:
        """Whether this call is one that raises. Asked once for each call."""
        self._calls[label] += 1
        step = self.steps[label]
        if step.raises is None or label in self.calm or step.label in self.calm:
            return False
        if step.kind == "loop" and label != f"{step.label}.{step.failing}":
            return False
        return step.raises.times is None or self._calls[label] <= step.raises.times

    def make(self, label: str, inputs: Plain, *, saw: tuple[Any, ...] = (), new: bool = True) -> int:
        if not new and (label, inputs) in self._same:
            return self._same[label, inputs]
        self.values.append(Value(label, inputs, saw))
        number = self._same[label, inputs] = len(self.values) - 1
        return number

    def enter(self, label: str, inputs: Plain) -> None:
        """The effect of a step."""
        key = current().key
        undoable = self.steps[label].effect == "undoable"
        if undoable and any(whose == label for _, whose, _ in self.standing()):
            self.note(f"{label} happens under {key} while it is there")
        if not undoable:
            for other, (whose, given) in self._given.items():
                if whose == label and (other, given) != (key, inputs):
                    self.note(f"{label} happens under {key} with {inputs}, and before under {other} with {given}")
        if not self.ledger.enter((label, inputs), key) and undoable:
            self.note(f"{label} happens again under {key}")
        self._given.setdefault(key, (label, inputs))
        self._look_below(label, inputs)

    def ended(self, label: str, made: int) -> None:
        if self.steps[label].effect == "undoable":
            self._made[current().key] = made

    def take_back(self, label: str, inputs: Plain, key: str, output: int | None) -> None:
        given = self._given.get(key)
        if given is not None and given != (label, inputs):
            self.note(f"{label} is undone with {inputs}, and was done as {given}")
        if output is not None and self._made.get(key) != output:
            self.note(f"{label} is undone with the output {output}, and had {self._made.get(key)} under {key}")
        if self.ledger.take_back(key):
            for _, other, built_on in self.standing():
                if any(self.values[one].label == label for one in self.foundation(built_on)):
                    self.note(f"{label} is undone while {other} stands on it")

    def note(self, wrong: str) -> None:
        self.wrong.append(wrong)

    # -- what is there -------------------------------------------------------------------------------------------------

    def standing(self) -> Iterator[tuple[str, str, Plain]]:
        """Key, label and inputs of each effect that is there."""
        for effect in self.ledger.effects:
            if not effect.taken_back:
                label, inputs = effect.what  # type: ignore[misc]
                yield effect.key, label, inputs

    def foundation(self, plain: Plain) -> frozenset[int]:
        """All values that something was built on."""
        return frozenset().union(*[self._foundation(number) for number in numbers_in(plain)])

    def _foundation(self, number: int) -> frozenset[int]:
        found = self._foundations.get(number)
        if found is None:
            found = self._foundations[number] = self.foundation(self.values[number].inputs) | {number}
        return found

    def _look_below(self, label: str, inputs: Plain) -> None:
        there = {(whose, given) for _, whose, given in self.standing()}
        for number in self.foundation(inputs):
            value = self.values[number]
            step = self.steps.get(value.label)
            if step is not None and step.effect != "none" and (value.label, value.inputs) not in there:
                self.note(f"{label} happens on top of {value.label} as {number}, which is not there")


def numbers_in(plain: Plain) -> Iterator[int]:
    if isinstance(plain, int):
        yield plain
    elif isinstance(plain, tuple):
        for one in plain:
            yield from numbers_in(one)


world = World()
