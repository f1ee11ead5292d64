"""Runs that were woken and that no caller waits for here: workers go on with them (`backends.local.delegated_runs`),
and what they have done is committed here.

To load a run, to drive it and to write down what it did takes ten times as long as the segment of a fiber that it was
woken for, and an engine has one interpreter for all of that. Workers have one each. What they cannot do by themselves
they hand back; then the runs of that workflow are driven here for a while, as others are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onceflow.authoring import graph_storage
from onceflow.backends.local.delegated_runs import Delegation, Driven, Report, Woken
from onceflow.engine.runtime.loop import Posting
from onceflow.engine.runtime.parking import Parking
from onceflow.engine.submission import Settings, decode_settings
from onceflow.storage.journal import Failed, Outcome, Short

if TYPE_CHECKING:
    from onceflow.engine.runtime.internal_jobs import Errands
    from onceflow.storage.journal import Journal

AT_ONCE = 24
"""Runs that a worker is handed. It has done with them in a few milliseconds."""

LARGE = 64 * 1024
"""Bytes of a graph. What is larger takes longer to be sent than it saves."""

PATIENCE = 2.0
"""Seconds after which a worker that has not come back with its runs is stopped: some code takes its time, and a caller
that wants to cancel such a run, or to look at it, finds it only here."""

FIRST, MOST = 64, 8192
"""Runs of a workflow that are driven here after one was handed back: then twice as many, and so on."""

Accepted = Callable[[Driven], None]
"""What a worker has done with a run is durable."""


class Delegating:
    """Belongs to the loop's thread, but for `suits`, `in` and `len`."""

    def __init__(
        self,
        owner: str,
        journal: Journal,
        loop: Posting,
        parking: Parking,
        accepted: Accepted,
    ) -> None:
        self._owner = owner
        self._journal = journal
        self._loop = loop
        self._parking = parking
        self._accepted = accepted
        self._away: set[str] = set()
        """Runs that workers have, or whose commit is under way."""
        self._waiting: list[Callable[[], None]] = []
        """Called when none is away."""
        self._driven_here: dict[str, tuple[int, int]] = {}
        """Workflow → how many of its runs are yet to be driven here, and how many if one is handed back again."""
        self._closed = False

    def __contains__(self, run: str) -> bool:
        return run in self._away

    def __len__(self) -> int:
        return len(self._away)

    def when_back(self, then: Callable[[], None]) -> None:
        """Call this as soon as no run is away."""
        if self._away and not self._closed:
            self._waiting.append(then)
        else:
            then()

    def close(self) -> None:
        """Whatever becomes of those that are away concerns the next engine."""
        self._closed = True
        self._away.clear()
        self._tell_waiting()

    def suits(self, short: Short) -> bool:
        """Whether it may be worth a try."""
        settings = _settings(short.settings)
        is_limited = settings.queue is not None or settings.timeout is not None or settings.priority != 0
        if is_limited or len(short.graph) > LARGE or _is_of_script(short.graph):
            return False
        workflow = short.run.workflow
        left, after = self._driven_here.get(workflow, (0, FIRST))
        if left:
            self._driven_here[workflow] = (left - 1, after)
        return not left

    def send(self, runs: Sequence[Short], errands: Errands) -> None:
        """None of them may be here, or away. Those of one workflow go together: a slow one delays no others."""
        workflows: dict[str, list[Short]] = {}
        for short in runs:
            workflows.setdefault(short.run.workflow, []).append(short)
        for workflow, some in workflows.items():
            for start in range(0, len(some), AT_ONCE):
                self._send(workflow, some[start : start + AT_ONCE], errands)

    def _send(self, workflow: str, runs: Sequence[Short], errands: Errands) -> None:
        graphs: dict[bytes, int] = {}
        woken = [
            Woken(
                short.run.id,
                short.run.epoch,
                short.run.status,
                short.run.metadata,
                _settings(short.settings).on_failure,
                graphs.setdefault(short.graph, len(graphs)),
                short.entries,
                short.mail,
            )
            for short in runs
        ]
        ids = [short.run.id for short in runs]
        self._away.update(ids)
        token = errands.delegate(
            Delegation(self._owner, list(graphs), woken), lambda report: self._came_back(workflow, ids, report)
        )
        self._loop.later(PATIENCE, lambda: self._give_up(errands, token))

    def _give_up(self, errands: Errands, token: int) -> None:
        """Unless a caller waits until nothing is under way any more; it would have to wait for the same again."""
        if not self._waiting:
            errands.give_up(token)

    def _came_back(self, workflow: str, runs: list[str], report: Report | None) -> None:
        if report is None:
            report = Report(handed_back=runs)
        if report.handed_back or report.slow:
            _, after = self._driven_here.get(workflow, (0, FIRST))
            self._driven_here[workflow] = (after, min(2 * after, MOST))
        else:
            self._driven_here.pop(workflow, None)
        for run in report.handed_back:
            self._give(run, here=True)
        for run in report.left:
            self._give(run, here=False)
        for driven in report.driven:
            self._commit(driven)

    def _give(self, run: str, *, here: bool) -> None:
        self._is_back(run)
        self._parking.load_again(run, here=here)

    def _is_back(self, run: str) -> None:
        self._away.discard(run)
        if not self._away:
            self._tell_waiting()

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def _commit(self, driven: Driven) -> None:
        def answer(outcome: Outcome) -> None:
            self._loop.post(lambda: self._answered(driven, outcome))

        self._journal.submit(driven.requests, answer)

    def _answered(self, driven: Driven, outcome: Outcome) -> None:
        if self._closed:
            return
        if outcome.ok:
            self._accepted(driven)
            if driven.due is None:
                self._parking.forget(driven.run)
            else:
                self._parking.park(driven.run, driven.due, None)
        elif isinstance(outcome.refusal, Failed):  # its driver here meets the same, and notifies its callers
            self._parking.load_again(driven.run, here=True)
        else:  # another engine has driven it meanwhile, and may not know what it was woken for
            self._parking.load_again(driven.run, here=False)
        self._is_back(driven.run)


@functools.lru_cache(maxsize=1000)
def _settings(stored: bytes) -> Settings:
    return decode_settings(stored)


@functools.lru_cache(maxsize=200)
def _is_of_script(graph: bytes) -> bool:
    """Whether it has tasks of a script: to go on with them takes a process that runs the script."""
    return graph_storage.is_of_script(graph)
