"""Attempts as jobs: the description that a worker gets, on any backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onceflow.authoring.calls import Call
from onceflow.backends.local.messages import ActorIn, Job, RefIn
from onceflow.core.run import attempt_name
from onceflow.data.places import Live, Place
from onceflow.driver.driver import Driver
from onceflow.driver.work import GivenRefs, Work
from onceflow.values import variables
from onceflow.values.handler_answers import THE_TASK

YOUNG = 16
"""Attempts of a run that come first: for them, parts of loops of other runs make room."""


def make_job(
    token: int,
    function: str,
    driver: Driver,
    work: Work,
    inputs: Sequence[bytes | Place | Live],
    buffers: Sequence[bytes | Place] | None = None,
    guard: str = "",
) -> Job:
    """An attempt as a job. `function` is the hash under which its function was shipped; `inputs` are where those of the
    work are found, and `buffers` where those of its arguments, if they are not sent along; `guard` is the hash of what
    is asked if it raises, if anything is."""
    call: Call = work.call
    template = call.template
    settings = call.settings
    context: dict[str, str | int] = {
        "run": driver.id,
        "task": work.node,
        "attempt": attempt_name(work.attempt),
        "key": work.key,
    }
    if driver.metadata is not None:
        context["metadata"] = driver.metadata
    if work.failures:
        context["failures"] = work.failures
    if work.tried:
        context["tried"] = work.tried
    if work.again:
        context["again"] = 1
    if work.inside:
        context["inside"] = work.inside
    if work.cancelled:
        context["cancelled"] = 1
    if work.deadline is not None:
        context["deadline"] = repr(work.deadline)
    if settings.deterministic and not work.undo:
        context["deterministic"] = 1
    if settings.writes and not work.undo:
        context["writes"] = variables.SEPARATOR.join(settings.writes)
    job = Job(
        token,
        function,
        work.node,
        template.pickled(),
        list(inputs),
        list(template.holes),
        [bytes(buffer) for buffer in template.buffers] if buffers is None else list(buffers),
        work.parts,
        call.is_async_undo if work.undo else call.is_async,
        settings.threads and not work.undo,
        context,
        undo=work.undo,
        has_output=work.has_output,
        retried=None if work.undo or settings.retry.on == (Exception,) else call.retried,
        cpus=None if work.undo else settings.cpus,
        memory=0 if work.undo else settings.memory,
        priority=driver.priority + settings.priority,
        spans=list(work.spans),
        keep=work.keep,
    )
    if not work.undo and (settings.resources or settings.placement):
        job.resources, job.placement = dict(settings.resources), settings.placement
    if work.alone:
        job.alone = True
    if driver.finished_attempts < YOUNG:
        job.young = True
    if guard:
        job.guard = guard
        job.failed = dict(work.failed)
        job.last = work.failed[THE_TASK] >= settings.retry.count
        if work.failure is not None:
            job.failure = work.failure
            job.is_async = job.threads = False
    if settings.catch and not work.undo:
        job.catch = settings.catch
    return job


def give_refs(
    job: Job, given: GivenRefs, contents: Sequence[bytes | Place | Live], actors: Mapping[int, ActorIn]
) -> None:
    """`contents` are where those of the refs are found, and `actors` those that are actors, by their places."""
    job.refs = [
        RefIn(id, content, given.inner.get(place, []), actors.get(place))
        for place, (id, content) in enumerate(zip(given.ids, contents, strict=True))
    ]
    job.tables = given.tables
