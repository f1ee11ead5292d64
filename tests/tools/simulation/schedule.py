"""The seeded scheduler: picks any step that is enabled, and any fault within a budget, until the run is over.

Every schedule draws its own tempo: how eagerly the journal commits, saves complete, attempts finish, ends are proved. A
slow journal or slow saves lead into states that a uniform choice would hardly reach. Faults (`faults`) are budgeted, so
every schedule must come to an end; one that has nothing left to do before that is a violation, too.

The source of choices is anything like `random.Random`, so that hypothesis can make and shrink them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeVar

from onceflow.core.model import commands, events
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart
from onceflow.core.rules import loading, starting
from onceflow.core.run import Run
from tests.tools.simulation.attempts import Attempt
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver, OnFailure
from tests.tools.simulation.faults import Faults
from tests.tools.simulation.referring import Referring
from tests.tools.simulation.rows import Saving
from tests.tools.simulation.story import Story
from tests.tools.simulation.world import Violation

LONGEST = 50_000
"""Steps. No schedule with a budget of a few dozen faults comes near it, although graphs may be nested deeply."""
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
        driver_class: type[Driver] = Driver,
        validate: bool = False,
        refs: bool = True,
        actors: bool = False,
    ) -> None:
        self.random = random
        on_failure: OnFailure = "undo" if random.random() < 0.4 else "keep"
        self.driver = driver_class(graph, run_class, on_failure, validate, Checker(letter), Story())
        self.resumes = random.randrange(4)
        self.stubborn = random.choice((0, 0, 0, 0, 5, 10))
        self.repeats = random.randrange(4)
        self.steps = 0
        self._tempi = [*[random.choice(TEMPI) for _ in range(8)], 1.0]
        self._remembered: list[events.Event] = []
        self._parked_when_loaded = False
        self._gave_up = False
        self._patient = random.random() < 0.5
        """What gives the result of a graph waits for what stands aside there, as a fiber does."""
        self._referring = Referring(random, actors) if refs else None
        self.faults = Faults(self, shared=refs, budget=faults)

    def run(self) -> Outcome:
        """From the beginning to the end."""
        self.begin()
        while self.step():
            if self.steps > LONGEST:
                raise Violation(f"the run does not come to an end: {self.driver.run.status} after {self.steps} steps")
        return Outcome(self.driver.run.status, self.steps, self.driver.epoch, self.faults.count)

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
        fault = self.faults.next()
        if fault is not None:
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
        return tuple([row.id for row in loading.droppable(driver.run, found)])

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
        self.faults.crashed()
        if self._parked_when_loaded:
            if driver.run.status != "parked" or driver.waiting:
                raise Violation("the run was parked, but does not wait for a person after it was loaded")
            driver.parked = sorted(driver.durable.parked)

    def crash_and_cancel(self, undo: bool) -> None:
        """Whoever loads the run next does so to cancel it: nothing more has begun then."""
        self.crash(asleep=True)
        if self.driver.over is None:
            self._parked_when_loaded = False  # nobody needs to resume it any more
            self.driver.parked.clear()
            self.driver.deliver(events.Cancel(undo))
            held = [waiting.attempt for waiting in self.driver.waiting if waiting.attempt is not None]
            running = [attempt for attempt in self.driver.active if attempt.state == "running"]
            if any(attempt.kind == "run" for attempt in [*held, *running]):
                raise Violation("a run that was loaded to be cancelled starts something")

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
                carrying.append(partial(driver.carry_out, waiting))
            if waiting.attempt is not None and waiting.attempt.withdrawn:
                proving.append(partial(self._hand_back, waiting.attempt))
        for attempt in driver.active:
            ready = attempt.landed or not attempt.effectful
            if not ready:
                landing.append(partial(driver.land, attempt))
            elif attempt.state == "running" and not (self._patient and self._waits(attempt)):
                ending.append(partial(self._finish, attempt))
            if attempt.state in ("silent", "stopping"):
                proving.append(partial(self._end, attempt))
            elif attempt.withdrawn and not attempt.landed:
                proving.append(partial(self._hand_back, attempt))
        for saving_part in driver.saves:
            saving.append(partial(self._save, saving_part))
        for timer in driver.timers:
            elapsing.append(partial(self._elapse, timer))
        for node in driver.asking:
            admitting.append(partial(driver.admit, node))
        if driver.parked:
            nudging.append(self._retry_undo)
        if driver.appended.cancelled is not None and not self._gave_up and driver.run.status == "stopping":
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
                return self.pick(kind)
        return self.pick(max(kinds, key=len))

    def pick(self, choices: list[Choice]) -> Choice:
        """One of these."""
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
        self.remember(events.Finished(attempt.node, attempt.number, graph, refs=refs, joined=joined))
        self.driver.finish(attempt, graph, self.random.random() < 0.5, refs, joined)

    def _finish_undo(self, undo: Attempt) -> None:
        """In some schedules undos raise again and again, until a person is needed."""
        if self.stubborn and undo.state == "running":
            self.stubborn -= 1
            self.driver.end_undo(undo, succeeded=False)
        else:
            self.remember(events.Undone(undo.node, undo.number))
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

    def _waits(self, attempt: Attempt) -> bool:
        """Whether it has to wait for what stands aside in the graph that it gives the result of."""
        driver = self.driver
        if not self._may_join(attempt) or attempt.task.call or driver.run.status != "running":
            return False
        expander = driver.structure.member(attempt.node).expander
        if expander is None or driver.structure.result_of(expander) != attempt.node:
            return False
        aside = [child for child in driver.structure.aside if driver.structure.member(child).expander == expander]
        return not all(starting.may_join(driver.run, child) for child in aside)

    def _may_join(self, attempt: Attempt) -> bool:
        """Whether something stands aside, and the attempt looks like a wait."""
        driver, options = self.driver, attempt.task.options
        if not driver.structure.aside:
            return False
        is_wait = options.effect == "none" and not (options.deterministic or options.writes) and options.checkpoint
        if not is_wait or attempt.graph is not None or attempt.state != "running":
            return False
        return attempt.kind == "run" and attempt.node in driver.run.rows

    def _joined_by(self, attempt: Attempt) -> tuple[str, ...]:
        """What stands aside, has come to its end and is joined by this attempt, if that looks like a wait."""
        driver = self.driver
        if not self._may_join(attempt):
            return ()
        ended = [
            child
            for child in sorted(driver.structure.aside)
            if driver.rows[child].version is not None and starting.may_join(driver.run, child)
        ]
        return tuple([child for child in ended if self.random.random() < 0.5])

    def _end(self, attempt: Attempt) -> None:
        """A stopped or lost attempt ends: usually by proof, sometimes it turns out to have been quicker."""
        ran = attempt.launched and (attempt.landed or not attempt.effectful)
        if not ran or self.random.random() < 0.7:
            started = ran or self.random.random() < 0.5
            self.remember(events.Ended(attempt.node, attempt.number, started))
            self.driver.prove_end(attempt, started)
        elif self.random.random() < 0.5 and attempt.kind != "undo":
            self.driver.fail(attempt, permanent=False)
        else:
            self._finish(attempt)

    def _hand_back(self, attempt: Attempt) -> None:
        self.remember(events.Ended(attempt.node, attempt.number, started=False))
        self.driver.hand_back(attempt)

    def _save(self, saving: Saving) -> None:
        self.remember(events.Saved(saving.attempt.node, saving.part, saving.attempt.number))
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
        self.remember(event)
        self.driver.deliver(event)

    def remember(self, event: events.Event) -> None:
        """It may be delivered a second time."""
        self._remembered.append(event)
        del self._remembered[:-REMEMBERED]

    def _repeat(self) -> None:
        """An event arrives a second time, or after the engine that waited for it has gone. Nothing may come of it."""
        event = self.pick(self._remembered)
        if isinstance(event, events.Saved) and self._is_asked_again(event):
            return
        answered = self.driver.deliver(event)
        if answered:
            raise Violation(f"{event} was delivered before, and was answered again")

    def _is_asked_again(self, event: events.Saved) -> bool:
        """A ref that was lost and is shared again is saved again, under the same name: this would be the answer."""
        key = (event.node, event.part, event.attempt)
        return key in [(saving.attempt.node, saving.part, saving.attempt.number) for saving in self.driver.saves]
