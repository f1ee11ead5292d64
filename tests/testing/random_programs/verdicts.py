"""What the law says of a program (design 2.8): which effects are there in the end, and which may be.

This knows nothing of any engine. It follows what raises to the handler that answers, outwards from the task through the
graphs around it, and finds out what that means for each effect and each write:

- **must**: it is there, whatever happens when;
- **never**: it is not, because it comes after something that failed, or because it is taken back;
- **may**: it stands beside something that ends its graph early. The law does not say which of both is first.

A task that raises the first n times it is called is certain to succeed only if it is tried again as often. Otherwise a
crash decides: it forgets an answer that is not durable, and the task is called once more. So such a program has two
outcomes; `calm` says which steps did not raise for good.

Where two failures race for different ends, the outcome is anybody's: `Racing`. Such programs are not played.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Literal

import msgspec

from tests.testing.random_programs.language import Answer, Program, Raises, Statement, Step, labels_of, walk


class Verdict(Enum):
    MUST = "must"
    MAY = "may"
    NEVER = "never"


MUST, MAY, NEVER = Verdict


class Racing(Exception):
    """Two failures would lead to different outcomes, and either may be first."""


class Frame(msgspec.Struct, eq=False):
    """What is around a task: a graph that can end by itself."""

    kind: Literal["run", "graph", "transaction", "fiber", "awaited"]
    outer: Frame | None = None
    answers: tuple[Answer, ...] = ()
    retry: int = 0
    catch: bool = False


class Ending(msgspec.Struct, frozen=True):
    """A failure that a task could not be answered for alone."""

    frame: Frame
    """What ends."""
    undone: Frame | None
    """The outermost transaction that is taken back."""
    answer: Literal["given", "caught", "broken", "failed"]
    raises: Raises


class Verdicts:
    def __init__(self, program: Program, calm: frozenset[str] = frozenset()) -> None:
        """Raises `Racing`."""
        self.effects: dict[str, Verdict] = {}
        self.writes: dict[str, Verdict] = {}
        self.fleeting: set[str] = set()
        """Steps that fail for good or not, depending on crashes."""
        self._tried_again: set[Frame] = set()
        self._undone: set[str] = set()
        self._begun: dict[str, Verdict] = {}
        self._above: dict[str, frozenset[str]] = {}
        """Label → labels of what comes before it."""
        self._steps = {label: step for step in walk(program.steps) for label in labels_of(step)}
        self._program = program
        self._calm = calm
        run = Frame("run")
        steps = tuple(
            step
            if step.on_error != "stop"  # a loop that says itself what becomes of errors leaves none
            else msgspec.structs.replace(step, answers=step.answers + program.answers)
            for step in program.steps
        )
        ending = self._graph(steps, run, frozenset())
        self.fails = ending is not None and ending.answer == "failed"
        """Whether the run does."""
        if self.fails and program.on_failure == "undo":
            self._undo(self._inside(program.steps))

    # -- graphs --------------------------------------------------------------------------------------------------------

    def _graph(self, steps: tuple[Step, ...], frame: Frame, above: frozenset[str]) -> Ending | None:
        """How it ends early, and what with it, if it does. What comes of that for what is inside is noted."""
        before: list[frozenset[int]] = []
        endings: dict[int, Ending] = {}
        dead: set[int] = set()
        labels = [self._inside([step]) for step in steps]
        for number, step in enumerate(steps):
            parents = {*step.reads, *step.after} | ({step.actor} if step.actor is not None else set())
            before.append(frozenset(parents).union(*[before[one] for one in parents]))
            if dead & before[number]:
                dead.add(number)
                self._never(labels[number])
                continue
            ending = self._step(step, frame, above.union(*[labels[one] for one in before[number]]))
            if ending is not None:
                endings[number] = ending
                dead.add(number)
        if not endings:
            return None
        first = next(iter(endings.values()))
        if any(
            (one.frame, one.undone, one.answer) != (first.frame, first.undone, first.answer) for one in endings.values()
        ):
            raise Racing
        if first.answer == "caught" and any(one.raises.grave != first.raises.grave for one in endings.values()):
            raise Racing  # what catches tells which error it was
        certain = frozenset.intersection(*[before[one] | {one} for one in endings])
        for number in set(range(len(steps))) - certain:
            self._perhaps(labels[number])
        self._undone_by_a_crash([steps[number] for number in certain])
        return first

    def _step(self, step: Step, frame: Frame, above: frozenset[str], blocks: tuple[Answer, ...] = ()) -> Ending | None:
        match step.kind:
            case "fiber":
                return self._fiber(step, frame, above, blocks)
            case "loop":
                return self._loop(step, frame, above)
            case "graph" | "transaction":
                return self._expander(step, frame, above)
            case _:
                outcome = self._attempt(step, step.label, frame, above)
                return outcome if isinstance(outcome, Ending) else None

    def _expander(self, step: Step, frame: Frame, above: frozenset[str]) -> Ending | None:
        outcome = self._attempt(step, step.label, frame, above)
        inside = self._inside(step.inside)
        if outcome != "made":
            self._never(inside)
            return outcome if isinstance(outcome, Ending) else None
        kind: Literal["graph", "transaction"] = "transaction" if step.kind == "transaction" else "graph"
        own = Frame(kind, frame, step.answers, step.retry, step.catch)
        ending = self._graph(step.inside, own, above | {step.label})
        if ending is not None and ending.undone is own:
            self._undo(inside)
        return None if ending is None or ending.frame is own else ending

    def _loop(self, step: Step, frame: Frame, above: frozenset[str]) -> Ending | None:
        found: Ending | None = None
        item = Frame("graph", frame)  # a break ends the item that failed, and no other
        for number, label in enumerate(labels_of(step)):
            raising = step if number == step.failing else msgspec.structs.replace(step, raises=None)
            outcome = self._attempt(raising, label, item, above)
            if isinstance(outcome, Ending) and outcome.frame is not item:
                found = outcome
        if found is not None:
            self._perhaps(label for number, label in enumerate(labels_of(step)) if number != step.failing)
        return found

    # -- fibers --------------------------------------------------------------------------------------------------------

    def _fiber(self, step: Step, frame: Frame, above: frozenset[str], blocks: tuple[Answer, ...]) -> Ending | None:
        """`blocks` are those around the call of the fiber."""
        own = Frame("fiber", frame)
        beside: dict[int, tuple[frozenset[str], Ending | None]] = {}
        """Statement → what it forked that has not been joined, and how that fails."""
        for number, statement in enumerate(step.statements):
            inside = self._inside(*statement.graphs)
            ending: Ending | None = None
            match statement.verb:
                case "await":
                    ending = self._await(statement, own, above, blocks)
                    above |= inside
                case "fork":
                    if statement.limited:  # who waits for room has joined those that made it
                        above = above.union(*[joined for joined, _ in beside.values()])
                    beside[number] = inside, self._await(statement, own, above, blocks)
                case "join" if statement.child in beside:
                    joined, ending = beside.pop(statement.child)
                    above |= joined
            if ending is None or (ending.frame.kind == "awaited" and statement.tries):
                continue
            return self._fiber_ends(step, own, ending, step.statements[number + 1 :], beside)
        failing = [ending for _, ending in beside.values() if ending is not None]
        return self._fiber_ends(step, own, failing[0], (), beside) if failing else None

    def _fiber_ends(
        self,
        step: Step,
        own: Frame,
        ending: Ending,
        rest: tuple[Statement, ...],
        beside: dict[int, tuple[frozenset[str], Ending | None]],
    ) -> Ending | None:
        """What a fiber does when it is given an error that it does not catch, or when it is ended."""
        for statement in rest:
            self._never(self._inside(*statement.graphs))
        for inside, _ in beside.values():
            self._perhaps(inside)
        if ending.frame.kind != "awaited":  # it ended at its await
            return None if ending.frame is own else ending
        assert own.outer is not None
        if ending.raises.times is not None and _may_be_tried_again(own):
            raise Racing  # what is dropped with the transaction is called again, and may succeed; the rest stays
        answers = tuple(answer for answer in step.answers if answer.decision != "retry")
        outcome = self._answer(ending.raises, 0, answers, step.catch, own, times=None)
        if outcome == "given":
            return None
        assert isinstance(outcome, Ending)
        return None if outcome.frame is own else outcome

    def _await(
        self, statement: Statement, fiber: Frame, above: frozenset[str], blocks: tuple[Answer, ...]
    ) -> Ending | None:
        """The ending of a graph that raises something in the fiber has a frame of the kind `awaited`."""
        found: list[Ending] = []
        if statement.block is not None:
            blocks = (statement.block, *blocks)
        for graph in statement.graphs:
            if statement.direct:
                (step,) = graph
                outside = Frame("awaited", fiber)  # what is called there is part of the fiber's own graph
                changed = msgspec.structs.replace(step, answers=step.answers + blocks)
                ending = self._direct(changed, outside, fiber, above, blocks)
            else:
                own = Frame("awaited", fiber, blocks, 0, True)
                ending = self._graph(graph, own, above)
                if statement.expires and any(said.expires for step in walk(graph) for said in step.statements):
                    raise Racing
                if ending is None and statement.expires:
                    sink = self._inside(graph[-1:])
                    self._never(sink)
                    self._undone_by_a_crash(graph)
                    ending = Ending(own, None, "caught", Raises())
                if ending is not None and ending.frame is own and ending.answer == "broken":
                    ending = None
            if ending is not None:
                found.append(ending)
        if any(one.frame.kind != "awaited" for one in found) and len(statement.graphs) > 1:
            raise Racing
        if statement.verb == "fork" and any(one.frame.kind != "awaited" for one in found):
            raise Racing
        return found[0] if found else None

    def _direct(
        self, step: Step, awaited: Frame, fiber: Frame, above: frozenset[str], blocks: tuple[Answer, ...]
    ) -> Ending | None:
        ending = self._step(step, awaited, above, blocks)
        if ending is not None and ending.frame is awaited and ending.answer == "broken":
            return Ending(fiber, ending.undone, "broken", ending.raises)
        return ending

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _attempt(
        self, step: Step, label: str, frame: Frame, above: frozenset[str]
    ) -> Literal["made", "given"] | Ending:
        outcome: Literal["made", "given"] | Ending = "made"
        if step.raises is not None and step.label not in self._calm:
            catch = step.on_error != "stop" if step.kind == "loop" else step.catch
            outcome = self._answer(step.raises, step.retry, step.answers, catch, frame, step.raises.times)
            if outcome != "made" and step.raises.times is not None:
                self.fleeting.add(step.label)
        happened = outcome == "made" or (step.raises is not None and step.raises.late)
        self._above[label] = above
        self._begun[label] = MUST
        if step.effect != "none":
            self.effects[label] = MUST if happened and (step.effect == "irrevocable" or outcome == "made") else NEVER
        if step.writes:
            self.writes[label] = MUST if outcome == "made" else NEVER
        return outcome

    def _answer(
        self,
        raises: Raises,
        policy: int,
        answers: tuple[Answer, ...],
        catch: bool,
        frame: Frame,
        times: int | None,
    ) -> Literal["made", "given"] | Ending:
        """Who answers for a failure, outwards from the task: `made` if it is tried again until it succeeds."""
        calls, tried = 1, policy
        scope: Frame = frame
        """What a break would end."""
        failed: Frame | None = None
        """The outermost transaction whose failure it is by now."""
        level: Frame | None = None
        while True:
            for answer in answers:
                if not answer.covers(raises):
                    continue
                if answer.decision == "retry":
                    tried = max(tried, answer.count)
                    continue
                if times is not None and times < calls * (tried + 1):
                    return self._made(failed)
                return self._decided(answer, raises, scope, failed)
            if times is not None and times < calls * (tried + 1):
                return self._made(failed)
            if catch:
                if level is None:
                    return "given"
                return Ending(level, failed, "caught", raises)
            level = frame if level is None else level.outer
            if level is None or level.kind == "run":
                return Ending(_run_of(frame), failed, "failed", raises)
            if level.kind == "transaction":
                assert level.outer is not None
                calls, tried = calls * (tried + 1), level.retry
                failed, scope = level, level.outer
            answers, catch = level.answers, level.catch or level.kind == "awaited"
            if level.kind == "fiber":
                answers, catch = (), False

    def _made(self, failed: Frame | None) -> Literal["made"]:
        """It succeeds at last, because this transaction was tried again so often; no other task can count on it."""
        if failed is not None:
            if failed in self._tried_again:
                raise Racing
            self._tried_again.add(failed)
        return "made"

    def _decided(self, answer: Answer, raises: Raises, scope: Frame, failed: Frame | None) -> Literal["given"] | Ending:
        match answer.decision:
            case "break":
                return Ending(scope, failed, "broken", raises)
            case "terminate":
                around, outermost = scope, failed
                while around.outer is not None:
                    outermost = around if around.kind == "transaction" else outermost
                    around = around.outer
                return Ending(around, outermost, "failed", raises)
            case _:
                return "given" if failed is None else Ending(failed, failed, "given", raises)

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def _inside(self, *graphs: Iterable[Step]) -> frozenset[str]:
        return frozenset(label for graph in graphs for step in walk(tuple(graph)) for label in labels_of(step))

    def _never(self, labels: Iterable[str]) -> None:
        for label in labels:
            self._undone.discard(label)
            self._begun[label] = NEVER
            if self._steps[label].effect != "none":
                self.effects[label] = NEVER
            if self._steps[label].writes:
                self.writes[label] = NEVER

    def _perhaps(self, labels: Iterable[str]) -> None:
        for label in labels:
            for verdicts in (self._begun, self.effects, self.writes):
                if verdicts.get(label) is MUST:
                    verdicts[label] = MAY
            if label in self._undone:  # what ends may end before that
                self.effects[label] = MAY

    def _undone_by_a_crash(self, steps: Iterable[Step]) -> None:
        """Their graph ends. After a crash what was not saved is undone, and there is no time to do it again."""
        for step in walk(tuple(steps)):
            if step.effect == "undoable" and not step.checkpoint:
                for label in labels_of(step):
                    if self.effects[label] is MUST:
                        self.effects[label] = MAY

    def _undo(self, labels: frozenset[str]) -> None:
        """What was begun there and nothing irrevocable stands on is taken back."""
        for label in labels:
            if self._steps[label].effect == "undoable" and self.effects[label] is not NEVER:
                kept = [self._is_for_good(other) for other in labels if label in self._above.get(other, ())]
                if MUST not in kept:
                    reached = MAY in kept or self._stands_on_it_by_chance(label, labels)
                    self.effects[label] = MAY if reached else NEVER
                    self._undone.add(label)

    def _is_for_good(self, label: str) -> Verdict:
        step = self._steps[label]
        written = self.writes.get(label, NEVER)
        return self._begun[label] if step.effect == "irrevocable" else written

    def _stands_on_it_by_chance(self, label: str, labels: frozenset[str]) -> bool:
        """Whether something irrevocable may stand on what comes after it, by way of an ancestor that both share and
        that could not be made again."""
        members = {one for one in labels if self._is_for_good(one) is not NEVER}
        if not members:
            return False
        shared = frozenset().union(*[self._above[one] for one in members]) & labels
        return any(
            not (self._steps[one].deterministic and self._steps[one].effect != "undoable")
            and (not self._steps[one].checkpoint or self._program.order is not None)
            for one in shared
        )


def _may_be_tried_again(frame: Frame) -> bool:
    """Whether something around it is a transaction, and somebody around that wants it to be tried again."""
    level: Frame | None = frame
    failed = False
    while level is not None:
        failed = failed or level.kind == "transaction"
        if failed and (level.retry or any(answer.decision == "retry" for answer in level.answers)):
            return True
        level = level.outer
    return False


def _run_of(frame: Frame) -> Frame:
    while frame.outer is not None:
        frame = frame.outer
    return frame
