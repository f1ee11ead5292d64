"""Refs in a worker: those that a job is given, those that it makes, and those that its output holds.

A ref belongs to the attempt that has it: what it refers to is there as long as the attempt runs. Kept in a global
variable, it is good for nothing any more, and says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from onceflow.backends.local.messages import ActorIn, Job, RefIn, RefOut
from onceflow.data.places import Live, Missing, Place
from onceflow.errors import InvalidRef, RefLost
from onceflow.values import packed_outputs
from onceflow.values.actors import ActorRef, belongs_elsewhere, is_snapshot
from onceflow.values.context import came
from onceflow.values.packed_outputs import Packed, Ready
from onceflow.values.put import GivenRef
from onceflow.values.refs import Ref, ValueRef, is_own, kept_form, live_form, restore

Content = bytes | Place | Live

actors: dict[int, JobActors] = {}
"""Job → its actors. Most jobs have none."""

_numbers = itertools.count(1)


class JobActors(Protocol):
    """The actors of one job."""

    def give(self, place: int, given: ActorIn) -> ActorRef[Any]:
        """One that it is given."""

    def create(self, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ActorRef[Any]:
        """One that it makes."""

    def check(self) -> None:
        """Raises `UnfinishedCalls`, or what making one raised."""

    def hand_over(self, ref: ActorRef[Any]) -> None:
        """It is returned. Raises `InvalidRef`."""

    def check_returned(self) -> None:
        """Raises `ActorNotReturned`."""

    def snapshot(self, ref: ActorRef[Any]) -> Content: ...

    def close(self) -> None: ...


class Frozen(Ref[Any]):
    """The snapshot of an actor that is to be restored."""

    __slots__ = ("content",)

    def __init__(self, content: bytes | memoryview) -> None:
        self.content = content

    @property
    def _id(self) -> str:
        return ""


class Load(Protocol):
    """Gives the value of something that a job is given. `refs` are those in it, by their numbers."""

    def __call__(self, part: Content, refs: Sequence[Any] = ()) -> Any: ...


class Contents(Protocol):
    """Where what jobs are given is found."""

    @property
    def load(self) -> Load: ...

    def view(self, part: Content) -> bytes | memoryview:
        """The bytes of something that a job is given."""

    def peek(self, part: Content) -> bytes | memoryview:
        """As much of it as shows whether it is a ref of a user's, or a snapshot; all of it, if it is."""

    def open_actors(self, job: Job) -> JobActors:
        """For a job that has actors."""


class MadeRef(ValueRef[Any]):
    """What was put by a job of this worker. `free` gives the memory back if it is not taken over."""

    __slots__ = ("_content", "_free", "_loads", "_taken")

    def __init__(self, content: Content, load: Callable[[Content], Any], free: Callable[[Content], None]) -> None:
        self._content = content
        self._loads = load
        self._free = free
        self._taken = False
        """Whether it has become a part of an output."""
        super().__init__(f"made-{next(_numbers)}", self._load, "the attempt that put it, which has ended")

    def _load(self) -> Any:
        if self._taken:
            raise _outside(self)
        return self._loads(self._content)

    def _take(self) -> Content:
        if self._taken:
            raise _outside(self)
        self._taken = True
        return self._content

    def __del__(self) -> None:
        if not self._taken:
            self._free(self._content)


class JobRefs:
    """The refs of one job."""

    __slots__ = ("_came", "_contents", "_holding", "_job", "_nested", "_over", "_places", "given", "view")

    def __init__(self, job: Job, contents: Contents) -> None:
        self._job = job
        self._contents = contents
        self._over = False
        self.view = contents.view
        """Gives the bytes of something that the job is given."""
        self.given: Sequence[Ref[Any]] = ()
        """Those of its inputs, in the order of `Job.refs`."""
        self._came: dict[str, int] = {}
        self._nested: Collection[int] = ()
        """Places of those whose values hold refs themselves."""
        self._places: dict[str, int] = {}
        """Id → number among those that the output holds."""
        self._holding: list[tuple[set[int], int, Ref[Any] | None]] = []
        """For each of those: the parts that hold it, its place in `given` or -1, and the ref itself if it was made."""
        if job.refs:
            if any(ref.actor is not None for ref in job.refs):
                actors[job.token] = contents.open_actors(job)
            self.given = [self._give(place, ref, job) for place, ref in enumerate(job.refs)]
            self._nested = {place for place, ref in enumerate(job.refs) if ref.inner}
            self._came = {ref._id: place for place, ref in enumerate(self.given)}
            came[job.token] = self._came

    def _give(self, place: int, given: RefIn, job: Job) -> Ref[Any]:
        if given.actor is not None:
            return actors[job.token].give(place, given.actor)
        seen = self._contents.peek(given.content)
        if is_own(seen):
            return restore(seen)
        if is_snapshot(seen):
            return Frozen(seen)

        def load_now() -> Any:
            if self._over:
                raise _outside(ref)
            inner = [self.given[place] if place >= 0 else None for place in given.inner]
            try:
                return self._contents.load(given.content, inner)
            except Missing:
                raise RefLost(ref, "no copy of it is left in the cluster") from None

        ref: ValueRef[Any] = ValueRef(
            given.id, load_now, f"the attempt of {job.task} that was given it, which has ended"
        )
        return ref

    def set_aside_for(self, part: int) -> packed_outputs.SetAside:
        """For packing this part of the output."""

        def set_aside(ref: Ref[Any]) -> int:
            id = ref._id
            number = self._places.get(id)
            if number is None:
                number = self._places[id] = len(self._holding)
                self._holding.append((set(), *self._find(id, ref)))
            holders = self._holding[number][0]
            holders.add(part)
            if len(holders) > 1 and isinstance(ref, ActorRef):
                raise InvalidRef(f"{ref!r} is in two parts of what {self._job.task} returned. Return it in one of them")
            return number

        return set_aside

    def hold_in_graph(self, ref: Ref[Any]) -> int:
        """For packing a graph: the part of the output that a ref in its arguments is."""
        if isinstance(ref, ActorRef):
            raise InvalidRef(
                f"{ref!r} cannot be bound into the graph that {self._job.task} returned. Bind it where the graph is "
                "built that the task belongs to, or make it in a task of the graph that is returned"
            )
        return self._job.parts + self.set_aside_for(0)(ref)

    def _find(self, id: str, ref: Ref[Any]) -> tuple[int, Ref[Any] | None]:
        if isinstance(ref, ActorRef):
            if self._job.token not in actors:
                raise belongs_elsewhere(ref)
            actors[self._job.token].hand_over(ref)
            return -1, ref
        place = self._came.get(id)
        if place is not None:
            if place in self._nested:
                raise InvalidRef(
                    f"{ref!r} cannot be passed on: its value holds refs. Return what `get()` gives instead"
                )
            return place, None
        if isinstance(ref, ValueRef) and (not isinstance(ref, MadeRef | GivenRef) or getattr(ref, "_taken", False)):
            raise _outside(ref)
        return -1, ref

    def held(self, leave: Callable[[Packed], Content]) -> list[RefOut]:
        """What the output holds, once all its parts are packed."""
        if not self._holding:
            return []
        return [
            RefOut(sorted(parts), place, self._snapshot(made), made._id)
            if isinstance(made, ActorRef)
            else RefOut(sorted(parts), place, _content(made, leave))
            for parts, place, made in self._holding
        ]

    def _snapshot(self, ref: ActorRef[Any]) -> Content | None:
        return actors[self._job.token].snapshot(ref) if self._job.keep else None

    def end(self) -> None:
        """What the job was given is not its own any more."""
        self._over = True


def close_actors(token: int) -> None:
    """The job has ended."""
    if actors and (found := actors.pop(token, None)) is not None:
        found.close()


def _content(made: Ref[Any] | None, leave: Callable[[Packed], Content]) -> Content | None:
    match made:
        case None:
            return None
        case MadeRef():
            return made._take()
        case GivenRef():
            return leave(Packed([made._packed], ()))
        case _:
            return live_form(made, packed_outputs.dump)


def _outside(ref: ValueRef[Any]) -> InvalidRef:
    return InvalidRef(
        f"{ref!r} belongs to {ref._whose}. A task may use and return refs that it was given or has put itself: pass "
        "them through arguments and outputs"
    )


def keep(live: bytes) -> Ready:
    """A job by itself: asks a ref of a user's what has to be saved of it. Nothing, if what it refers to is gone."""
    try:
        return Ready(kept_form(live, packed_outputs.dump))
    except RefLost:
        return Ready(b"")
