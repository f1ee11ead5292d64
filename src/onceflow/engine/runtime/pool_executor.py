"""Attempts as jobs of the local pool, and the pool's reports as answers to the drivers."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from onceflow.authoring.calls import Call
from onceflow.backends.jobs import YOUNG
from onceflow.backends.local.actors.instances import Instances
from onceflow.backends.local.live_publishing import Then
from onceflow.backends.local.messages import Job
from onceflow.backends.local.pool import Pool
from onceflow.backends.local.reports import (
    Died,
    Ended,
    Finished,
    MetLost,
    Printed,
    Progressed,
    Raised,
    Report,
    Statistics,
)
from onceflow.backends.local.reservations import PLAIN, YOUNGEST, Kind
from onceflow.backends.pools import AnyInstances, AnyPool, Told
from onceflow.core.run import attempt_name
from onceflow.data.objects import Object
from onceflow.data.places import Live
from onceflow.driver.actors import Instance
from onceflow.driver.driver import Driver
from onceflow.driver.outputs import Part
from onceflow.driver.work import Ahead, Work
from onceflow.engine.logs import engine_log
from onceflow.engine.logs.engine_log import Recording
from onceflow.engine.logs.task_output import Printing
from onceflow.engine.runtime.ahead_jobs import Foresight
from onceflow.engine.runtime.cluster import Cluster
from onceflow.engine.runtime.internal_jobs import Errands
from onceflow.engine.runtime.jobs import JobMaker, Lost
from onceflow.engine.runtime.live_info import Look, Progress
from onceflow.engine.runtime.loop import Loop
from onceflow.engine.runtime.remote_inputs import Fetching
from onceflow.errors import (
    InvalidOption,
    OnceflowError,
    StorageError,
    TaskTimedOut,
    UnpicklableArgument,
    UnpicklableTask,
)
from onceflow.values import failures

ANSWERED = 1000
"""Jobs on a cluster that are remembered for what comes late of them."""

SHORTEST_LOOK, LONGEST_LOOK = 0.01, 0.5
"""Seconds between two looks at a job with a timeout that has not started. They may be as long as a part of its
timeout."""

Answer = Callable[[Driver, Work, Report], None]
Admit = Callable[[Driver, Sequence[str]], None]
TellProgress = Callable[[Driver, Work, Progress], None]


class Workers:
    """The pool of an engine, started with the first job. `answer` is called for everything that was started, once;
    `admit` for what has asked, when it may start. `fetching` makes what brings the blobs that attempts
    read, which wait for that.

    Without `printing`, workers write to where this process does. Else it gets what they print, and what they log from
    `log_level` on. `recording` is notified of what happens to attempts, `lost` of lost objects, and `lost_actor` of
    lost actors.
    """

    def __init__(
        self,
        folder: Path,
        size: int | None,
        *,
        preload: Sequence[str],
        environment: Mapping[str, str],
        loop: Loop,
        open_blob: Callable[[str], BinaryIO],
        open_checked: Callable[[str], BinaryIO],
        fetching: Callable[[Workers], Fetching],
        answer: Answer,
        admit: Admit,
        tell_progress: TellProgress,
        lost: Callable[[Set[Object]], None],
        lost_actor: Callable[[Instance], None],
        printing: Printing | None,
        log_level: int,
        recording: Recording,
        cluster: Cluster | None = None,
    ) -> None:
        self._answer = answer
        self._admit = admit
        self._tell_progress = tell_progress
        self._tell_lost = lost
        self._loop = loop
        self._printing = printing
        self._recording = recording
        self._told: set[int] = set()
        """Tokens of jobs whose start is in the engine's log, because they go on."""
        self._next_look = 0.0
        self._timed_out: dict[int, float] = {}
        """Jobs that are stopped because they have run for so many seconds."""
        self._progress: dict[int, Progress] = {}
        """What running jobs have reported last."""
        self._tokens = itertools.count(1)
        self._jobs: dict[int, tuple[Driver, Work]] = {}
        self._by_attempt: dict[tuple[Driver, int], int] = {}
        self._reserved: dict[Driver, dict[str, int]] = {}
        """Nodes that have asked and were not started → the tokens that their jobs will have."""
        self._asking: dict[int, tuple[Driver, str]] = {}
        """Those that wait for an answer, by their tokens."""
        self._foresight = Foresight()
        self._ran_ahead: set[int] = set()
        """Tokens of jobs that ran ahead and were asked for."""
        told: Told = {
            "selector": loop.selector,
            "report": self._reported,
            "progressed": self._progressed,
            "died": lambda worker, status: recording.tell("worker died", worker=worker, detail=f"status {status}"),
            "lost": self.lose,
            "variable": self._variable,
            "printed": None if printing is None else self._printed,
            "log_level": log_level,
            "preload": preload,
            "environment": environment,
        }
        self._pool: AnyPool
        self._actors: AnyInstances
        self._is_cluster = cluster is not None
        self._answered: dict[int, tuple[str, str, int, bool]] = {}
        """Token → run, node, attempt, and whether it was an undo, of the last jobs that were answered, on a cluster:
        what actors printed for them comes by another way, and perhaps later."""
        if cluster is None:
            pool = self._pool = Pool(
                folder, size, asked_for_host=lambda wish, listener: instances.make(wish, listener), **told
            )
            instances = self._actors = Instances(pool, self._tokens.__next__, self._ship, lost_actor)
        else:
            self._pool, self._actors = cluster.open(folder, size, lost_actor, told)
        self._reservations = self._pool.reservations
        self._fetching = fetching(self)
        self._maker = JobMaker(
            self._pool, self._actors, self._fetching, open_blob, open_checked, on_cluster=cluster is not None
        )
        self.errands = Errands(self._pool, self._tokens, self._maker.ship)

    def add_file(self, file: BinaryIO) -> Object:
        """A blob, as an object that workers can read."""
        return self._maker.add_file(file)

    def _ship(self, function: Any) -> str:
        """For actors. Returns its hash."""
        return self._maker.ship(function)

    def ask(self, driver: Driver, node: str, call: Call) -> bool:
        reserved = self._reserved.get(driver)
        if reserved is None:
            reserved = self._reserved[driver] = {}
        elif (known := reserved.get(node)) is not None:
            return known not in self._asking
        try:
            function = self._maker.function_of(driver, call, undo=False)
        except UnpicklableTask:
            return True  # it is notified when it starts
        token = reserved[node] = next(self._tokens)
        task = call.task
        settings = task.settings
        young = driver.finished_attempts < YOUNG
        kind: Kind = YOUNGEST if young else PLAIN
        shares = task.is_async or settings.threads
        if shares or settings.cpus is not None or settings.memory or settings.resources or settings.placement:
            kind = (task.is_async, settings.threads, settings.cpus, settings.memory, *settings.resources)
            kind = (*kind, settings.placement, young)
        if self._reservations.promise(token, function, kind, shares=shares):
            return True
        self._asking[token] = (driver, node)
        priority = driver.priority + settings.priority
        job = Job(token, function, node, b"", context={"run": driver.id}, priority=priority, young=young)
        self._reservations.wait(job, kind)
        return False

    def unused(self, driver: Driver, node: str) -> None:
        token = self._reserved.get(driver, {}).pop(node, None)
        if token is not None:
            self._asking.pop(token, None)
            self._reservations.release(token)

    def why(self, driver: Driver, node: str) -> str:
        token = self._reserved.get(driver, {}).get(node)
        if token not in self._asking:
            return ""
        needs = _needs(driver.run.rows[node].node.call)
        count = self._pool.statistics().workers
        return f"waits for a free worker ({min(len(self._pool.running()), count)} of {count} busy)" + (
            f" with {needs}" if needs else ""
        )

    def _admit_next(self) -> bool:
        """Notify requesters that may start now. Returns whether there was one."""
        admitted: dict[Driver, list[str]] = {}
        for token in self._reservations.turn():
            driver, node = self._asking.pop(token)
            admitted.setdefault(driver, []).append(node)
        for driver, nodes in admitted.items():
            self._admit(driver, nodes)
        return bool(admitted)

    def _token(self, driver: Driver, work: Work) -> int:
        """The one that was promised a place, if there is one."""
        reserved = self._reserved.get(driver)
        if not reserved or work.undo:
            return next(self._tokens)
        token = reserved.get(work.node)
        if token is None or token in self._asking:
            return next(self._tokens)
        del reserved[work.node]
        return token

    def start(self, driver: Driver, work: Work, *, fetched: bool = False) -> None:
        """`fetched`: what it reads is here."""
        ahead = self._foresight.take(driver, work) if self._foresight.foreseen else None
        if ahead is not None:
            self._jobs[ahead] = (driver, work)
            self._by_attempt[driver, work.attempt] = ahead
            self._ran_ahead.add(ahead)
            return
        reads = bool(work.inputs) or work.refs is not None
        if reads and not fetched and self._fetching.holds_back(driver, work):
            return
        token = self._token(driver, work)
        self._jobs[token] = (driver, work)
        self._by_attempt[driver, work.attempt] = token
        try:
            job = self._maker.job(token, driver, work)
        except StorageError:
            self._take(token)
            raise
        except Lost:
            self._loop.post(lambda: self._reported(Ended(token, started=False)))
            return
        except Exception as error:
            problem: OnceflowError = UnpicklableArgument(work.node, "list", f"{type(error).__name__}: {error}")
            problem.__cause__ = error
            if isinstance(error, UnpicklableTask | InvalidOption):
                problem = error
            raised = Raised(token, failures.dump(problem, "the engine"), True, 0.0, 0.0, 0)
            self._loop.post(lambda: self._reported(raised))
            return
        self._pool.start(job, _live_inputs(work) if reads else None)
        timeout = work.call.settings.timeout
        if timeout is not None and not work.undo and work.failure is None:
            self._limit(token, timeout)

    def lose(self, objects: Collection[Object]) -> None:
        """These objects are lost. What was to read them and has not reached a worker is answered as ended, after their
        holders have been notified."""
        lost = frozenset(objects)
        for object in lost:
            object.lost = True
        self._tell_lost(lost)
        for token, (_, work) in list(self._jobs.items()):
            if self._pool.is_queued(token) and any(
                isinstance(part, Object) and part in lost for part in _read_by(work)
            ):
                self._pool.stop(token)

    def _variable(self, token: int, name: str, tell: Callable[[bytes | None], None]) -> None:
        """Returns what is committed there in the run of a job."""
        found = self._jobs.get(token) or self._foresight.whose(token)
        tell(None if found is None else found[0].variables.get(name))

    @property
    def pool(self) -> AnyPool:
        return self._pool

    def objects_in_use(self) -> set[Object]:
        """What attempts read now, or are about to, and what workers have mapped beyond that."""
        found = {part for _, work in self._jobs.values() for part in _read_by(work) if isinstance(part, Object)}
        return found | self._pool.lingering()

    def publish(self, object: Object, then: Then) -> None:
        """Have something written to shared memory that only its maker has. `then` is called later: with what was in the
        way, or None if nothing was or the object is lost."""
        if object.lost or object.place is not None:
            self._loop.post(lambda: then(None))
        else:
            self._pool.publish(object, then)

    def foresee(self, driver: Driver, work: Work, ahead: list[Ahead]) -> None:
        """Have these follow what was just started, as far as that pays."""
        leader = self._by_attempt.get((driver, work.attempt))
        if leader is None:  # it waits for what it reads
            return
        before = leader
        if not self._pool.is_short(self._maker.function_of(driver, work.call, undo=False)):
            return
        jobs: list[Job] = []
        for foreseen in ahead:
            token = next(self._tokens)
            try:
                job = self._maker.job(token, driver, foreseen.work)
            except Exception:  # the requester is notified
                break
            if not self._pool.is_short(job.function) or Live in map(type, job.inputs):
                break
            job.follows, job.fed = before, foreseen.fed
            jobs.append(job)
            before = token
        if jobs and self._pool.follow(leader, jobs):
            works = [foreseen.work for foreseen in ahead[: len(jobs)]]
            self._foresight.add(driver, zip(works, [job.token for job in jobs], strict=True))

    def _limit(self, token: int, timeout: float) -> None:
        """Stop a job that runs for too long. Its time begins when it is seen to run, not while it waits for its turn:
        it is looked at now and then."""
        pause = min(LONGEST_LOOK, max(SHORTEST_LOOK, timeout / 20))

        def look() -> None:
            if token not in self._jobs:
                return
            if self._pool.has_started(token):
                self._loop.later(timeout, stop)
            else:
                self._loop.later(pause, look)

        def stop() -> None:
            if token in self._jobs:
                self._timed_out[token] = timeout
                self._pool.stop(token)

        self._loop.later(SHORTEST_LOOK, look)

    def stop(self, driver: Driver, attempt: int) -> None:
        token = self._by_attempt.get((driver, attempt))
        if token is not None:
            self._ran_ahead.discard(token)
            self._pool.stop(token)
        elif (work := self._fetching.stop(driver, attempt)) is not None:
            self.unused(driver, work.node)
            self._loop.post(lambda: self._pass_on(driver, work, Ended(0, started=False)))

    def withdraw(self, driver: Driver, attempt: int) -> None:
        token = self._by_attempt.get((driver, attempt))
        if token is not None:
            self._pool.withdraw(token)
        else:
            self.stop(driver, attempt)  # it waits for what it reads

    def halt(self) -> None:
        """Start nothing more, whatever was asked for. From any thread."""
        self._pool.halt()

    def look(self, driver: Driver, attempt: int) -> Look | None:
        """At an attempt that was started and has not been answered."""
        token = self._by_attempt.get((driver, attempt))
        if token is None:
            is_fetched = self._fetching.has(driver, attempt)
            return Look(needs="saved values to be read") if is_fetched else None
        started = self._pool.started(token)
        if started is not None:
            return Look(started, self._progress.get(token))
        if not self._pool.lacks_room(token):
            return Look()
        missing = ": no node of the cluster has that" if self._pool.exceeds(token) else ""
        return Look(needs=_needs(self._jobs[token][1].call) + missing)

    def running(self, driver: Driver) -> list[Work]:
        jobs = [self._jobs.get(token) for token in self._pool.running()]
        return [job[1] for job in jobs if job is not None and job[0] is driver]

    @property
    def backlog(self) -> int:
        return len(self._jobs) + len(self._asking) + len(self._fetching.waiting) + self.errands.delegated

    def has_jobs_of(self, run: str) -> bool:
        """Whether a worker has yet to end something of this run. From any thread."""
        return (
            any(driver.id == run for driver, _ in list(self._jobs.values()))
            or self._foresight.has_jobs_of(run)
            or self._fetching.has_any_of(run)
        )

    def forget(self, driver: Driver, then: Callable[[], None]) -> None:
        """The driver has come to its end. Calls `then` when nothing runs any more that it only foresaw."""
        self._maker.forget(driver)
        for token in self._reserved.pop(driver, {}).values():
            self._asking.pop(token, None)
            self._reservations.release(token)
        if driver in self._foresight.foreseen or driver in self._foresight.unasked:
            self._stop_ahead(driver)
            self._foresight.when_free(driver, then)
        else:
            then()

    def turn(self) -> float | None:
        look = self._actors.turn() if self._actors.used else None
        timeout = self._pool.turn()
        if self._asking and self._admit_next():
            timeout = 0  # what does not start after all has left its place to the next
        if look is not None:
            timeout = look if timeout is None else min(timeout, look)
        if not self._recording.on or not self._jobs:
            return timeout
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + engine_log.SOON
            self._tell_starts(time.time() - engine_log.SOON)
        return engine_log.SOON if timeout is None else min(timeout, engine_log.SOON)

    def _tell_starts(self, before: float) -> None:
        """Of attempts that began to run before this, and go on."""
        for token in self._pool.running():
            started = self._pool.started(token)
            if token in self._jobs and token not in self._told and started is not None and started <= before:
                self._told.add(token)
                driver, work = self._jobs[token]
                self._recording.tell_start(driver.id, work, started)

    def statistics(self) -> Statistics:
        found = self._pool.statistics()
        return msgspec.structs.replace(found, actors=len(self._actors), queued=found.queued + len(self._asking))

    def close(self) -> None:
        if self._recording.on:
            self._tell_starts(math.inf)
        self._pool.close()
        self._foresight.close()

    def _reported(self, report: Report) -> None:
        if type(report) is Finished and report.token in self._jobs:  # as most are
            self._pass_on_asked(report)
            return
        match report:
            case Died(tokens, worker, status, blame):
                for token in tokens:
                    if self._actors.is_host(token):
                        self._actors.host_ended(token)
                    elif token in self.errands:
                        self.errands.came_back(token, report)
                    elif token in self._jobs:
                        driver, work = self._take(token)
                        self._pass_on(driver, work, Died((token,), worker, status, blame))
                        self._actors.job_ended(token)
                    else:
                        self._ended_unasked(token)
            case _ if self._actors.is_host(report.token):
                self._actors.host_ended(report.token)
            case _ if report.token in self.errands:
                self.errands.came_back(report.token, report)
            case _ if report.token not in self._jobs:
                self._ended_unasked(report.token)
            case Ended(token, False) if token in self._ran_ahead:
                self.start(*self._take(token))  # it has not run, because of what was before it
            case Ended(token) if token in self._timed_out:
                timeout = self._timed_out[token]
                driver, work = self._take(token)
                failure = failures.dump(TaskTimedOut(work.node, timeout), "the engine")
                self._pass_on(driver, work, Raised(token, failure, False, 0.0, 0.0, 0, here=True))
                self._actors.job_ended(token)
            case _:
                self._pass_on_asked(report)

    def _pass_on_asked(self, report: Finished | Raised | MetLost | Ended) -> None:
        driver, work = self._take(report.token)
        self._pass_on(driver, work, report)
        if self._actors.used:
            self._actors.job_ended(report.token)
        if driver in self._foresight.foreseen and self._foresight.expects(driver, work.attempt + 1):
            self._stop_ahead(driver)

    def _pass_on(self, driver: Driver, work: Work, report: Report) -> None:
        if self._recording.on:
            self._recording.tell_end(driver.id, work, report)
        if type(report) is Finished and report.refs and any(ref.actor is not None for ref in report.refs):
            self._return_actors(driver, work, report)
        else:
            self._answer(driver, work, report)

    def _return_actors(self, driver: Driver, work: Work, report: Finished) -> None:
        held = [
            ref if ref.actor is None else msgspec.structs.replace(ref, actor=self._actors.returned(ref.actor))
            for ref in report.refs
        ]
        self._answer(driver, work, msgspec.structs.replace(report, refs=held))
        for ref in held:
            if ref.actor is not None and ref.actor.dead:
                driver.lost_actor(ref.actor)

    def _ended_unasked(self, token: int) -> None:
        self._maker.ended(token)
        if self._printing is not None:
            self._printing.end(token)
        self._foresight.ended(token)

    def _printed(self, pieces: list[Printed]) -> None:
        assert self._printing is not None
        for piece in pieces:
            job = self._jobs.get(piece.token)
            if job is not None:
                driver, work = job
                self._printing.add(piece, driver.id, work.node, attempt_name(work.attempt), undo=work.undo)
            elif (ahead := self._foresight.whose(piece.token)) is not None:
                driver, node, attempt = ahead
                self._printing.add(piece, driver.id, node, attempt_name(attempt))
            elif (answered := self._answered.get(piece.token)) is not None:
                run, node, attempt, undo = answered
                self._printing.add(piece, run, node, attempt_name(attempt), undo=undo)
            else:
                self._printing.add(piece, "", "", "")

    def _stop_ahead(self, driver: Driver) -> None:
        for token in self._foresight.give_up(driver):
            self._pool.stop(token)

    def _progressed(self, told: Progressed) -> None:
        found = self._jobs.get(told.token)
        if found is not None:  # else it has not been asked for yet
            progress = self._progress[told.token] = Progress(told.done, told.total, told.note)
            self._tell_progress(*found, progress)

    def _take(self, token: int) -> tuple[Driver, Work]:
        if self._progress:
            self._progress.pop(token, None)
        self._timed_out.pop(token, None)
        self._ran_ahead.discard(token)
        self._told.discard(token)
        if self._maker.opened:
            self._maker.ended(token)
        if self._printing is not None and self._printing.rests:
            self._printing.end(token)
        if token in self._reservations.promised:  # no worker has it
            self._reservations.release(token)
        driver, work = self._jobs.pop(token)
        del self._by_attempt[driver, work.attempt]
        if self._is_cluster:
            self._answered[token] = (driver.id, work.node, work.attempt, work.undo)
            if len(self._answered) > ANSWERED:
                del self._answered[next(iter(self._answered))]
        return driver, work


def _read_by(work: Work) -> Iterable[Part]:
    return work.inputs if work.refs is None else [*work.inputs, *work.refs.contents]


def _live_inputs(work: Work) -> dict[int, Object]:
    """What it reads and only its maker has, by number."""
    parts = [part for part in _read_by(work) if isinstance(part, Object)]
    return {part.live.number: part for part in parts if part.live and not part.place}


def _needs(call: Call) -> str:
    settings = call.settings
    cpus = [] if settings.cpus is None else [f"{settings.cpus:g} cpus"]
    memory = [f"{settings.memory / 1e6:.0f} MB of memory"] if settings.memory else []
    resources = [f"{amount:g} {name}" for name, amount in settings.resources]
    node = [f"node {settings.placement}"] if settings.placement not in ("", "spread") else []
    return " and ".join([*cpus, *memory, *resources, *node])
