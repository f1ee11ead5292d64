"""The graphs of a loop: chunks or blocks of chunks, what comes after each of them, and what gathers the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from onceflow.authoring.loops import chunk_sizes
from onceflow.authoring.loops.failed_items import SKIPPED
from onceflow.authoring.loops.roles import Actor, Role, in_role
from onceflow.authoring.tasks import task
from onceflow.core.model.graph import Turn
from onceflow.values.context import current
from onceflow.values.refs import Ref

if TYPE_CHECKING:
    from onceflow.authoring.tasks import AnyTask


class Place(NamedTuple):
    """Where items stand."""

    loop: str
    """The id of the loop's node: part of the keys of its items."""
    first: int
    """The number of the first item."""
    least: int = 1
    """Items that a chunk has at the least (see `chunk_sizes`)."""
    by_ref: tuple[str, ...] = ()
    """Arguments that all items share, and that came as refs: outputs of other nodes."""


class Stage(NamedTuple):
    """A loop over the results of a loop, or what reduces them: it takes them chunk by chunk."""

    task: Any
    """In its role."""
    given: dict[str, Any]
    by_ref: tuple[str, ...]
    initial: Any = None

    @property
    def is_fold(self) -> bool:
        role: Role = self.task._given["role"]
        return role.kind == "fold"


class Loop(Actor):
    """Looks at the items, and returns the graph that runs them."""

    __slots__ = ()

    def __call__(
        self,
        items: Any,
        given: dict[str, Any],
        by_ref: tuple[str, ...] = (),
        then: Sequence[Stage] = (),
    ) -> Any:
        items = as_sequence(items)
        least = chunk_sizes.smallest(len(items), self.task, self.role)
        place = Place(current().task, 0, least, by_ref)
        return opened(self.task, self.role, items, given, place, then)


class Branch(Actor):
    """An item that is a task of its own, or a workflow, in a graph of its own: what ends the branch ends nothing
    else."""

    __slots__ = ()

    def __call__(self, item: Any, given: dict[str, Any], by_ref: tuple[str, ...]) -> Any:
        return self.task.bind(item, **loaded(given, by_ref))


class Block(Actor):
    """A part of a loop that would have too many chunks; or of a loop over the results of another, if each item must be
    a node of its own."""

    __slots__ = ()

    def __call__(self, items: Any, given: dict[str, Any], place: Place, size: int, then: Sequence[Stage] = ()) -> Any:
        parts = chunks(self.task, self.role, items_of(items), given, place, size, limit=0)
        return gathered(staged(parts, size, then, place))


def as_sequence(items: Any) -> Any:
    """What can be sliced: the items themselves, or a list of them."""
    if isinstance(items, Ref):
        items = items.get()
    return items if type(items) in (list, tuple, range) else list(items)


def items_of(part: Any) -> Any:
    """The items of a part of a loop: of its own, or what a chunk of another loop has returned. What a handler has put
    in the place of such a chunk is one item, as where results are gathered."""
    return part if type(part) in (list, tuple, range) else [part]


def opened(
    subject: AnyTask[..., Any],
    role: Role,
    items: Any,
    given: dict[str, Any],
    place: Place,
    then: Sequence[Stage] = (),
) -> Any:
    """The graph of a whole loop; its result, if there are no items."""
    fold = then[-1] if then and then[-1].is_fold else None
    if not items:
        return [] if fold is None else fold.initial
    stages = then if fold is None else then[:-1]
    limit = chunk_sizes.limit_of(subject, role)
    size = chunk_sizes.first_size(len(items), subject, role)
    block = chunk_sizes.block_size(len(items), size)
    if block:
        inner = in_role(subject, msgspec.structs.replace(role, kind="block", name=f"{subject.name}_block"))
        parts = []
        for first, count in chunk_sizes.ranges(len(items), block):
            node: Any = inner.bind(items[first : first + count], given, place._replace(first=first), size, stages)
            node._turn = Turn(first, opens=True, limit=limit, items=count)
            parts.append(node)
    else:
        parts = staged(chunks(subject, role, items, given, place, size, limit), size, stages, place)
    return gathered(parts) if fold is None else folded(fold, parts)


def chunks(
    subject: AnyTask[..., Any],
    role: Role,
    items: Any,
    given: dict[str, Any],
    place: Place,
    size: int,
    limit: int,
) -> list[Any]:
    """These items in chunks of this size: for each a node that gives a list, or a list with a node. `limit` is 0 if
    others of the loop were there before."""
    parts: list[Any] = []
    if size == 1 and chunk_sizes.is_single(subject) and role.on_error == "stop":
        branch = in_role(subject, Role("branch", f"{subject.name}_branch", role.chunk))
        for number, item in enumerate(items, place.first):
            node: Any = branch.bind(item, given, place.by_ref)
            node._turn = Turn(number, limit=limit, items=1)
            parts.append([node])
        return parts
    chunk = chunk_of(subject, role)
    for start, count in chunk_sizes.ranges(len(items), size):
        first = place.first + start
        node = chunk.bind(items[start : start + count], given, place._replace(first=first))
        node._turn = Turn(first, limit=limit, items=count)
        parts.append(node)
    return parts


def chunk_of(subject: AnyTask[..., Any], role: Role) -> AnyTask[..., Any]:
    """The task of the chunks of a loop."""
    return in_role(subject, Role("chunk", f"{subject.name}_chunk", role.chunk, 0, role.on_error))


def item_of(subject: AnyTask[..., Any], role: Role) -> AnyTask[..., Any]:
    """The task of a single item."""
    return in_role(subject, Role("item", f"{subject.name}_item", role.chunk, 0, role.on_error))


def staged(parts: list[Any], size: int, stages: Sequence[Stage], place: Place) -> list[Any]:
    """What comes after each of these parts, which stand for so many items each."""
    for number, stage in enumerate(stages, 1):
        role: Role = stage.task._given["role"]
        subject = stage.task.function.task
        here = place._replace(loop=f"{place.loop}+{number}", by_ref=stage.by_ref, least=1)
        after = []
        for first, part in zip(range(place.first, place.first + size * len(parts), size), parts, strict=True):
            if chunk_sizes.is_single(subject) or role.chunk:
                block = in_role(subject, msgspec.structs.replace(role, kind="block", name=f"{subject.name}_block"))
                node: Any = block.bind(part, stage.given, here._replace(first=first), role.chunk or 1)
            else:
                node = chunk_of(subject, role).bind(part, stage.given, here._replace(first=first))
            node._turn = Turn(first)
            after.append(node)
        parts = after
    return parts


def folded(fold: Stage, parts: Sequence[Any]) -> Any:
    """One node after the other takes what the parts give."""
    value = fold.initial
    for part in parts:
        value = fold.task.bind(value, part, fold.given, fold.by_ref)
    return value


def loaded(given: dict[str, Any], by_ref: Iterable[str]) -> dict[str, Any]:
    """The shared arguments as arguments of ordinary nodes."""
    return {**given, **{name: load.bind(given[name]) for name in by_ref}}


def gathered(parts: Sequence[Any]) -> Any:
    """One node with the results of all, in order. Each part gives a list."""
    return gather.bind(list(parts))


@task.pure
def gather(lists: list[Any]) -> list[Any]:
    """What chunks have returned, as one list. What a handler has put in the place of a chunk stands for all of it."""
    parts = [part if isinstance(part, list) else [part] for part in lists]
    return [value for part in parts for value in part if value is not SKIPPED]


@task.pure
def load(ref: Ref[Any]) -> Any:
    """What a ref refers to."""
    return ref.get()
