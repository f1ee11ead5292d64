"""From a node to a run that can be journaled: everything that happens in the submitting thread."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from onceflow.authoring import graph_storage
from onceflow.authoring.graph_builder import WorkflowGraph, build_graph
from onceflow.authoring.options import check_priority
from onceflow.core.checks import check
from onceflow.core.rules.state import OnFailure
from onceflow.driver import entries
from onceflow.engine.queues.limits import check_name as check_queue
from onceflow.errors import InvalidOption
from onceflow.storage.blobs import Author
from onceflow.storage.journal import AppendEntries, CreateRun, Request
from onceflow.storage.run_stores import Place
from onceflow.values.metadata import encode as encode_metadata
from onceflow.values.texts import is_plain_text
from onceflow.version import VERSION

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Without digits and letters that look alike."""


_random = random.Random()
"""Seeded by the system. To ask the system each time would cost a switch of threads."""
os.register_at_fork(after_in_child=_random.seed)


class Settings(msgspec.Struct, frozen=True, gc=False):
    """What the journal keeps of how a run is to be run."""

    on_failure: OnFailure = "keep"
    timeout: float | None = None
    """Seconds that it may take."""
    queue: str | None = None
    """The queue in which it needs a place."""
    priority: int = 0
    onceflow: str = ""
    """The version of onceflow that created the run; empty if that did not record it."""


class Submission(msgspec.Struct, frozen=True, gc=False):
    """A run to be."""

    run: str
    name: str | None
    graph: WorkflowGraph
    settings: Settings
    metadata: str | None
    opening: list[Request]
    """What makes it a run."""


def prepare(
    node: object,
    *,
    home: Place,
    id: Callable[[], str],
    name: str | None = None,
    on_failure: OnFailure = "keep",
    timeout: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    queue: str | None = None,
    priority: int = 0,
) -> Submission:
    """Raises `UnsafeGraph`, and whatever says that this is no graph. `id` gives it a new id."""
    if on_failure not in ("keep", "undo"):
        raise InvalidOption("on_failure", f"it is 'keep' or 'undo', not {on_failure!r}", kind="setting")
    if name is not None:
        check_name(name)
    if timeout is not None:
        check_timeout(timeout)
    if queue is not None:
        check_queue(queue)
    check_priority(priority, "priority", "setting")
    about = None if metadata is None else encode_metadata(metadata)
    graph = build_graph(node)
    check.check(graph)
    run = id()
    references = [
        home.blobs.write(Author(run, 1, home.engine), f"buffer.{number}", [buffer])
        for number, buffer in enumerate(graph.buffers)
    ]
    graph.references = tuple(references)
    settings = Settings(on_failure, None if timeout is None else float(timeout), queue, priority, VERSION)
    opening: list[Request] = [
        CreateRun(
            id=run,
            name=name,
            workflow=graph.nodes[graph.sink].task if graph.workflow is None else graph.workflow.name,
            digest=graph.digest,
            graph=graph_storage.encode(graph, references),
            settings=msgspec.msgpack.encode(settings),
            owner=home.engine,
            status="running",
            fresh=True,
            metadata=about,
        )
    ]
    if references:
        opening.append(AppendEntries(run, 1, [entries.buffer(reference) for reference in references]))
    return Submission(run, name, graph, settings, about, opening)


def left_to_others(submission: Submission) -> list[Request]:
    """What makes it a run that waits for an engine that takes it."""
    first, *rest = submission.opening
    assert isinstance(first, CreateRun)
    return [msgspec.structs.replace(first, owner=None, status="pending"), *rest]


def decode_settings(stored: bytes) -> Settings:
    return msgspec.msgpack.decode(stored, type=Settings)


def check_name(name: Any) -> None:
    if not is_plain_text(name):
        raise InvalidOption("name", f"it is a text that is not empty and has an encoding, not {name!r}", kind="setting")


def check_timeout(timeout: Any) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= sys.float_info.max:
        raise InvalidOption("timeout", f"it is a number of seconds above 0, not {timeout!r}", kind="setting")


def new_id() -> str:
    """Sixteen digits and letters; of two runs that were made at different times, the later one sorts last."""
    number = int(time.time() * 1000) << 35 | _random.getrandbits(35)
    return "".join([_DIGITS[number >> shift & 31] for shift in range(75, -5, -5)])
