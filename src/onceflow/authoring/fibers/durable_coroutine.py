"""Fibers: a durable coroutine, from one operation to the next."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from types import CoroutineType
from typing import Any

from onceflow.authoring.fibers import description, frames, snapshots
from onceflow.authoring.fibers.description import FrameInfo
from onceflow.authoring.fibers.ops import Op
from onceflow.authoring.fibers.pickling import Aside


class Fiber:
    """A durable function under way. It runs from one operation to the next; in between it waits, and can be saved.

        fiber = Fiber.start(fulfil(order))
        while not fiber.done:
            saved = fiber.dumps()
            fiber.send(carry_out(fiber.op))

    `op` is the operation that it waits for. When it is `done`, `result` is what it returned, or `error` what it raised.
    """

    def __init__(self, routine: Any) -> None:
        """Use `start`, `loads` or `fork`."""
        self._routine: Any = routine
        self.op: Op | None = None
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    @classmethod
    def start(cls, coroutine: Coroutine[Any, Any, Any]) -> Fiber:
        """Runs it to its first operation, or to its end."""
        if not isinstance(coroutine, CoroutineType) or frames.paused(coroutine) is None:
            raise TypeError(f"a fiber is made of a call of a durable function, not of {coroutine!r}")
        new = cls(coroutine)
        new._step(coroutine.send, None)
        return new

    def send(self, value: Any) -> None:
        """The operation has this result: runs to the next one."""
        self._step(self._waiting().send, value)

    def throw(self, error: BaseException) -> None:
        """The operation has failed with this: runs to the next one. (Not to be called inside an `except` block: what is
        handled there would become the context of the error.)"""
        self._step(self._waiting().throw, error)

    def _waiting(self) -> Any:
        if self.done:
            raise RuntimeError("this fiber has ended")
        return self._routine

    def _step(self, go: Any, value: Any) -> None:
        try:
            yielded = go(value)
        except StopIteration as end:
            self._end(result=end.value)
        except Exception as error:
            self._end(error=error)
        except BaseException as error:
            self._end(error=error)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        else:
            self._wait_for(yielded)

    def _wait_for(self, yielded: Any) -> None:
        if isinstance(yielded, Op):
            self.op = yielded
            return
        kind = f"{type(yielded).__module__}.{type(yielded).__qualname__}"
        problem = TypeError(f"a fiber can wait for operations and durable functions, not for a {kind}")
        self._step(self._routine.throw, problem)

    def _end(self, *, result: Any = None, error: BaseException | None = None) -> None:
        self.op, self.done, self.result, self.error = None, True, result, error
        self._routine = None

    @classmethod
    def waiting(cls, coroutine: Coroutine[Any, Any, Any]) -> Fiber:
        """One that has yet to begin, to be saved: the process that loads it runs it to its first operation."""
        return cls(coroutine)

    def dumps(
        self, *, full: bool = True, key: bytes | None = None, bound_to: bytes = b"", aside: Aside | None = None
    ) -> bytes:
        """Where it stands, as bytes. It goes on as if nothing had happened. Raises NotPersistable.

        With `full`, variables that cannot be read any more are saved too, for inspection of the snapshot, as long as
        it stays small. `key` signs it, together with `bound_to`. `aside` takes what the snapshot only refers to.
        """
        return snapshots.dumps(self._waiting(), self.op, full=full, key=key, bound_to=bound_to, aside=aside)

    @classmethod
    def loads(
        cls,
        data: bytes,
        *,
        key: bytes | None = None,
        bound_to: bytes = b"",
        allow: Iterable[type] | None = None,
        handles: Sequence[Any] = (),
    ) -> Fiber:
        """A fiber that stands where the saved one stood. Raises BadSnapshot or CodeChanged.

        Loading a snapshot can run code, as loading any pickle can: load only what you have written yourself. A `key`
        makes sure of that. With `allow`, nothing but plain types, classes of the modules with durable functions and
        these classes is loaded. `handles` are what was set aside when it was saved.
        """
        routine, has_begun = snapshots.loads(data, key=key, bound_to=bound_to, allow=allow, handles=handles)
        new = cls(routine)
        if has_begun:
            new._wait_for(routine.send(None))
        else:
            new._step(routine.send, None)
        return new

    def fork(self) -> Fiber:
        """A copy that stands at the same place and shares nothing with this one."""
        return self.loads(self.dumps(full=False))

    def discard(self) -> None:
        """Forgets it. None of its code runs: no `finally`, no `__exit__`, no handler. Calls of durable functions that
        it holds and has not awaited are forgotten too, except those that its operation was given."""
        routine, op = self._routine, self.op
        self._routine, self.op, self.done = None, None, True
        if routine is None:
            return
        given = [id(each) for each in frames.not_started([op.args, op.kwargs] if op else [])]
        for unawaited in frames.not_started([frame.values for frame in frames.durable_part(routine)]):
            if id(unawaited) not in given:
                unawaited.close()
        routine.close()

    def describe(self) -> list[FrameInfo]:
        """Where it stands, outermost function first."""
        return description.describe(self._waiting())
