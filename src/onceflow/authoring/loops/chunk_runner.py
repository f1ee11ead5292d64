"""The items of a chunk, one after the other (async ones at the same time), each as if it were a task of its own.

**Keys.** The key of an item is made of the loop's node and the item's number. So it is the same whenever the item runs
again, in whatever chunk.

**Failures.** A chunk does not fail because one of its items does. An item that raised becomes a node of its own, in a
graph that the chunk returns, together with what the others gave: so what has been done is saved, and after a fix only
what is missing runs. That node has the options of the task, and its first attempt counts as made: it raises what the
item has raised, and runs nothing. (In another life of the run, and if a graph around it is tried again, it does run the
item: that is what a resumed task does.)
It is alone in its graph, so that a handler which ends the branch (`break_`) ends that item and no other: if others were
in the chunk, they and it go into chunks of their own first. If the policy has no retries, the items behind it wait in
a chunk of their own, which does not start before it is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import msgspec

from onceflow.authoring.loops import chunk_graphs, chunk_sizes
from onceflow.authoring.loops.chunk_graphs import Place
from onceflow.authoring.loops.failed_items import SKIPPED, FailedItem
from onceflow.authoring.loops.roles import Actor
from onceflow.authoring.nodes import NodeHandle
from onceflow.core.model.graph import Turn
from onceflow.values import context, failures
from onceflow.values.context import running


class Past(msgspec.Struct, frozen=True, array_like=True):
    """What an item has raised in a chunk."""

    failure: bytes
    epoch: str
    """The life of the run in which that was."""
    tried: str
    """How often the graphs around it had been tried again by then."""


class _Items:
    """What is known of the items of one attempt so far."""

    def __init__(self, actor: Actor, given: dict[str, Any], place: Place, *, alone: bool = False) -> None:
        self._role = actor.role
        self._task = actor.task
        self._given = given
        self._place = place
        self._alone = alone
        """Whether there is one item only."""
        self.arguments = {**given, **{name: given[name].get() for name in place.by_ref}}
        """That all items share."""
        around = running.get()
        assert around is not None
        self._context: Mapping[str, Any] = around
        self._epoch: str = around["attempt"].partition(".")[0]
        self._tried: str = around.get("tried", "")
        self.failures: int = around.get("failures", 0)
        """How often the node of this attempt has failed."""
        self.again: bool = "again" in around
        """Whether an earlier attempt has returned: this one must return the same, and is not split."""
        self._before = f"{around['run']}/{place.loop}["
        self._behind = f"]/{around['key'].rpartition('/')[2]}"
        self._parts: list[Any] = []
        """What there is instead of a list of values: such lists, and nodes."""
        self.values: list[Any] = []
        """The values since the last of the parts."""

    def context_of(self, number: int) -> dict[str, Any]:
        """What `current()` gives to the item of this number."""
        return {
            **self._context,
            "task": f"{self._place.loop}[{number}]",
            "key": f"{self._before}{number}{self._behind}",
        }

    def replay(self, past: Past | None) -> None:
        """Raises what the item raised in a chunk, if this attempt stands for that one."""
        if past is None or self.failures:
            return
        if (past.epoch, past.tried) == (self._epoch, self._tried):
            raise failures.load(past.failure)

    def given_up(self, number: int, error: Exception, tried: int) -> Any:
        """What stands in the place of an item that has failed so often, if that was its last chance and the loop goes
        on all the same: a `FailedItem`, or `SKIPPED`. Else None."""
        retry, on_error = self._task.settings.retry, self._role.on_error
        if on_error == "stop" or (retry.covers(error) and tried <= retry.count):
            return None
        return SKIPPED if on_error == "skip" else FailedItem(number, self._dump(number, error))

    def _dump(self, number: int, error: Exception) -> bytes:
        return failures.dump(error, f"item {number} of {self._place.loop}")

    def add_failure(self, number: int, item: Any, error: Exception) -> bool:
        """Whether the items behind it may run."""
        instead = self.given_up(number, error, 1)
        if instead is not None:
            self.values.append(instead)
            return True
        self.add_item(number, item, Past(self._dump(number, error), self._epoch, self._tried))
        retry = self._task.settings.retry
        return retry.covers(error) and retry.count > 0

    def add_item(self, number: int, item: Any, past: Past) -> None:
        """An item that failed: as a node of its own if it has the graph for itself, else in a chunk of its own."""
        place = self._place._replace(first=number)
        if self._alone:
            node: Any = chunk_graphs.item_of(self._task, self._role).bind(item, self._given, place, past)
            node._turn = Turn(number, items=1)
            self._add([node])
        else:
            node = chunk_graphs.chunk_of(self._task, self._role).bind([item], self._given, place, past)
            node._turn = Turn(number, items=1)
            self._add(node)

    def add_rest(self, items: Any, number: int) -> None:
        """The items behind one that has failed for good: they wait for it."""
        if items:
            (failed,) = self._parts[-1:]
            self.add_chunks(items, number, len(items), after=(failed,))

    def add_chunks(self, items: Any, number: int, size: int, after: tuple[Any, ...] = ()) -> None:
        """What is left, from this number on, in chunks of this size."""
        place = self._place._replace(first=number)
        for part in chunk_graphs.chunks(self._task, self._role, items, self._given, place, size, limit=0):
            node: Any = part[0] if isinstance(part, list) else part
            node._after = after
            self._add(part)

    def _add(self, node: Any) -> None:
        if self.values:
            self._parts.append(self.values)
            self.values = []
        self._parts.append(node)

    def result(self) -> Any:
        """The values; or the node of what there is and what is missing."""
        if self._parts or any(isinstance(value, NodeHandle) for value in self.values):
            return chunk_graphs.gathered([*self._parts, self.values])
        return (
            [value for value in self.values if value is not SKIPPED] if self._role.on_error == "skip" else self.values
        )


class Chunk(Actor):
    """Runs items one after the other."""

    __slots__ = ()

    def __call__(self, items: Any, given: dict[str, Any], place: Place, past: Past | None = None) -> Any:
        known = chunk_graphs.items_of(items)
        state = _Items(self, given, place, alone=len(known) == 1)
        if past is not None:
            state.add_item(place.first, known[0], past)
            return state.result()
        measured = chunk_sizes.is_measured(self.task, self.role) and not state.again
        enough = chunk_sizes.ENOUGH if measured else float("inf")
        link = context.link() if measured else None
        function, arguments = self.task.function, state.arguments
        before = running.get()
        started = perf_counter()
        try:
            for done, item in enumerate(known, 1):
                number = place.first + done - 1
                running.set(state.context_of(number))
                try:
                    state.values.append(function(item, **arguments))
                except Exception as error:
                    if not state.add_failure(number, item, error):
                        state.add_rest(known[done:], number + 1)
                        break
                seconds = perf_counter() - started
                hurried = link is not None and link.is_hurried()
                if (seconds > enough or hurried) and done < len(known):
                    left = len(known) - done
                    size = chunk_sizes.next_size(done, seconds, left, place.least)
                    if size < left or seconds > 2 * enough or hurried:
                        state.add_chunks(known[done:], number + 1, size)
                        break
        finally:
            running.set(before)
        return state.result()


class AsyncChunk(Actor):
    """Runs items at the same time."""

    __slots__ = ()

    async def __call__(self, items: Any, given: dict[str, Any], place: Place, past: Past | None = None) -> Any:
        import asyncio  # large, and most workers never need it

        known = chunk_graphs.items_of(items)
        state = _Items(self, given, place, alone=len(known) == 1)
        if past is not None:
            state.add_item(place.first, known[0], past)
            return state.result()

        async def one(number: int, item: Any) -> Any:
            running.set(state.context_of(number))  # each has a context of its own
            try:
                return await self.task.function(item, **state.arguments)
            except Exception as error:
                return _Raised(error)

        outcomes = await asyncio.gather(*[one(number, item) for number, item in enumerate(known, place.first)])
        for number, (item, outcome) in enumerate(zip(known, outcomes, strict=True), place.first):
            if isinstance(outcome, _Raised):
                state.add_failure(number, item, outcome.error)
            else:
                state.values.append(outcome)
        return state.result()


class _Raised:
    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class Item(Actor):
    """Runs one item that has failed before."""

    __slots__ = ()

    def __call__(self, item: Any, given: dict[str, Any], place: Place, past: Past) -> Any:
        state = _Items(self, given, place)
        before = running.get()
        running.set(state.context_of(place.first))
        try:
            state.replay(past)
            return self.task.function(item, **state.arguments)
        except Exception as error:
            instead = state.given_up(place.first, error, state.failures + 1)
            if instead is None:
                raise
            return instead
        finally:
            running.set(before)


class AsyncItem(Actor):
    """The same for an async task."""

    __slots__ = ()

    async def __call__(self, item: Any, given: dict[str, Any], place: Place, past: Past) -> Any:
        state = _Items(self, given, place)
        running.set(state.context_of(place.first))
        try:
            state.replay(past)
            return await self.task.function(item, **state.arguments)
        except Exception as error:
            instead = state.given_up(place.first, error, state.failures + 1)
            if instead is None:
                raise
            return instead


class Fold(Actor):
    """Takes the results of a chunk into account, one after the other."""

    __slots__ = ()

    def __call__(self, value: Any, items: Any, given: dict[str, Any], by_ref: tuple[str, ...]) -> Any:
        arguments = {**given, **{name: given[name].get() for name in by_ref}}
        for item in chunk_graphs.items_of(items):
            value = self.task.function(value, item, **arguments)
        return value
