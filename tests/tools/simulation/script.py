"""A schedule as text: one step a line, in the words of a test. What the simulation has found is written down with
`record`, and played with `play_script`, again and again, whatever the seeds play by then.

    finish b                 the attempt of b returns. `finish b as 1 holding new a.1 joining f/x`: the graph with this
                             number, these refs, what stands aside and is joined; `large`: not small
    fail b                   it raises. `for good`: trying again cannot help; `again`: a handler wants it to be repeated
                             `unstarted`: its time was over before it started
    answer b                 it raises, and a handler gives an output (`large`: not a small one)
    answer b for 1           it raises, and a handler answers for the graph at this depth; `failing 2`: whose failure
                             that is, `failing -1` of the task alone; `again`: to be tried again
    expire b/x at 1          the time of the graph at this depth around the node is over
    save b.1                 the part is saved; `fails`, or `fails for good`
    lose b c.1               these parts are lost; `running d e`: and these attempts; `saving b`: the saves that go on
    crash                    `keeping d e`: these attempts survive; `asleep`: the next engine only loads the run
    resume                   `again a b`: what is tried again
    undone b, undo b fails   an undo ends
    end b                    it is proved that a stopped or lost attempt runs no more
    commit, commit 2         all records, or so many, become durable
    carry out start b        a durable command is carried out; also `undo`, `drop`, `park`, `finish`
    land b                   the effect of the attempt is in the world
    admit b, elapse b, cancel, cancel with undo, give up, limit b 2, retry b

An attempt is named by its node: the one that runs; `b!late` is one that was stopped or lost, `b!private` one that is
run for an undo, `b!undo` an undo; `#2` the second of several. A script is played leniently: what is not possible is
left out, and what has to come before a step is done before it (an attempt is carried out before it finishes). So a
script stays a test when the rules change. At its end everything is answered as well as can be, until the run is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from onceflow.core.model import commands, events
from onceflow.core.model.graph import Graph
from onceflow.core.model.refs import RefPart
from onceflow.core.rules import loading, starting
from onceflow.core.run import Run
from tests.tools.simulation.attempts import Attempt
from tests.tools.simulation.checker import Checker
from tests.tools.simulation.driver import Driver, OnFailure
from tests.tools.simulation.notation import refs as read_refs
from tests.tools.simulation.notation import write_refs
from tests.tools.simulation.rows import Saving, Waiting
from tests.tools.simulation.story import Story
from tests.tools.simulation.world import Violation

LONGEST = 3_000
"""Steps after the end of the script within which the run must be over."""


class Recorder(Driver):
    """A driver that writes down what it is asked for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.script: list[str] = []
        self._depth = 0

    def _noting(self, line: Callable[[], str | None], act: Callable[[], Any]) -> Any:
        """Notes the outermost call only: what follows from a step is not part of the script."""
        if self._depth == 0:
            text = line()
            if text is not None:
                self.script.append(text)
        self._depth += 1
        try:
            return act()
        finally:
            self._depth -= 1

    def deliver(self, event: events.Event) -> int:
        said = super().deliver
        result: int = self._noting(lambda: _told(event), lambda: said(event))
        return result

    def admit(self, node: str) -> None:
        said = super().admit
        self._noting(lambda: f"admit {node}", lambda: said(node))

    def commit(self, count: int) -> None:
        said = super().commit
        everything = count == self.uncommitted()
        self._noting(lambda: "commit" if everything else f"commit {count}", lambda: said(count))

    def carry_out(self, waiting: Waiting) -> None:
        said = super().carry_out
        command = waiting.command
        about = "" if isinstance(command, commands.Finish) else f" {getattr(command, 'node', '')}"
        self._noting(lambda: f"carry out {type(command).__name__.lower()}{about}", lambda: said(waiting))

    def land(self, attempt: Attempt) -> None:
        said = super().land
        self._noting(lambda: f"land {self._name(attempt)}", lambda: said(attempt))

    def finish(
        self,
        attempt: Attempt,
        graph: Graph | None,
        small: bool,
        refs: tuple[RefPart, ...] = (),
        joined: tuple[str, ...] = (),
    ) -> None:
        said = super().finish

        def line() -> str:
            words = ["finish", self._name(attempt)]
            if attempt.task.call and len(attempt.task.call) > 1:
                words += ["as", str(next(n for n, each in enumerate(attempt.task.call) if each is graph))]
            words += ["holding", write_refs(refs)] if refs else []
            words += ["joining", *joined] if joined else []
            words += [] if small else ["large"]
            return " ".join(words)

        self._noting(line, lambda: said(attempt, graph, small, refs, joined))

    def fail(self, attempt: Attempt, permanent: bool, again: bool = False, started: bool = True) -> None:
        said = super().fail
        ends = " for good" * permanent + " again" * again + " unstarted" * (not started)
        self._noting(lambda: f"fail {self._name(attempt)}{ends}", lambda: said(attempt, permanent, again, started))

    def answer(self, attempt: Attempt, small: bool) -> None:
        said = super().answer
        large = "" if small else " large"
        self._noting(lambda: f"answer {self._name(attempt)}{large}", lambda: said(attempt, small))

    def answer_for(self, attempt: Attempt, failed: int, ends: int, again: bool, small: bool) -> None:
        said = super().answer_for
        words = f" for {ends}" + (f" failing {failed}" if failed != ends else "") + " again" * again
        words += "" if small else " large"
        self._noting(lambda: f"answer {self._name(attempt)}{words}", lambda: said(attempt, failed, ends, again, small))

    def expire(self, node: str, ends: int, small: bool) -> None:
        said = super().expire
        self._noting(lambda: f"expire {node} at {ends}{'' if small else ' large'}", lambda: said(node, ends, small))

    def end_undo(self, undo: Attempt, succeeded: bool) -> None:
        said = super().end_undo
        name = self._name(undo)
        self._noting(lambda: f"undone {name}" if succeeded else f"undo {name} fails", lambda: said(undo, succeeded))

    def prove_end(self, attempt: Attempt, started: bool = True) -> None:
        said = super().prove_end
        words = "" if started else " unstarted"
        self._noting(lambda: f"end {self._name(attempt)}{words}", lambda: said(attempt, started))

    def hand_back(self, attempt: Attempt) -> None:
        said = super().hand_back
        self._noting(lambda: f"withdraw {self._name(attempt)}", lambda: said(attempt))

    def lose(self, parts: Sequence[events.Part], attempts: Sequence[Attempt]) -> None:
        said = super().lose

        def line() -> str:
            words = ["lose", *(f"{node}.{part}" for node, part in parts)]
            words += ["running", *map(self._name, attempts)] if attempts else []
            going_on = [self._name_save(s) for s in self.saves if (s.attempt.node, s.part) in parts]
            words += ["saving", *going_on] if going_on else []
            return " ".join(words)

        self._noting(line, lambda: said(parts, attempts))

    def resume(self, again: tuple[str, ...]) -> None:
        said = super().resume
        self._noting(lambda: f"resume{' again ' * bool(again)}{' '.join(again)}", lambda: said(again))

    def save(self, saving: Saving, outcome: Literal["saved", "failed", "impossible"]) -> None:
        said = super().save
        how = {"saved": "", "failed": " fails", "impossible": " fails for good"}[outcome]
        self._noting(lambda: f"save {self._name_save(saving)}{how}", lambda: said(saving, outcome))

    def crash(self, survives: Callable[[Attempt], bool], asleep: bool = False) -> None:
        said = super().crash
        chosen = [attempt for attempt in self.active if attempt.state != "ended" and survives(attempt)]
        kept = f" keeping {' '.join(map(self._name, chosen))}" if chosen else ""
        self._noting(
            lambda: f"crash{' asleep' * asleep}{kept}", lambda: said(lambda attempt: attempt in chosen, asleep)
        )

    def _name_save(self, saving: Saving) -> str:
        name = _label_save(saving)
        alike = [other for other in self.saves if _label_save(other) == name]
        number = next(n for n, other in enumerate(alike, 1) if other is saving)
        return name if number == 1 else f"{name}#{number}"

    def _name(self, attempt: Attempt) -> str:
        label = _label(attempt)
        alike = [other for other in self.active if _label(other) == label]
        number = alike.index(attempt) + 1 if attempt in alike else 1
        return label if number == 1 else f"{label}#{number}"


def _label(attempt: Attempt) -> str:
    kind = "" if attempt.kind == "run" else f"!{attempt.kind}"
    return f"{attempt.node}{kind}{'!late' * (attempt.state in ('silent', 'stopping'))}"


def _label_save(saving: Saving) -> str:
    return f"{saving.attempt.node}.{saving.part}"


def _told(event: events.Event) -> str | None:
    match event:
        case events.Elapsed(node):
            return f"elapse {node}"
        case events.Cancel(undo):
            return f"cancel{' with undo' * undo}"
        case events.GiveUp():
            return "give up"
        case events.Limit(group, limit):
            return f"limit {group} {limit}"
        case events.RetryUndo(node):
            return f"retry {node}"
        case events.Resume():
            return "resume"
        case events.Admitted(node):
            return f"admit {node}"
    return None  # something that was delivered before; nothing comes of it


class Player:
    """Plays a script."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.steps = 0
        self._parked_when_loaded = False
        self._gave_up = False

    def play(self, script: Iterable[str]) -> str:
        """Returns the status in the end. Raises `Violation`."""
        driver = self.driver
        driver.begin()
        driver.checker.after_step(driver)
        for line in script:
            self._step(line)
        while driver.over is None:
            self.steps += 1
            if self.steps > LONGEST:
                raise Violation(f"the run does not come to an end: {driver.run.status} after {self.steps} steps")
            if not self._go_on():
                raise Violation(f"nothing is left to do, but the run is {driver.run.status}")
            driver.checker.after_step(driver)
        return driver.run.status

    def _step(self, line: str) -> None:
        verb, _, rest = line.strip().partition(" ")
        words = rest.split()
        if not verb or verb == "#":
            return
        if self.driver.over is not None and verb not in ("crash", "resume"):
            return
        getattr(self, f"_{verb}")(words)
        self.driver.checker.after_step(self.driver)

    # -- what steps are about ------------------------------------------------------------------------------------------

    def _find(self, name: str) -> Attempt | None:
        label, _, number = name.partition("#")
        alike = [attempt for attempt in self.driver.active if _label(attempt) == label]
        place = int(number or 1) - 1
        return alike[place] if place < len(alike) else None

    def _under_way(self, name: str, *, landing: bool = True) -> Attempt | None:
        """The attempt, after it has been carried out, and, if it is `landing`, has had its effect."""
        driver = self.driver
        attempt = self._find(name)
        if attempt is None:
            for waiting in driver.waiting:
                if waiting.attempt is not None and _label(waiting.attempt) == name:
                    self._commit_through(waiting)
                    driver.carry_out(waiting)
                    driver.checker.after_step(driver)
                    break
            attempt = self._find(name)
        landing = landing and not name.endswith("!late")
        if landing and attempt is not None and attempt.effectful and not attempt.landed:
            driver.land(attempt)
            driver.checker.after_step(driver)
        return attempt

    def _find_save(self, name: str) -> Saving | None:
        label, _, number = name.partition("#")
        alike = [saving for saving in self.driver.saves if _label_save(saving) == label]
        place = int(number or 1) - 1
        return alike[place] if place < len(alike) else None

    # -- the steps -----------------------------------------------------------------------------------------------------

    def _commit(self, words: list[str]) -> None:
        left = self.driver.uncommitted()
        count = min(left, int(words[0]) if words else left)
        if count:
            self.driver.commit(count)

    def _carry(self, words: list[str]) -> None:
        _, kind, *about = words
        driver = self.driver
        for waiting in driver.waiting:
            command = waiting.command
            node = [getattr(command, "node", "")] if about else []
            if type(command).__name__.lower() == kind and node == about:
                self._commit_through(waiting)
                driver.carry_out(waiting)
                return

    def _commit_through(self, waiting: Waiting) -> None:
        while waiting.needs > self.driver.committed:
            self.driver.commit(1)
            self.driver.checker.after_step(self.driver)

    def _land(self, words: list[str]) -> None:
        attempt = self._find(words[0])
        if attempt is None:
            self._under_way(words[0])
        elif attempt.effectful and not attempt.landed:
            self.driver.land(attempt)

    def _finish(self, words: list[str]) -> None:
        name, *rest = words
        attempt = self._under_way(name)
        if attempt is None or attempt.kind == "undo" or not attempt.launched:
            return
        if attempt.effectful and not attempt.landed:
            return
        said = _clauses(rest, ("as", "holding", "joining", "large"))
        choice = int(said["as"][0]) if said.get("as") else 0
        self._return(
            attempt, choice, read_refs(" ".join(said.get("holding", ()))), said.get("joining", []), "large" not in said
        )

    def _return(
        self, attempt: Attempt, choice: int, refs: tuple[RefPart, ...], joining: Sequence[str], small: bool
    ) -> None:
        driver = self.driver
        graph: Graph | None = None
        key = (attempt.node, hash(tuple(attempt.inputs.items())))
        if attempt.task.call:
            choice = min(choice, len(attempt.task.call) - 1)
            if attempt.task.options.deterministic:
                choice = driver.values.chosen.setdefault(key, choice)
            graph = attempt.task.call[choice]
        refs = tuple([ref for ref in refs if self._can_hold(attempt, graph, ref)])
        if attempt.task.options.deterministic:
            refs = driver.values.refs.setdefault(key, refs)
        attempt.graph = graph
        driver.finish(attempt, graph, small, refs, self._joinable(attempt, joining))

    def _can_hold(self, attempt: Attempt, graph: Graph | None, ref: RefPart) -> bool:
        if ref.holders & ~(1 if graph is not None else attempt.task.every_part):
            return False
        return ref.origin in attempt.inputs if ref.origin is not None else not (ref.actor and graph is not None)

    def _joinable(self, attempt: Attempt, joining: Sequence[str]) -> tuple[str, ...]:
        driver, options = self.driver, attempt.task.options
        is_wait = options.effect == "none" and not (options.deterministic or options.writes) and options.checkpoint
        if not joining or not is_wait or attempt.graph is not None or attempt.state != "running":
            return ()
        if attempt.kind != "run" or attempt.node not in driver.run.rows:
            return ()
        return tuple(
            [
                child
                for child in joining
                if child in driver.structure.aside
                and driver.rows[child].version is not None
                and starting.may_join(driver.run, child)
            ]
        )

    def _fail(self, words: list[str]) -> None:
        attempt = self._under_way(words[0], landing="unstarted" not in words)
        if attempt is not None and attempt.kind != "undo":
            started = "unstarted" not in words or attempt.landed
            self.driver.fail(attempt, "good" in words, "again" in words, started)

    def _answer(self, words: list[str]) -> None:
        attempt = self._under_way(words[0])
        if attempt is None or attempt.kind != "run":
            return
        if attempt.state != "running" and not self.driver.counts(attempt):
            return
        said = _clauses(words[1:], ("for", "failing", "again", "large"))
        small = "large" not in said
        if "for" not in said:
            self.driver.answer(attempt, small)
            return
        row = self.driver.run.rows.get(attempt.node)
        ends = int(said["for"][0])
        failed = int(said["failing"][0]) if "failing" in said else ends
        if row is not None and max(ends, failed) <= row.scope.depth:
            self.driver.answer_for(attempt, failed, ends, "again" in said, small)

    def _expire(self, words: list[str]) -> None:
        row = self.driver.run.rows.get(words[0])
        if row is not None and row.id in self.driver.rows and 0 < int(words[2]) <= row.scope.depth:
            self.driver.expire(words[0], int(words[2]), "large" not in words)

    def _save(self, words: list[str]) -> None:
        saving = self._find_save(words[0])
        if saving is not None:
            self.driver.save(saving, "impossible" if "good" in words else "failed" if "fails" in words else "saved")

    def _lose(self, words: list[str]) -> None:
        said = _clauses(words, ("running", "saving"))
        driver = self.driver
        parts = []
        for name in said[""]:
            node, _, part = name.rpartition(".")
            row = driver.rows.get(node)
            if row is not None and (row.memory | (row.private.every_part if row.private else 0)) >> int(part) & 1:
                parts.append((node, int(part)))
        found = [self._find(name) for name in said.get("running", ())]
        attempts = [attempt for attempt in found if attempt is not None and attempt.state == "running"]
        if not parts and not attempts:
            return
        going_on = [self._find_save(name) for name in said.get("saving", ())]
        driver.saves = [s for s in driver.saves if (s.attempt.node, s.part) not in parts or s in going_on]
        driver.lose(parts, attempts)

    def _crash(self, words: list[str]) -> None:
        said = _clauses(words, ("asleep", "keeping"))
        kept = [self._find(name) for name in said.get("keeping", ())]
        driver = self.driver
        self._gave_up = False
        driver.crash(lambda attempt: attempt in kept, "asleep" in said)
        if driver.durable.finished is not None:
            driver.over = commands.Finish(driver.durable.finished)
        self._parked_when_loaded = bool(driver.durable.parked) and driver.durable.finished is None
        if self._parked_when_loaded:
            driver.parked = sorted(driver.durable.parked)

    def _resume(self, words: list[str]) -> None:
        driver = self.driver
        if driver.over is not None:
            if driver.over.status == "succeeded":
                return
            if driver.run.final is None or not driver.run.dormant:
                self._crash([])
            driver.over = None
            driver.resume(
                tuple([row.id for row in loading.droppable(driver.run, [w for w in words[1:] if w in driver.rows])])
            )
        elif self._parked_when_loaded:
            self._parked_when_loaded = False
            driver.parked.clear()
            driver.deliver(events.Resume())

    def _undone(self, words: list[str]) -> None:
        undo = self._under_way(words[0])
        if undo is not None and undo.kind == "undo" and undo.landed:
            self.driver.end_undo(undo, succeeded=True)

    def _undo(self, words: list[str]) -> None:
        undo = self._under_way(words[0])
        if undo is not None and undo.kind == "undo" and undo.state == "running":
            self.driver.end_undo(undo, succeeded=False)

    def _end(self, words: list[str]) -> None:
        attempt = self._find(words[0])
        if attempt is not None and attempt.state in ("silent", "stopping"):
            self.driver.prove_end(attempt, started="unstarted" not in words or (attempt.launched and attempt.landed))

    def _withdraw(self, words: list[str]) -> None:
        held = [waiting.attempt for waiting in self.driver.waiting if waiting.attempt is not None]
        alike = [attempt for attempt in [*held, *self.driver.active] if _label(attempt) == words[0]]
        for attempt in alike:
            if attempt.withdrawn and not attempt.landed and attempt.is_under_way:
                self.driver.hand_back(attempt)
                return

    def _admit(self, words: list[str]) -> None:
        if words[0] in self.driver.asking:
            self.driver.admit(words[0])

    def _elapse(self, words: list[str]) -> None:
        for timer in self.driver.timers:
            if timer.node == words[0]:
                self.driver.timers.remove(timer)
                self.driver.deliver(events.Elapsed(timer.node, timer.attempt))
                return

    def _cancel(self, words: list[str]) -> None:
        if self._parked_when_loaded:  # else whoever cancels does not help those who wait for a person
            self._parked_when_loaded = False
            self.driver.parked.clear()
        self.driver.deliver(events.Cancel("undo" in words))

    def _give(self, _: list[str]) -> None:
        if self.driver.run.status == "stopping" and not self._gave_up:
            self._gave_up = True
            self.driver.deliver(events.GiveUp())

    def _limit(self, words: list[str]) -> None:
        if words[0] in starting.groups_of(self.driver.run):
            self.driver.deliver(events.Limit(words[0], int(words[1])))

    def _retry(self, words: list[str]) -> None:
        driver = self.driver
        if self._parked_when_loaded:
            self._resume([])
        elif words[0] in driver.parked:
            driver.parked.remove(words[0])
            driver.deliver(events.RetryUndo(words[0]))

    # -- as well as can be ---------------------------------------------------------------------------------------------

    def _go_on(self) -> bool:
        """Answers one thing. False if nothing waits for an answer."""
        driver = self.driver
        if driver.uncommitted():
            driver.commit(driver.uncommitted())
        elif driver.waiting:
            driver.carry_out(driver.waiting[0])
        elif driver.active:
            attempt = driver.active[0]
            if attempt.state == "running" and attempt.effectful and not attempt.landed:
                driver.land(attempt)
            elif attempt.state != "running":
                driver.prove_end(attempt)
            elif attempt.kind == "undo":
                driver.end_undo(attempt, succeeded=True)
            else:
                self._return(attempt, 0, (), (), small=True)
        elif driver.saves:
            driver.save(driver.saves[0], "saved")
        elif driver.timers:
            self._elapse([driver.timers[0].node])
        elif driver.asking:
            driver.admit(next(iter(driver.asking)))
        elif driver.parked:
            self._retry([driver.parked[0]])
        elif driver.run.status == "stopping" and not self._gave_up:
            self._give([])
        else:
            return False
        return True


def play_script(
    graph: Graph,
    script: str | Iterable[str],
    *,
    on_failure: OnFailure = "keep",
    run_class: type[Run] = Run,
    validate: bool = True,
    letter: bool = True,
) -> str:
    """Plays a schedule that was written down, under the judge, and then answers everything until the run is over.
    Returns its status; raises `Violation` if the law was broken."""
    lines = script.strip().splitlines() if isinstance(script, str) else script
    driver = Driver(graph, run_class, on_failure, validate, Checker(letter), Story())
    return Player(driver).play(lines)


def _clauses(words: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """The words behind each of these names; those before the first under the empty one."""
    found: dict[str, list[str]] = {"": []}
    name = ""
    for word in words:
        if word in names:
            name = word
            found[name] = []
        else:
            found[name].append(word)
    return found
