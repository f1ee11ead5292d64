"""Task variables as user code sees them (design 2.11): a value that the tasks of one run share.

What an attempt writes is *buffered* here, in the process that runs it, and travels with its outcome. It counts when the
task's output is saved, in the same commit, or never. A buffer is a list of steps: values that were set, and functions
of what is there then. So several tasks may update one variable at the same time, and nothing is lost.

An attempt reads what is committed, with its own buffer on top. Whatever runs the job says what is committed
(`context.Link.variable`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from onceflow.errors import InvalidVariable, NotInTask
from onceflow.values import context, failures, packed_outputs
from onceflow.values.packed_outputs import SMALL, Ready

T = TypeVar("T")

SEPARATOR = "\n"
"""Between the names of variables in `Job.context`."""

_FIXED = (bool, int, float, str, bytes, type(None))


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Something that was written: a packed value, or a pickled pair of a function and the variable's default."""

    name: str
    update: bool
    payload: bytes


buffers: dict[int, list[Step]] = {}
"""Job → what it has written so far. Whatever runs jobs takes it when they end."""


class Variable(Generic[T]):
    """A value that the tasks of a run share. Each run has its own, which is `default` until a task has written it.

    Any task may read it, except one that is declared deterministic: what is read depends on the moment. A task that
    writes says so with `writes=[variable]`. What it writes counts when its output is saved, and only then: others see
    it from that moment on, and all that comes after it in the graph sees it for certain. A value is what can be
    pickled, and no more than 64 KiB.

        done = Variable("done", 0)

        @task(writes=[done])
        def load(path: str) -> None:
            ...
            done.update(lambda count: count + 1)
    """

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: T) -> None:
        if not name or not name.isprintable():
            raise InvalidVariable("", str(name), "its name must be a text in one line that is not empty")
        self.name = name
        self.default = default

    def get(self) -> T:
        """The value that is committed now, with what this attempt has written on top of it."""
        running, token = _where(self.name)
        if "deterministic" in running:
            raise InvalidVariable(
                running["task"],
                self.name,
                "it is declared deterministic, but what it reads there depends on the moment. Declare it without "
                "deterministic=True, or pass it the value",
            )
        steps = [step for step in buffers.get(token, ()) if step.name == self.name]
        if steps and not steps[-1].update:
            value: T = packed_outputs.unpack(steps[-1].payload)
            return value
        link = context.link()
        assert link is not None
        found = link.variable(token, self.name)
        if not steps:
            value = self._fresh_default() if found is None else packed_outputs.unpack(found)
            return value
        value = packed_outputs.unpack(_after(found, steps))
        return value

    def set(self, value: T) -> None:
        """This value, whatever is there when it counts."""
        self._write(False, _pack(self.name, value, _where(self.name)[0]["task"]))

    def update(self, function: Callable[[T], T]) -> None:
        """What `function` makes of the value that is there when it counts. The function is pure: it may be called more
        than once, somewhere else, and must not raise. Of several tasks that update one variable none is lost.

            total.update(lambda so_far: so_far + amount)
        """
        self._write(True, packed_outputs.dump((function, self.default)))

    def _write(self, update: bool, payload: bytes) -> None:
        running, token = _where(self.name)
        if self.name not in running.get("writes", "").split(SEPARATOR):
            problem = f"it writes there without saying so. Declare it with writes=[{self.name}]"
            if context.is_in_fiber():
                problem = f"a fiber cannot write there; let it await a task that is declared with writes=[{self.name}]"
            raise InvalidVariable(running["task"], self.name, problem)
        steps = buffers.setdefault(token, [])
        if not update:
            steps[:] = [step for step in steps if step.name != self.name]
        steps.append(Step(self.name, update, payload))

    def _fresh_default(self) -> T:
        """Callers cannot change each other's default."""
        if isinstance(self.default, _FIXED):
            return self.default
        value: T = packed_outputs.unpack(packed_outputs.dump(self.default))
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return Variable, (self.name, self.default)

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.default!r})"


def take(token: int) -> list[Step]:
    """To be called when a job ends: what it has written."""
    return buffers.pop(token, []) if buffers else []


def names_of(steps: Sequence[Step]) -> list[str]:
    """The variables that are written, each once."""
    return list(dict.fromkeys([step.name for step in steps]))


def plain_values(steps: Sequence[Step]) -> dict[str, bytes] | None:
    """The values after these steps, if no function has to be called for that."""
    return None if any(step.update for step in steps) else {step.name: step.payload for step in steps}


class Updates(msgspec.Struct, frozen=True, array_like=True):
    """What is to be made of variables: values as they are (those that are there), then the steps of several tasks, one
    after the other, with the tasks' names."""

    values: dict[str, bytes]
    tasks: list[tuple[str, list[Step]]]

    @property
    def parts(self) -> int:
        """How many values `apply` returns."""
        return sum([1 + len(names_of(steps)) for _, steps in self.tasks])


def apply(encoded: bytes) -> tuple[Ready, ...]:
    """A job by itself: for each task what it raised (empty if it did not) and the values of its variables after it."""
    updates = msgspec.msgpack.decode(encoded, type=Updates)
    values = dict(updates.values)
    parts: list[Ready] = []
    for task, steps in updates.tasks:
        names = names_of(steps)
        try:
            made = _apply(task, values, steps)
        except Exception as error:
            parts += [Ready(failures.dump(error, f"an update by {task}")), *[Ready(b"")] * len(names)]
        else:
            values |= made
            parts += [Ready(b""), *[Ready(made[name]) for name in names]]
    return tuple(parts)


def outcomes(updates: Updates, parts: Sequence[bytes]) -> list[dict[str, bytes] | bytes]:
    """For each task the values of its variables after it, or what it raised."""
    found: list[dict[str, bytes] | bytes] = []
    rest = iter(parts)
    for _, steps in updates.tasks:
        failure = next(rest)
        values = {name: next(rest) for name in names_of(steps)}
        found.append(failure or values)
    return found


def _apply(task: str, values: Mapping[str, bytes], steps: Sequence[Step]) -> dict[str, bytes]:
    made: dict[str, bytes] = {}
    for name in names_of(steps):
        made[name] = _after(values.get(name), [step for step in steps if step.name == name], task)
    return made


def _after(packed: bytes | None, steps: Sequence[Step], task: str = "") -> bytes:
    """The packed value of one variable after these steps."""
    for step in steps:
        if step.update:
            function, default = packed_outputs.unpack(step.payload)
            packed = _pack(step.name, function(default if packed is None else packed_outputs.unpack(packed)), task)
        else:
            packed = step.payload
    assert packed is not None
    return packed


def _pack(name: str, value: object, task: str) -> bytes:
    try:
        packed = packed_outputs.dump(value)
    except Exception as error:
        raise InvalidVariable(task, name, f"a {type(value).__qualname__} cannot be kept there: {error}") from error
    if len(packed) > SMALL:
        raise InvalidVariable(
            task,
            name,
            f"a value of {len(packed):,} bytes is too large for it; {SMALL:,} is the limit. Keep large things in "
            "outputs, and what is needed to find them here",
        )
    return packed


def _where(name: str) -> tuple[Mapping[str, Any], int]:
    """The context of the job that runs here, and its number."""
    running = context.running.get()
    if running is None:
        raise NotInTask(f"Variable({name!r})")
    return running, context.job_token.get()
