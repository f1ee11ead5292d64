"""Roles: the tasks of a loop, made of the task that it calls.

The nodes of a loop call functions of ours, which call the user's task again and again. But their code, as far as it may
change between two lives of a run, is the user's. So each of them is the user's task in a **role**: it has the task's
home (where it is imported from, and found again after a restart), its code version, and options that follow from the
task's own; only what is called is different. A role is plain data, one more option of the task that users cannot give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from onceflow.authoring.calls import not_a_task
from onceflow.authoring.signatures import Shape

if TYPE_CHECKING:
    from onceflow.authoring.tasks import AnyTask

Kind = Literal["loop", "block", "chunk", "item", "branch", "fold"]
OnError = Literal["stop", "skip", "collect"]


class Role(msgspec.Struct, frozen=True):
    """Which part a task plays in which loop."""

    kind: Kind
    name: str
    """Of the node, as users see it."""
    chunk: int = 0
    """Items that go into a chunk; 0 if that is found out by measuring."""
    limit: int = 0
    """Chunks that may be in flight; 0 if nothing was said."""
    on_error: OnError = "stop"
    saved: bool = False
    """Whether something else in the loop is saved or has an effect, beside this task."""
    handlers: tuple[Any, ...] = ()
    """In force for all items."""


class Actor:
    """A function of ours that calls a task. It passes for the task's own function wherever versions of code are
    compared."""

    __slots__ = ("__code__", "__defaults__", "__kwdefaults__", "role", "task")

    def __init__(self, task: AnyTask[..., Any], role: Role) -> None:
        self.task = task
        self.role = role
        for attribute in ("__code__", "__defaults__", "__kwdefaults__"):
            setattr(self, attribute, getattr(task.function, attribute, None))

    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same with another function in the place of the task's."""
        task = self.task._copy()
        task.function = function
        stand_in: Any = type(self)(task, self.role)
        return stand_in  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return actor, (self.task, self.role)


def actor(task: AnyTask[..., Any], role: Role) -> Callable[..., Any]:
    """What a task calls in this role."""
    return in_role(task, role).function


def in_role(task: AnyTask[..., Any], role: Role) -> AnyTask[..., Any]:
    """The task in this role. The same object for the same task and role."""
    try:
        found = task._roles.get(role)
    except AttributeError:
        raise not_a_task(task) from None
    if found is None:
        before = task._base._given
        given = {name: value for name, value in task._given.items() if name not in before or before[name] is not value}
        found = task._roles[role] = task._copy()
        found._decide({"role": role, "changes": given})
    return found


def guarded(task: AnyTask[..., Any], handlers: tuple[Any, ...]) -> AnyTask[..., Any]:
    """A task in a role, with these handlers behind its own. Of a loop they are in force for the items; where the loop
    itself says what becomes of errors, none is left for them."""
    role: Role = task._given["role"]
    played: Any = task.function
    subject: AnyTask[..., Any] = played.task
    if role.kind == "loop":
        if role.on_error != "stop":
            return task
        return in_role(subject, msgspec.structs.replace(role, handlers=(*role.handlers, *handlers)))
    return in_role(subject.options(handlers=(*subject.settings.handlers, *handlers)), role)


def assume(task: AnyTask[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Lets a copy of a task assume the role that it was given, and returns the options that follow from that. `changes`
    are the options that the task itself had beside those of its decorator."""
    from onceflow.authoring.loops import chunk_graphs, chunk_runner
    from onceflow.authoring.tasks import _with_options

    role, changes = given["role"], given["changes"]
    base = task._base
    subject = _with_options(base, {**base._given, **changes}) if changes else base
    kinds: dict[Kind, type[Actor]] = {
        "loop": chunk_graphs.Loop,
        "block": chunk_graphs.Block,
        "branch": chunk_graphs.Branch,
        "chunk": chunk_runner.AsyncChunk if base.is_async else chunk_runner.Chunk,
        "item": chunk_runner.AsyncItem if base.is_async else chunk_runner.Item,
        "fold": chunk_runner.Fold,
    }
    kind = kinds[role.kind]
    function: Any = kind(subject, role)
    task.function = function
    task.is_async = base.is_async and role.kind in ("chunk", "item")
    task._shape = _shape_of(kind)
    task._roles = {}
    options = _OPTIONS[role.kind](subject, role)
    return {**options, "name": role.name, "role": role, "changes": changes}


def _shape_of(kind: type[Actor]) -> Shape:
    shape = _shapes.get(kind)
    if shape is None:
        shape = _shapes[kind] = Shape(kind.__call__.__get__(object()))
    return shape


_shapes: dict[type[Actor], Shape] = {}


def _of_loop(subject: AnyTask[..., Any], role: Role) -> dict[str, Any]:
    """What opens into chunks is saved if they are, or if they have an effect (design 2.9)."""
    settings = subject.settings
    saved = is_saved(subject, role)
    options = {"checkpoint": saved, "deterministic": saved or settings.deterministic, "effect": "none"}
    return {**options, "handlers": role.handlers} if role.kind == "loop" and role.handlers else options


def _of_branch(subject: AnyTask[..., Any], role: Role) -> dict[str, Any]:
    return {**_of_loop(subject, role), "num_returns": subject.settings.num_returns}


def _of_chunk(subject: AnyTask[..., Any], role: Role) -> dict[str, Any]:
    """What goes on after errors has outcomes that were made by failures: nondeterministic, and saved (design 2.8). What
    has an effect is saved, whatever the task says: an item that raises becomes a task of a graph, which only those may
    return that are saved (2.9)."""
    options = {name: value for name, value in subject._given.items() if name not in ("num_returns", "handlers")}
    if subject.settings.effect != "none":
        options["checkpoint"] = True
    return options if role.on_error == "stop" else {**options, "checkpoint": True, "deterministic": False}


def _of_item(subject: AnyTask[..., Any], role: Role) -> dict[str, Any]:
    """As a chunk, but what the task raises is its own."""
    handlers = {"handlers": subject._given["handlers"]} if "handlers" in subject._given else {}
    return {**_of_chunk(subject, role), **handlers}


def _of_fold(subject: AnyTask[..., Any], role: Role) -> dict[str, Any]:
    return {name: value for name, value in subject._given.items() if name not in ("num_returns", "queue_key")}


_OPTIONS: dict[Kind, Callable[[AnyTask[..., Any], Role], dict[str, Any]]] = {
    "loop": _of_loop,
    "block": _of_loop,
    "branch": _of_branch,
    "chunk": _of_chunk,
    "item": _of_item,
    "fold": _of_fold,
}


def is_saved(subject: AnyTask[..., Any], role: Role) -> bool:
    """Whether what the chunks of a loop return is saved, or may not be run again."""
    settings = subject.settings
    return settings.checkpoint or settings.effect != "none" or role.on_error != "stop" or role.saved
