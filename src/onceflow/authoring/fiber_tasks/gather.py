"""`gather`: awaiting several operations at once."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from onceflow.authoring.fiber_tasks.ops import Awaited, NodeCall
from onceflow.authoring.fibers import frames
from onceflow.authoring.nodes import NodeHandle

if TYPE_CHECKING:
    from onceflow.authoring.fiber_tasks.state import State

T = TypeVar("T")


class RoutineCall(Awaited):
    """A call of a durable function that becomes a fiber of its own."""

    def __init__(self, coroutine: CoroutineType[Any, Any, Any]) -> None:
        super().__init__(coroutine.__qualname__)
        self.coroutine: CoroutineType[Any, Any, Any] | None = coroutine

    def bind(self, state: State) -> Any:
        from onceflow.authoring.fiber_tasks.segments import begin_call

        assert self.coroutine is not None
        return begin_call(self.coroutine, state)

    def spend(self) -> None:
        super().spend()
        self.coroutine = None

    def forget(self) -> None:
        if self.coroutine is not None:
            self.coroutine.close()


class Gather(Awaited):
    """What `gather(...)` gives."""

    def __init__(self, members: tuple[Any, ...], *, return_exceptions: bool) -> None:
        _refuse_forks(members)
        self.members = [as_op(member) for member in members]
        self.return_exceptions = return_exceptions
        super().__init__("gather", *self.members)

    def bind(self, state: State) -> Any:
        seen: set[int] = set()
        for one in self._each():
            if one.is_spent:
                raise RuntimeError(f"{one!r} was awaited before: call it once more")
            call = one.coroutine if isinstance(one, RoutineCall) else one
            if id(call) in seen:
                raise RuntimeError(f"{one!r} is gathered twice: call it once for each")
            seen.add(id(call))
        return [member.bind(state) for member in self.members]

    def _each(self) -> Iterator[Awaited]:
        for member in self.members:
            yield from member._each() if isinstance(member, Gather) else (member,)

    def settle(self, outcome: Any) -> Any:
        settled: list[Any] = []
        first: BaseException | None = None
        for member, one in zip(self.members, outcome, strict=True):
            try:
                settled.append(member.settle(one))
            except Exception as error:
                settled.append(error)
                first = first or error
        if first is not None and not self.return_exceptions:
            raise first
        return tuple(settled)

    def describe(self) -> str:
        shown = [member.told or member.describe() for member in self.members[:3]]
        more = [f"… ({len(self.members)})"] if len(self.members) > len(shown) else []
        return f"gather({', '.join([*shown, *more])})"

    def spend(self) -> None:
        super().spend()
        for member in self.members:
            member.spend()


def as_op(value: Any) -> Awaited:
    """What a fiber may await, as an op."""
    if isinstance(value, Awaited):
        return value
    if isinstance(value, NodeHandle):
        return NodeCall(value)
    if isinstance(value, CoroutineType) and frames.paused(value) is not None:
        if value.cr_frame is None:
            raise RuntimeError(f"{value.__qualname__}() was awaited before: call it once more")
        return RoutineCall(value)
    raise TypeError(f"a fiber can wait for calls, nodes and durable functions, not for {value!r}")


def _refuse_forks(members: tuple[Any, ...]) -> None:
    from onceflow.authoring.fiber_tasks.forks import Fork  # which is made of what can be awaited

    forks = [member for member in members if isinstance(member, Fork)]
    for fork in forks:
        fork.forget()
    if forks:
        raise TypeError(
            f"{forks[0]!r} cannot be gathered, since it gives its child at once: write `children = [await fork(fn, x) "
            "for x in …]`, and gather `join(child)` of those"
        )


@overload
def gather(*calls: Awaitable[T], return_exceptions: Literal[False] = False) -> Awaitable[tuple[T, ...]]: ...
@overload
def gather(*calls: Awaitable[T], return_exceptions: bool) -> Awaitable[tuple[T | BaseException, ...]]: ...
def gather(*calls: Any, return_exceptions: bool = False) -> Any:
    """Awaits several at once, in a fiber: calls of tasks, workflows and fibers, nodes, and calls of durable functions,
    each of which becomes a fiber of its own. Gives the tuple of what they give, in their order.

    If one raises, the others come to their end all the same; then the first error (in their order) is raised, or, with
    `return_exceptions`, errors stand among the results.

        room, flight = await gather(book_room.call("Rome"), book_flight.call("Rome"))
        receipts = await gather(*[handle(order) for order in orders])
    """
    return Gather(calls, return_exceptions=return_exceptions)
