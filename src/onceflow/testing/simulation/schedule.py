"""The seeded scheduler: picks any step that is enabled, and any fault within a budget, until the run is over.

Every schedule draws its own tempo: how eagerly the journal commits, saves complete, attempts finish, ends are proved. A
slow journal or slow saves lead into states that a uniform choice would hardly reach. Faults are budgeted, so every
schedule must come to an end; one that has nothing left to do before that is a violation, too.

The source of choices is anything like `random.Random`, so that hypothesis can make and shrink them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from onceflow.core import commands, events
from onceflow.core.definitions import each
from onceflow.core.graph import Graph
from onceflow.core.refs import RefPart
from onceflow.core.run import Run
from onceflow.testing.simulation.attempts import Attempt
from onceflow.testing.simulation.checker import Checker
from onceflow.testing.simulation.driver import Driver, OnFailure
from onceflow.testing.simulation.referring import Referring
from onceflow.testing.simulation.rows import Saving
from onceflow.testing.simulation.story import Story
from onceflow.testing.simulation.world import Violation

LONGEST = 5_000
"""Steps. No schedule with a budget of a few dozen faults comes near it."""
REMEMBERED = 8
"""Events that may be delivered a second time."""

Step = Callable[[], None]
Choice = TypeVar("Choice")
TEMPI = (0.05, 0.3, 1.0, 1.0, 3.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a schedule ended."""

    status: str
    steps: int
    epochs: int
    faults: int


class Simulation:
    """One run of a graph under one schedule. `run` raises `Violation`; `driver.story` tells how it came to that."""

    def __init__(
        self,
        graph: Graph,
        random: Random,
        *,
        faults: int | None = None,
        letter: bool = True,
        run_class: type[Run] = Run,
        validate: bool = False,
        refs: bool = True,
        actors: bool = False,
    ) -> None:
        self.random = random
        on_failure: OnFailure = "undo" if random.random() < 0.4 else "keep"
        self.driver = Driver(graph, run_class, on_failure, validate, Checker(letter), Story())
        self.budget = random.choice((0, 1, 2, 3, 4, 6, 8, 12)) if faults is None else faults
        self.resumes = random.randrange(3)
        self.stubborn = random.choice((0, 0, 0, 0, 5, 10))
        self.repeats = random.randrange(4)
        self.cancels = random.choice((0, 0, 1, 2))
        self.fault_rate = random.choice((0.03, 0.1, 0.3))
        self.handlers = random.random() < 0.7
        """Do handlers answer for some of what is raised?"""
        self.steps = 0
        self.faults = 0
        self._tempi = [*[random.choice(TEMPI) for _ in range(8)], 1.0]
        self._remembered: list[events.Event] = []
        self._parked_when_loaded = False
        self._gave_up = False
        self._referring = Referring(random, actors) if refs else None

    def run(self) -> Outcome:
        """From the beginning to the end."""
        self.begin()
        while self.step():
            if self.steps > LONGEST:
                raise Violation(f"the run does not come to an end: {self.driver.run.status} after {self.steps} steps")
        return Outcome(self.driver.run.status, self.steps, self.driver.epoch, self.faults)

    def begin(self) -> None:
        """What comes before the first step."""
        self.driver.begin()
        self.driver.checker.after_step(self.driver)

    def step(self) -> bool:
        """The next step. False if there is none, because the run is over."""
        step = self._next()
        if step is None:
            return False
        step()
        self.driver.checker.after_step(self.driver)
        self.steps += 1
        return True

    def _next(self) -> Step | None:
        driver = self.driver
        if driver.over is not None:
            return self._after_the_end()
        if self.budget > 0 and self.random.random() < self.fault_rate:
            fault = self._fault()
            if fault is not None:
                self.faults += 1
                self.budget -= 1
                return fault
        step = self._ordinary_step()
        if step is None:
            raise Violation(f"nothing is left to do, but the run is {driver.run.status}")
        return step

    def _after_the_end(self) -> Step | None:
        """A run that did not succeed may be resumed, by another engine."""
        over = self.driver.over
        if over is None or over.status == "succeeded" or self.resumes <= 0:
            return None
        self.resumes -= 1
        return self._resume

    def _resume(self) -> None:
        self.crash()
        self.driver.over = None
        self.driver.resume(self._tried_again())

    def _tried_again(self) -> tuple[str, ...]:
        """Some outcomes that handlers gave, or that nobody can notice to be another one, and on which nothing is built:
        they are dropped."""
        driver = self.driver
        found = [
            id
            for id, row in driver.run.rows.items()
            if (version := driver.rows[id].version) is not None
            and (version.handled or row.effect == "none")
            and self.random.random() < 0.5
        ]
        return tuple([row.id for row in driver.run.droppable(found)])

    def crash(self, asleep: bool = False) -> None:
        """The engine dies; what attempts survive is a matter of luck."""
        driver = self.driver
        if driver.over is None:
            self._remembered += [events.Saved(s.attempt.node, s.part, s.attempt.number) for s in driver.saves[:1]]
        self._gave_up = False
        driver.crash(lambda _: self.random.random() < 0.5, asleep)
        if driver.durable.finished is not None:
            if driver.run.status != driver.durable.finished:
                raise Violation(f"loaded as {driver.run.status}, but the journal says {driver.durable.finished}")
            driver.over = commands.Finish(driver.durable.finished)
        self._parked_when_loaded = bool(driver.durable.parked) and driver.durable.finished is None
        if self._parked_when_loaded:
            if driver.run.status != "parked" or driver.waiting:
                raise Violation("the run was parked, but does not wait for a person after it was loaded")
            driver.parked = sorted(driver.durable.parked)

    # Ordinary steps

    def _ordinary_step(self) -> Step | None:
        """Any enabled step, by the tempi of this schedule."""
        driver = self.driver
        kinds: list[list[Step]] = [[] for _ in range(9)]
        committing, carrying, landing, ending, saving, elapsing, proving, nudging, admitting = kinds
        if driver.uncommitted():
            committing.append(self._commit)
        for waiting in driver.waiting:
            if waiting.needs <= driver.committed:
                carrying.append(lambda waiting=waiting: driver.carry_out(waiting))  # type: ignore[misc]
        for attempt in driver.active:
            if attempt.effectful and not attempt.landed:
                landing.append(lambda attempt=attempt: driver.land(attempt))  # type: ignore[misc]
            if attempt.state == "running" and (attempt.landed or not attempt.effectful):
                ending.append(lambda attempt=attempt: self._finish(attempt))  # type: ignore[misc]
            if attempt.state in ("silent", "stopping"):
                proving.append(lambda attempt=attempt: self._end(attempt))  # type: ignore[misc]
        for saving_part in driver.saves:
            saving.append(lambda saving=saving_part: self._save(saving))  # type: ignore[misc]
        for timer in driver.timers:
            elapsing.append(lambda timer=timer: self._elapse(timer))  # type: ignore[misc]
        for node in driver.asking:
            admitting.append(lambda node=node: driver.admit(node))  # type: ignore[misc]
        if driver.parked:
            nudging.append(self._retry_undo)
        if driver.run.status == "stopping" and driver.appended.cancelled is not None and not self._gave_up:
            nudging.append(self._give_up)
        weights = [tempo if kind else 0.0 for tempo, kind in zip(self._tempi, kinds, strict=True)]
        total = sum(weights)
        if total == 0:
            return None
        if self.repeats and self._remembered and self.random.random() < 0.03:
            self.repeats -= 1
            return self._repeat
        point = self.random.random() * total
        for weight, kind in zip(weights, kinds, strict=True):
            point -= weight
            if weight and point <= 0:
                return self._pick(kind)
        return self._pick(max(kinds, key=len))

    def _pick(self, choices: list[Choice]) -> Choice:
        return choices[self.random.randrange(len(choices))]

    def _commit(self) -> None:
        left = self.driver.uncommitted()
        self.driver.commit(left if self.random.random() < 0.5 else 1 + self.random.randrange(left))

    def _finish(self, attempt: Attempt) -> None:
        if attempt.kind == "undo":
            self._finish_undo(attempt)
            return
        graph = attempt.graph = self._graph_of(attempt)
        refs = self._refs_of(attempt)
        joined = self._joined_by(attempt)
        self._remember(events.Finished(attempt.node, attempt.number, graph, refs=refs, joined=joined))
        self.driver.finish(attempt, graph, self.random.random() < 0.5, refs, joined)

    def _finish_undo(self, undo: Attempt) -> None:
        """In some schedules undos raise again and again, until a person is needed."""
        if self.stubborn and undo.state == "running":
            self.stubborn -= 1
            self.driver.end_undo(undo, succeeded=False)
        else:
            self._remember(events.Undone(undo.node, undo.number))
            self.driver.end_undo(undo, succeeded=True)

    def _graph_of(self, attempt: Attempt) -> Graph | None:
        """One of the graphs the task may return; always the same one for the same inputs if it is deterministic."""
        alternatives = attempt.task.call
        if not alternatives:
            return None
        choice = self.random.randrange(len(alternatives))
        if attempt.task.options.deterministic:
            key = (attempt.node, hash(tuple(attempt.inputs.items())))
            choice = self.driver.values.chosen.setdefault(key, choice)
        graph: Graph | None = alternatives[choice]
        return graph

    def _refs_of(self, attempt: Attempt) -> tuple[RefPart, ...]:
        """As with the graphs; a task that is not deterministic may return other refs each time."""
        if self._referring is None:
            return ()
        if not attempt.task.options.deterministic:
            return self._referring.pick(attempt)
        key = (attempt.node, hash(tuple(attempt.inputs.items())))
        if key not in self.driver.values.refs:
            self.driver.values.refs[key] = self._referring.pick(attempt)
        return self.driver.values.refs[key]

    def _joined_by(self, attempt: Attempt) -> tuple[str, ...]:
        """What stands aside, has come to its end and is joined by this attempt, if that looks like a wait."""
        driver, options = self.driver, attempt.task.options
        is_wait = options.effect == "none" and not (options.deterministic or options.writes) and options.checkpoint
        if not driver.structure.aside or not is_wait or attempt.graph is not None or attempt.state != "running":
            return ()
        if attempt.kind != "run" or attempt.node not in driver.run.rows:
            return ()
        ended = [
            child
            for child, end in driver.structure.aside.items()
            if driver.rows[end].version is not None and driver.run.may_join(attempt.node, child)
        ]
        return tuple([child for child in ended if self.random.random() < 0.5])

    def _end(self, attempt: Attempt) -> None:
        """A stopped or lost attempt ends: usually by proof, sometimes it turns out to have been quicker."""
        ran = attempt.launched and (attempt.landed or not attempt.effectful)
        if not ran or self.random.random() < 0.7:
            self._remember(events.Ended(attempt.node, attempt.number))
            self.driver.prove_end(attempt)
        elif self.random.random() < 0.5 and attempt.kind != "undo":
            self.driver.fail(attempt, permanent=False)
        else:
            self._finish(attempt)

    def _save(self, saving: Saving) -> None:
        self._remember(events.Saved(saving.attempt.node, saving.part, saving.attempt.number))
        self.driver.save(saving, "saved")

    def _elapse(self, timer: commands.Wait) -> None:
        self.driver.timers.remove(timer)
        self._tell(events.Elapsed(timer.node, timer.attempt))

    def _retry_undo(self) -> None:
        driver = self.driver
        node = driver.parked.pop(self.random.randrange(len(driver.parked)))
        if self._parked_when_loaded:
            self._parked_when_loaded = False
            driver.parked.clear()
            driver.deliver(events.Resume())
        elif self.random.random() < 0.3:
            self.crash()
        else:
            driver.deliver(events.RetryUndo(node))

    def _give_up(self) -> None:
        self._gave_up = True
        self.driver.deliver(events.GiveUp())

    def _tell(self, event: events.Event) -> None:
        self._remember(event)
        self.driver.deliver(event)

    def _remember(self, event: events.Event) -> None:
        self._remembered.append(event)
        del self._remembered[:-REMEMBERED]

    def _repeat(self) -> None:
        """An event arrives a second time, or after the engine that waited for it has gone. Nothing may come of it."""
        event = self._pick(self._remembered)
        if isinstance(event, events.Saved) and self._is_asked_again(event):
            return
        answered = self.driver.deliver(event)
        if answered:
            raise Violation(f"{event} was delivered before, and was answered again")

    def _is_asked_again(self, event: events.Saved) -> bool:
        """A ref that was lost and is shared again is saved again, under the same name: this would be the answer."""
        key = (event.node, event.part, event.attempt)
        return key in [(saving.attempt.node, saving.part, saving.attempt.number) for saving in self.driver.saves]

    # Faults

    def _fault(self) -> Step | None:
        faults = [
            self._raise,
            self._raise,
            self._answer,
            self._answer,
            self._answer_for,
            self._answer_for,
            self._fail_save,
            self._fail_undo,
            self._lose_worker,
            self._lose_worker,
            self._lose_output,
            self._lose_everything,
            self._crash,
            self._cancel,
            self._crash_and_cancel,
            self._limit,
            self._nonsense,
        ]
        if self._referring is not None:
            faults += [self._lose_object, self._lose_object]
        if any(row.scope.depth for row in self.driver.run.rows.values()):
            faults.append(self._expire)
        first = self.random.randrange(len(faults))
        for fault in faults[first:] + faults[:first]:
            step = fault()
            if step is not None:
                return step
        return None

    def _running(self, *kinds: str) -> list[Attempt]:
        return [a for a in self.driver.active if a.state == "running" and a.kind in kinds]

    def _raise(self) -> Step | None:
        running = self._running("run", "private")
        if not running:
            return None
        attempt = self._pick(running)
        permanent = attempt.kind == "run" and self.random.random() < 0.2
        again = attempt.kind == "run" and self.handlers and self.random.random() < 0.2
        self._remember(events.Raised(attempt.node, attempt.number, permanent, again))
        return lambda: self.driver.fail(attempt, permanent, again)

    def _answer(self) -> Step | None:
        """An attempt raises, and a handler gives an output."""
        running = self._running("run")
        if not running or not self.handlers:
            return None
        attempt = self._pick(running)
        small = self.random.random() < 0.5
        self._remember(events.Finished(attempt.node, attempt.number, None, small, handled=True))
        return lambda: self.driver.answer(attempt, small)

    def _answer_for(self) -> Step | None:
        """An attempt raises, and a handler answers for a graph around it: that is tried again, or ends."""
        running = [attempt for attempt in self._running("run") if attempt.node in self.driver.run.rows]
        if not running or not self.handlers:
            return None
        attempt = self._pick(running)
        depth = self.driver.run.rows[attempt.node].scope.depth
        ends = self.random.randrange(depth + 1)
        again = ends > 0 and self.random.random() < 0.3
        if again:
            failed = ends
        elif self.random.random() < 0.4 or ends == depth == 0:
            failed, ends = -1, depth
        else:
            failed = max(1, ends + self.random.randrange(2)) if depth else -1
            failed = min(failed, depth)
        small = self.random.random() < 0.5
        self._remember(events.Ends(attempt.node, attempt.number, failed, ends, again, small))
        return lambda: self.driver.answer_for(attempt, failed, ends, again, small)

    def _expire(self) -> Step | None:
        """The time of a returned graph is over."""
        nested = [row for row in self.driver.run.rows.values() if row.scope.depth and row.id in self.driver.rows]
        if not nested or not self.handlers:
            return None
        row = self._pick(nested)
        ends = 1 + self.random.randrange(row.scope.depth)
        small = self.random.random() < 0.5
        return lambda: self.driver.expire(row.id, ends, small)

    def _fail_undo(self) -> Step | None:
        running = self._running("undo")
        if not running:
            return None
        undo = self._pick(running)
        return lambda: self.driver.end_undo(undo, succeeded=False)

    def _fail_save(self) -> Step | None:
        if not self.driver.saves:
            return None
        saving = self._pick(self.driver.saves)
        permanent = self.random.random() < 0.15
        return lambda: self.driver.save(saving, "impossible" if permanent else "failed")

    def _in_memory(self) -> list[events.Part]:
        return [
            (node, part)
            for node, row in self.driver.rows.items()
            for part in each(row.memory | (row.private.every_part if row.private else 0))
        ]

    def _lose_output(self) -> Step | None:
        parts = self._in_memory()
        if not parts:
            return None
        return self._lose([self._pick(parts)], [])

    def _lose_object(self) -> Step | None:
        """One object is lost to all that share it."""
        by_object: dict[events.Part, list[events.Part]] = {}
        for part in self._in_memory():
            by_object.setdefault(self.driver.made_as(*part), []).append(part)
        shared = [parts for parts in by_object.values() if len(parts) > 1]
        return self._lose(self._pick(shared), []) if shared else None

    def _lose_worker(self) -> Step | None:
        parts = [part for part in self._in_memory() if self.random.random() < 0.5]
        attempts = [a for a in self._running("run", "private", "undo") if self.random.random() < 0.5]
        return self._lose(parts, attempts) if parts or attempts else None

    def _lose_everything(self) -> Step | None:
        parts, attempts = self._in_memory(), self._running("run", "private", "undo")
        return self._lose(parts, attempts) if parts or attempts else None

    def _lose(self, parts: list[events.Part], attempts: list[Attempt]) -> Step:
        """A save of a lost part may still complete, or fail, or never be heard of again."""
        driver = self.driver
        driver.saves = [
            saving
            for saving in driver.saves
            if (saving.attempt.node, saving.part) not in parts or self.random.random() < 0.5
        ]
        return lambda: driver.lose(parts, attempts)

    def _crash(self) -> Step | None:
        return self.crash

    def _cancel(self) -> Step | None:
        if not self.cancels or self.driver.run.status != "running":
            return None
        self.cancels -= 1
        undo = self.random.random() < 0.5
        return lambda: self._deliver(events.Cancel(undo))

    def _crash_and_cancel(self) -> Step | None:
        """Whoever loads the run next does so to cancel it: nothing more has begun then."""
        if not self.cancels or self.driver.run.status != "running":
            return None
        self.cancels -= 1
        undo = self.random.random() < 0.5

        def step() -> None:
            self.crash(asleep=True)
            if self.driver.over is None:
                self._parked_when_loaded = False  # nobody needs to resume it any more
                self.driver.parked.clear()
                self.driver.deliver(events.Cancel(undo))
                held = [waiting.attempt for waiting in self.driver.waiting if waiting.attempt is not None]
                if any(attempt.kind == "run" for attempt in [*held, *self._running("run")]):
                    raise Violation("a run that was loaded to be cancelled starts something")

        return step

    def _limit(self) -> Step | None:
        groups = sorted(self.driver.run.groups)
        if not groups:
            return None
        event = events.Limit(self._pick(groups), 1 + self.random.randrange(3))
        return lambda: self._deliver(event)

    def _deliver(self, event: events.Event) -> None:
        self.driver.deliver(event)

    def _nonsense(self) -> Step | None:
        """Something that cannot have happened: an attempt that was never started, a node that does not exist."""
        node = self._pick(list(self.driver.rows))
        never = (self.driver.epoch + 1) << 48
        nonsense: list[events.Event] = [
            events.Finished(node, never),
            events.Raised(node, never),
            events.Undone(node, never),
            events.Saved(node, 0, never),
            events.Finished("nowhere", 1),
        ]
        event = self._pick(nonsense)
        return lambda: self.driver.deliver_nonsense(event)
