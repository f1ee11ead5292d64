"""Attempts as jobs of a pool: the functions that they call, and where they find their inputs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, BinaryIO

from onceflow.authoring.calls import Call
from onceflow.authoring.graph_builder import WorkflowGraph
from onceflow.backends.jobs import give_refs, make_job
from onceflow.backends.local.messages import ActorIn, Job
from onceflow.backends.pools import AnyInstances, AnyPool
from onceflow.data.objects import Object
from onceflow.data.places import Live, Place
from onceflow.driver.actors import Version
from onceflow.driver.driver import Driver
from onceflow.driver.outputs import Blob
from onceflow.driver.work import GivenRefs, Work
from onceflow.engine.runtime.remote_inputs import Fetching
from onceflow.errors import InvalidOption, UnpicklableTask
from onceflow.values import functions
from onceflow.values.actors import ActorOptions, options_in
from onceflow.values.buffers import Buffer, flat
from onceflow.values.templates import Template

RECENT = 0.1
"""Seconds for which the file of a function's module is taken to be unchanged. To look at it for each of many short runs
would cost more than to run them."""


class Lost(Exception):
    """An input of a job is lost."""


class JobMaker:
    """Makes jobs for one pool. `fetching` brings blobs, and checks them."""

    def __init__(
        self,
        pool: AnyPool,
        actors: AnyInstances,
        fetching: Fetching,
        open_blob: Callable[[str], BinaryIO],
        open_checked: Callable[[str], BinaryIO],
        *,
        on_cluster: bool,
    ) -> None:
        self.pool = pool
        self.actors = actors
        self.fetching = fetching
        self._open_blob = open_blob
        self._open_checked = open_checked
        self._on_cluster = on_cluster
        self._shipped: dict[Driver, dict[Any, str]] = {}
        """For each driver, the hashes of the functions it has shipped: once a run is often enough."""
        self._recent: dict[Any, str] = {}
        """Functions of modules that were shipped by any driver since `_recent_since`, and their hashes."""
        self._recent_since = 0.0
        self._buffers: dict[Driver, dict[int, Object]] = {}
        """For each driver the large buffers of its graph's arguments, by their ids."""
        self.opened: dict[int, list[Object]] = {}
        """Token → blobs that were opened for the job."""

    def job(self, token: int, driver: Driver, work: Work) -> Job:
        """An attempt as a job. Raises `Lost` if an input is lost."""
        resources = work.call.settings.resources
        if resources and not self._on_cluster:
            raise InvalidOption(work.task, f"this host does not count {resources[0][0]!r}; a Ray cluster does")
        inputs = [part if isinstance(part, bytes) else self._place(token, part) for part in _values(work)]
        buffers = self._find_buffers(driver, work.call.template) if work.call.template.buffers else ()
        guard = "" if work.guard is None else self._ship_guard(driver, work)
        job = make_job(token, self.function_of(driver, work.call, work.undo), driver, work, inputs, buffers, guard)
        if work.refs is not None:
            contents = [
                part if isinstance(part, bytes) else b"" if isinstance(part, Version) else self._place(token, part)
                for part in work.refs.contents
            ]
            give_refs(job, work.refs, contents, self._give_actors(token, work.refs))
        return job

    def ended(self, token: int) -> None:
        """What was opened for this job is not needed any more."""
        if self.opened:
            self.opened.pop(token, None)

    def forget(self, driver: Driver) -> None:
        """It has come to its end."""
        self._shipped.pop(driver, None)
        self._buffers.pop(driver, None)

    def _give_actors(self, token: int, given: GivenRefs) -> dict[int, ActorIn]:
        """Those that a job is given, each where it lives. What does not live is restored."""
        found: dict[int, ActorIn] = {}
        for place, use in given.actors.items():
            version = given.contents[place]
            assert isinstance(version, Version)
            instance = self.actors.use(token, version, lambda version=version: self._frozen(token, version))  # type: ignore[misc]
            found[place] = ActorIn(instance.id, use == "take")
        return found

    def _frozen(self, token: int, version: Version) -> tuple[bytes | Place | Live, ActorOptions, object]:
        """What an actor is restored from, the options of its class, and what has to be held meanwhile."""
        snapshot = version.snapshot
        if snapshot is None:
            raise Lost
        if isinstance(snapshot, bytes):
            return snapshot, options_in(snapshot), None
        place = self._place(token, snapshot)
        found = self.opened[token][-1] if isinstance(snapshot, Blob) else snapshot
        return place, options_in(found.map()), found

    def _find_buffers(self, driver: Driver, template: Template) -> list[bytes | Place]:
        """Where the large buffers of arguments are: they were stored when the run was submitted. Those of a graph that
        a task returned are sent along."""
        graph = driver.run.graph
        opened = self._buffers.get(driver)
        if opened is None:
            opened = self._buffers[driver] = {}
            if isinstance(graph, WorkflowGraph):
                for buffer, reference in zip(graph.buffers, graph.references, strict=True):
                    opened[id(buffer)] = self._open_buffer(buffer, reference)
        places = [opened.get(id(buffer)) for buffer in template.buffers]
        return [
            bytes(buffer) if found is None or found.place is None else found.place
            for buffer, found in zip(template.buffers, places, strict=True)
        ]

    def _open_buffer(self, buffer: Buffer, reference: str) -> Object:
        if self.fetching.is_near(reference):
            with self._open_blob(reference) as file:  # its content was checked when the graph was read
                return self.add_file(file)
        from onceflow.data import memory  # seldom needed here

        content = flat(buffer)  # it is here: that of a run which goes on was read with its graph
        return self.pool.shelf.add_memory(
            memory.filled("onceflow buffer", content.nbytes, partial(_copy, content)), content.nbytes
        )

    def add_file(self, file: BinaryIO) -> Object:
        return self.pool.shelf.add_file(os.dup(file.fileno()), os.fstat(file.fileno()).st_size)

    def _open(self, reference: str) -> Object:
        found = self.fetching.here(reference)
        if found is not None:
            return found
        with self._open_checked(reference) as file:  # the snapshot of an actor that has died since
            return self.add_file(file)

    def _place(self, token: int, part: Object | Blob) -> Place | Live:
        """Where a worker finds an input of this job."""
        if isinstance(part, Blob):
            part = self._open(part.reference)
            self.opened.setdefault(token, []).append(part)
        if part.lost:
            raise Lost
        part.used = time.monotonic()
        return part.where

    def function_of(self, driver: Driver, call: Call, undo: bool) -> str:
        """The hash of what is called. Raises `UnpicklableTask`."""
        known = self._shipped.get(driver)
        if known is None:
            known = self._shipped[driver] = {}
        key = (call.task, undo)
        hash = known.get(key)
        if hash is None:
            try:
                hash = known[key] = self.ship(call.undo if undo else call.task.function)
            except Exception as error:
                raise UnpicklableTask(call.task.name, f"{type(error).__name__}: {error}") from error
        return hash

    def _ship_guard(self, driver: Driver, work: Work) -> str:
        known = self._shipped.setdefault(driver, {})
        hash = known.get((work.guard, False))
        if hash is None:
            try:
                hash = known[work.guard, False] = self.ship(work.guard)
            except Exception as error:
                raise UnpicklableTask(work.task, f"its handlers: {type(error).__name__}: {error}") from error
        return hash

    def ship(self, function: Any) -> str:
        """Make a function known to workers. Returns its hash."""
        now = time.monotonic()
        if now - self._recent_since > RECENT:
            self._recent.clear()
            self._recent_since = now
        hash = self._recent.get(function)
        if hash is None:
            shipped = functions.ship(function)
            self.pool.ship(shipped)
            hash = shipped.hash
            if not shipped.payload:  # what goes by value may change without a trace in the file system
                self._recent[function] = hash
        return hash


def _copy(content: memoryview, target: memoryview) -> None:
    target[:] = content


def _values(work: Work) -> Iterable[bytes | Object | Blob]:
    """Its inputs. An actor is never one by itself."""
    for part in work.inputs:
        assert not isinstance(part, Version)
        yield part
