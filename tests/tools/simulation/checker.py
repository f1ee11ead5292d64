"""The judge: after every step and at the end, does what happened obey the law (design 2 and 6.1)?

It looks only at what the simulated driver saw, and asks `core.checks.definitions`. Two kinds of questions: was this
step allowed by the letter of the law (`letter`, on by default), and what would follow, or has followed, from it: the
worst case after every step, contradictions in the world, values that do not belong together. A wrong start rule must be
caught by the consequences alone, so the letter can be switched off.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onceflow.core.checks.definitions import (
    Facts,
    each,
    for_good,
    group_saga,
    kept,
    makers_of,
    quiet,
    rerun,
    saga,
    settled,
    undone_by,
    why_not_start,
    worst_case,
)
from onceflow.core.model import commands, records
from tests.tools.simulation.attempts import Attempt
from tests.tools.simulation.world import Violation

if TYPE_CHECKING:
    from tests.tools.simulation.driver import Driver


@dataclass(slots=True)
class Checker:
    """Raises `Violation`. Keeps nothing but what it needs to skip questions whose answer cannot have changed."""

    letter: bool = True
    _staying: tuple[int, Set[str]] | None = field(default=None)
    """The undoable effects that were finished when a run without undo began to stop, and the epoch of that."""
    _asked: Any = None
    """The facts that the worst case was last asked about."""
    _compared: Any = None
    """What it depends on whether values belong together, when that was last found."""
    _asked_after_crash: int = -1
    """What was committed, in which epoch, when the worst case was last asked about that."""

    # Single steps

    def judge_start(self, driver: Driver, command: commands.Start, attempt: Attempt) -> None:
        """2.3, 2.5, 2.6: may this attempt be asked for?"""
        node = command.node
        inside = driver.structure.inside
        if command.private:
            if not attempt.task.options.repeatable:
                raise Violation(f"{attempt!r} is rebuilt privately, but is not repeatable")
            return
        if driver.appended.recovering:
            raise Violation(f"{attempt!r} starts during a recovery of {sorted(driver.appended.recovering)}")
        if driver.is_closed(node):
            raise Violation(f"{attempt!r} starts in a graph that a handler has answered for")
        if node in driver.structure.over:
            raise Violation(f"{attempt!r} starts in a graph that has ended")
        if any(node in inside(expander) for expander in driver.delays):
            raise Violation(f"{attempt!r} starts in a graph that waits to be tried again")
        if node in driver.raised:
            raise Violation(f"{attempt!r} starts before the delay after its failure is over")
        if driver.appended.cancelled or driver.appended.finished or driver.appended.failed:
            raise Violation(f"{attempt!r} starts although the run was cancelled, has failed or has finished")
        if attempt.effectful:
            if not command.durable:
                raise Violation(f"{attempt!r} has an effect but does not wait for its begun record")
            if not _is_begun(driver.appended.begun.get(node), attempt):
                raise Violation(f"{attempt!r} has an effect but no begun record")
        if self.letter:
            reason = why_not_start(driver.facts(), node)
            if reason is not None:
                raise Violation(f"{attempt!r} ({attempt.task.options.effect}) starts, but {reason}")

    def judge_stuck(self, driver: Driver, command: commands.Stuck) -> None:
        """2.8: a run may say that it cannot go on if nothing is under way, nothing may start, and the graph is safe
        only thanks to what handlers gave."""
        held = [waiting.attempt for waiting in driver.waiting if waiting.attempt is not None]
        if driver.active or held or driver.saves or driver.timers or driver.asking or driver.parked:
            raise Violation(f"{command}, but something is under way")
        facts = driver.facts()
        left = facts.shape.names(facts.shape.everyone & ~facts.done)
        closed = driver.closed() | driver.structure.over
        able = [node for node in left if node not in closed and why_not_start(facts, node) is None]
        if able:
            raise Violation(f"{command}: nothing is left to do, but {able} may start")
        if driver.structure.is_safe(driver.done()):
            raise Violation(f"{command}: nothing is left to do, but the graph is safe, whatever handlers gave")

    def judge_joins(self, driver: Driver, attempt: Attempt, joined: tuple[str, ...]) -> None:
        """2.11: who joins something is given what has come to its end."""
        if not joined:
            return
        facts = driver.facts()
        for child in joined:
            if not settled(facts) >> facts.shape.position[child] & 1:
                raise Violation(f"{attempt!r} joins {child}, which is not settled")

    def judge_taking(self, driver: Driver, attempt: Attempt, parent: str, part: int) -> None:
        """2.7: no attempt reads the live actor that this one is about to change, not even for an undo."""
        held = [waiting.attempt for waiting in driver.waiting if waiting.attempt is not None]
        for other in [*driver.active, *held]:
            if other is attempt or not other.is_under_way or (parent, part) not in other.inputs:
                continue
            if other.undoes is None:
                reads = (parent, part) not in other.taken and other.versions[parent] is attempt.versions[parent]
            else:
                row = driver.rows[parent]  # what is saved and no longer in memory, each restores for itself
                is_live = row.private is None and bool(row.memory >> part & 1)
                reads = is_live and (parent, part) not in other.undoes.carried
            if reads:
                raise Violation(f"{attempt!r} takes the actor in {parent}.{part}, which {other!r} still reads")

    def judge_launch(self, driver: Driver, attempt: Attempt) -> None:
        """The attempt really starts: is everything there that it builds on, and nobody else at work?"""
        node = attempt.node
        if attempt.kind == "undo":
            self._nobody_else(driver, attempt)
            return
        if attempt.kind == "run" and driver.rows[node].current is not attempt:
            raise Violation(f"{attempt!r} is carried out after it was ended")
        if attempt.kind == "run" and attempt.task.options.effect == "undoable":
            self._nobody_else(driver, attempt)
        if attempt.effectful and attempt.kind == "run" and not _is_begun(driver.durable.begun.get(node), attempt):
            raise Violation(f"{attempt!r} is carried out before its begun record is committed")
        for ancestor in driver.structure.effectful_ancestors(node):
            version = driver.rows[ancestor].version
            if version is not None and version.handled:
                continue  # it raised; whether it had its effect before, nobody can say
            if not driver.world.has_effect_of(ancestor):
                raise Violation(f"{attempt!r} runs in a world without the effect of {ancestor}")
        shape = driver.structure.shape
        if attempt.kind == "run":
            for writer in shape.names(shape.ancestors[shape.position[node]] & shape.writers):
                if writer not in driver.durable.wrote and not _wrote_nothing(driver, writer):
                    raise Violation(f"{attempt!r} does not see what {writer} wrote")
            self._judge_what_joins_saw(driver, attempt)
        if attempt.task.options.effect == "irrevocable":
            for other in driver.of_node[node]:
                if other.launched and other.task is attempt.task and other.inputs != attempt.inputs:
                    raise Violation(f"{attempt!r} is irrevocable and has other inputs than {other!r}")

    def _judge_what_joins_saw(self, driver: Driver, attempt: Attempt) -> None:
        """2.11: who joins what was ended with its graph is told so after what was written in there is durable."""
        joined = {child for read in attempt.versions.values() for child, v in read.versions.items() if v.abandoned}
        for expander in driver.structure.ended.values() if joined else ():
            inside = driver.structure.inside(expander)
            written = (driver.appended.wrote.keys() - driver.durable.wrote.keys()) & inside
            if written and joined & inside:
                raise Violation(f"{attempt!r} does not see what {sorted(written)} wrote")

    def judge_effect(self, driver: Driver, attempt: Attempt) -> None:
        """An effect lands: it belongs to a task that the run still has."""
        if attempt.node not in driver.rows:
            raise Violation(f"the effect of {attempt!r} lands, but its graph is gone")

    def _nobody_else(self, driver: Driver, attempt: Attempt) -> None:
        """2.6: every earlier attempt and undo of the task is known to have ended."""
        for other in driver.of_node[attempt.node]:
            if other is not attempt and not other.known_ended:
                raise Violation(f"{attempt!r} although {other!r} is not known to have ended")

    def judge_undo(self, driver: Driver, command: commands.Undo, undo: Attempt) -> None:
        """2.5: an undo stands above nothing irrevocable, comes in reverse order and alone."""
        shape = driver.structure.shape
        x = shape.position[command.node]
        facts = driver.facts()
        for below in each(shape.descendants[x] & facts.begun):
            raise Violation(f"{undo!r}, but below it {shape.members[below].id} has begun")
        if undo.task.options.effect != "undoable":
            raise Violation(f"{undo!r} of a task that is not undoable")
        self._nobody_else(driver, undo)
        if command.node not in driver.appended.recovering and shape.descendants[x] & facts.done:
            raise Violation(
                f"{undo!r} outside a recovery, but {shape.names(shape.descendants[x] & facts.done)} read it"
            )
        if command.finished is not None:
            finished = driver.attempts.get((command.node, command.finished))
            if finished is None or finished.output is None or finished is not undo.undoes:
                raise Violation(f"{undo!r} is to see the output of attempt {command.finished}, not of {undo.undoes!r}")
            self._can_be_read(driver, undo, finished)
        elif (
            undo.undoes is not None
            and driver.rows[command.node].version is undo.undoes
            and facts.available(x) == facts.every_part(x)
            and not any(ref.origin for ref in undo.undoes.refs.values())  # the row that has it may be forgotten
        ):
            raise Violation(f"{undo!r} is not given the output of {undo.undoes!r}, although that is available")

    def _can_be_read(self, driver: Driver, undo: Attempt, finished: Attempt) -> None:
        """2.7: what an undo is given of the output is there. (A ref that came in may be there with its origin.)"""
        node = finished.node
        saved = driver.appended.saved.get(node, {})
        row = driver.rows[node]
        if row.version is not finished:
            return  # what counts since a crash are the saves
        there = row.memory | sum(1 << part for part, attempt in saved.items() if attempt is finished)
        for part in each(finished.every_part & ~there):
            if part not in finished.refs or finished.refs[part].origin is None:
                raise Violation(f"{undo!r} is to see the output of {finished!r}, of which part {part} is lost")

    # Records

    def judge_record(self, driver: Driver, record: records.Record, attempt: Attempt | None) -> None:
        """May this be written into the journal now?"""
        match record:
            case records.Begun():
                before = driver.appended.begun.get(record.node)
                if before is not None and before.task.options.effect == "undoable":
                    raise Violation(f"{record}, but {before!r} was not undone")
            case records.Withdrawn():
                begun = driver.appended.begun.get(record.node)
                if begun is None or begun.task.options.effect != "irrevocable":
                    raise Violation(f"{record}, but nothing irrevocable has begun")
                if record.node in driver.world.irrevocable:
                    raise Violation(f"{record}, but it has happened")
                if any(attempt.alive and attempt.effectful for attempt in driver.of_node[record.node]):
                    raise Violation(f"{record}, but it may happen")
            case records.Saved():
                assert attempt is not None
                self._judge_save(driver, record, attempt)
            case records.Wrote():
                assert attempt is not None
                self._judge_commit(driver, record, attempt)
            case records.Done():
                if attempt is None:
                    raise Violation(f"{record}, but it is not done")
                if not driver.structure.shape.writes_done_record(driver.structure.shape.position[record.node]):
                    raise Violation(f"{record} of a task whose output is read or saved")
            case records.Failed():
                self._judge_failure(driver, record)
            case records.Cancelled():
                self._staying = None if record.undo else (driver.epoch, _finished_effects(driver))
            case records.Recovering():
                self._judge_recovery(driver, set(record.nodes))
            case records.Abandoned():
                self._judge_taken_back(driver, record, record.expander)
            case records.Again():
                self._judge_taken_back(driver, record, record.node)
                driver.groups -= driver.structure.inside(record.node) | {record.node}
            case records.Undone():
                if record.node in driver.world.undoable:
                    raise Violation(f"{record}, but its effect is in the world")
            case records.Dropped():
                standing = [node for node in record.nodes if node in driver.world.undoable]
                if standing:
                    raise Violation(f"{record}, but the effects of {standing} are in the world")
                written = [node for node in record.nodes if node in driver.appended.wrote]
                if written:
                    raise Violation(f"{record}, but what {written} wrote is committed")

    def _judge_taken_back(self, driver: Driver, record: records.Record, expander: str) -> None:
        """2.8: a graph ends, or is tried again, when the transactions in it are taken back that a failure went
        through."""
        facts, structure = driver.facts(), driver.structure
        around = structure.inside(expander) | {expander}
        groups = [group for group in driver.to_be_taken_back() if group in around and driver.is_open_transaction(group)]
        members = structure.shape.set_of({node for group in groups for node in structure.inside(group)})
        standing = structure.shape.set_of(driver.world.undoable) & members & ~kept(facts)
        if standing:
            raise Violation(f"{record}, but {structure.shape.names(standing)} was not undone")

    def _judge_failure(self, driver: Driver, record: records.Failed) -> None:
        """2.8: a task fails for good when its retries are used up, and not before."""
        before = driver.appended.failures.get(record.node, 0)
        if record.failures > before + 1:
            raise Violation(f"{record} after {before} failures")
        if driver.raising is not None and driver.raising.node == record.node:
            retries = driver.raising.task.options.retries
            if record.final != (not driver.again and (driver.permanent or record.failures > retries)):
                raise Violation(f"{record}, but the task may be tried {retries + 1} times")
        if record.final and record.node in driver.rows:
            group = driver.transaction_around(record.node)
            driver.groups |= set() if group is None else {group}
        if record.final and driver.on_failure == "undo" and driver.appended.cancelled is None:
            self._staying = None
        elif record.final and driver.appended.cancelled is None:
            groups = driver.groups & driver.rows.keys()
            taken_back = {node for group in groups for node in driver.structure.inside(group)}
            self._staying = (driver.epoch, _finished_effects(driver) - taken_back)

    def _judge_what_an_end_came_of(self, driver: Driver, record: records.Saved, given: Attempt) -> None:
        """2.11: a graph that ends before its result is there has joined what was joined in it, also in what was taken
        back of it."""
        _, expander = driver.appended.abandoning[record.node]
        inside = driver.structure.inside(expander)
        stack = [] if given.came_of is None else [given.came_of]
        seen: set[Attempt] = set()
        while stack:
            reader = stack.pop()
            for child in reader.joined if reader.node in inside else ():
                same = child in driver.run.rows and driver.rows[child].version is reader.versions.get(child)
                if same and child not in inside and child not in record.joined:
                    raise Violation(f"{record} came of what {child} gave, and has not joined it")
            more = [read for read in reader.versions.values() if read not in seen]
            seen.update(more)
            stack += more

    def _judge_save(self, driver: Driver, record: records.Saved, attempt: Attempt) -> None:
        node = record.node
        if attempt.came_of is not None:
            self._judge_what_an_end_came_of(driver, record, attempt)
        row = driver.rows.get(node)
        given = row is not None and row.handled is attempt and not attempt.reported
        if row is None or (row.version is None and not given) or node in driver.appended.recovering:
            raise Violation(f"{record} of a node without output")
        if (node, record.part, record.attempt) not in driver.stored:
            raise Violation(f"{record}, but the bytes are not there")
        if row.version is None:
            return
        if row.version is not attempt and not attempt.repeatable:
            raise Violation(f"{record}, but the present output is that of {row.version!r}")
        if row.version.output != attempt.output or record.graph is not (None if record.part else attempt.graph):
            raise Violation(f"{record} is not the present output")
        told = {} if driver.appended.told.get(node) is attempt else attempt.refs
        if record.refs != tuple(told.values()):
            raise Violation(f"{record} should tell of {told}")
        expander = driver.structure.member(node).expander
        if expander is not None and not driver.is_saved(expander):
            raise Violation(f"{record}, but the graph that {expander} returned is not saved")

    def _judge_commit(self, driver: Driver, record: records.Wrote, attempt: Attempt) -> None:
        """2.11: what a task wrote is committed once, with its save, and can never be rolled back."""
        facts = driver.facts()
        x = facts.shape.position[record.node]
        if not facts.shape.writers >> x & 1 or driver.rows[record.node].version is not attempt or attempt.handled:
            raise Violation(f"{record} of what it has not written")
        if attempt.number >> 32 != driver.epoch:
            raise Violation(f"{record}, but what it wrote went with the engine that had it")
        if record.node in driver.appended.wrote:
            raise Violation(f"{record}, but {driver.appended.wrote[record.node]!r} has written before")
        if not settled(facts) >> x & 1:
            raise Violation(f"{record}, but it may still be dropped")

    def _judge_recovery(self, driver: Driver, nodes: set[str]) -> None:
        """2.5 and 2.8: R takes nothing back that stands above something irrevocable, and not more than the law says."""
        shape = driver.structure.shape
        facts = driver.facts()
        again = shape.set_of(nodes & driver.rows.keys())
        versions = {node: driver.rows[node].version for node in nodes & driver.rows.keys()}
        afresh = [  # before the graph ended, and a crash took what it gave, it gave what it will give again
            node
            for node, version in versions.items()
            if version and version.abandoned and version.task.options.repeatable
        ]
        reason = _taken_back(facts, again, shape.set_of(afresh))
        if reason is not None:
            raise Violation(f"the recovery of {sorted(nodes)}: {reason}")
        # What already runs again is a member of an earlier R, and not done until it has finished.
        facts.done &= ~self._running_again(driver, facts)
        failed = shape.everyone & ~facts.done | self._lost_around_outcomes(driver, facts)
        allowed = rerun(facts, failed=failed)
        # A graph that the engine has yet to find out may be another one, for all it knows (2.9).
        unknown = allowed & shape.set_of(driver.forgotten & driver.rows.keys())
        if unknown:
            allowed = rerun(facts, failed=failed | shape.below(unknown))
        cancelled = driver.appended.cancelled
        if cancelled.undo if cancelled else driver.appended.failed and driver.on_failure == "undo":
            allowed |= saga(facts)
        for group in driver.to_be_taken_back() | self._failed_groups(driver):
            if group in driver.rows:
                allowed |= group_saga(facts, shape.set_of(driver.structure.inside(group)))
        for sink, expander in driver.structure.ended.items():
            if allowed >> shape.position[sink] & 1:  # then the graph has not ended
                inside = driver.structure.inside(expander)
                abandoned = shape.set_of(  # or what a crash took, or left in part, for all that the run knows
                    [node for node in inside if driver.version(node).abandoned or not _is_saved(driver, node)]
                )
                allowed |= abandoned | shape.below(abandoned)
        allowed |= self._unsaved_graphs(driver, facts)
        too_many = again & ~allowed & facts.done
        if too_many:
            raise Violation(f"the recovery takes {shape.names(too_many)}, which nothing requires")

    def _running_again(self, driver: Driver, facts: Facts) -> int:
        """Members of an earlier R that have not finished: those that run, or ask whether they may, and those that have
        lost something and wait for one of them."""
        shape = facts.shape
        again = shape.set_of(
            id for id, row in driver.rows.items() if row.runs_again or (row.version is not None and id in driver.asking)
        )
        for x in each(facts.done & ~again):  # parents come first
            if facts.every_part(x) & ~facts.available(x) and any(again >> parent & 1 for parent, _ in facts.reads(x)):
                again |= 1 << x
        return again

    def _unsaved_graphs(self, driver: Driver, facts: Facts) -> int:
        """2.8: graphs that are not saved, in others that are about to end, with those who returned them."""
        shape = facts.shape
        closed = driver.closed()
        unsaved = [
            node for node in driver.structure.graphs if node in closed and not facts.is_saved(shape.position[node])
        ]
        found = shape.set_of(unsaved)
        return found | shape.below(found) & shape.set_of(closed)

    def _lost_around_outcomes(self, driver: Driver, facts: Facts) -> int:
        """2.8: an outcome that a handler gave is saved before it counts, and the graphs around it before that. So who
        returned one of those, and has lost it meanwhile, runs again."""
        position, found = facts.shape.position, 0
        for node, row in driver.rows.items():
            expander = driver.structure.member(node).expander if row.handled is not None else None
            while expander is not None:
                x = position[expander]
                if facts.done >> x & 1:
                    found |= makers_of(facts, x, facts.every_part(x))
                expander = driver.structure.member(expander).expander
        return found

    def _failed_groups(self, driver: Driver) -> set[str]:
        groups: set[str | None] = set()
        for failed in driver.appended.failed:
            node = failed
            tail = 1
            while node not in driver.rows and "/" in node:  # the graph that it was in has been dropped
                node, tail = node.rpartition("/")[0], 1
                base, _, depth = node.rpartition("~")
                if node not in driver.rows and depth.isdigit():  # and was not the first one in its place
                    node, tail = base, int(depth)
            while tail > 1 and node in driver.structure.graphs:  # but others before it are known
                node, tail = driver.structure.sink_of(node), tail - 1
            if node in driver.rows:
                outermost = driver.transaction_around(node)
                if outermost is None and node != failed and driver.is_open_transaction(node):
                    outermost = node
                groups.add(outermost)
        return {group for group in groups if group is not None}

    def judge_vanished(self, driver: Driver, nodes: Set[str]) -> None:
        """2.9: the nodes of a nested graph went with their expander. Nothing of them may be left."""
        for node in nodes:
            if driver.world.has_effect_of(node):
                raise Violation(f"the graph of {node} is gone, but its effect is in the world")
            if node in driver.appended.begun or driver.appended.saved.get(node):
                raise Violation(f"the graph of {node} is gone, but the journal still has it")

    # After every step

    def after_step(self, driver: Driver) -> None:
        """The worst case of design 6.1, on what was appended and on what is committed; and values belong together."""
        if driver.told:
            driver.told = False
            facts = driver.facts()
            reason = self._worst_case(facts)
            if reason is not None:
                raise Violation(f"if everything unsaved were lost now: {reason}")
            compared = (facts.shape, facts.done, driver.appended.recovering, driver.versions_in_order())
            if compared != self._compared:
                self._compared = compared
                self._values_belong_together(driver, facts)
        committed = driver.epoch << 32 | driver.committed
        if committed != self._asked_after_crash:
            self._asked_after_crash = committed
            if driver.durable.begun or driver.durable.wrote:  # else nothing has begun for good
                reason = self._worst_case(driver.facts_after_crash())
                if reason is not None:
                    raise Violation(f"if the engine crashed now: {reason}")

    def _worst_case(self, facts: Facts) -> str | None:
        """What the law says. It need not be asked again about the facts that it was last asked about: what is in memory
        and what is running does not matter to it."""
        asked = (
            facts.shape,
            facts.done,
            facts.begun,
            facts.wrote,
            facts.recorded,
            facts.empty,
            facts.saved,
            facts.refs,
        )
        if asked == self._asked:
            return None
        self._asked = asked
        return worst_case(facts)

    def _values_belong_together(self, driver: Driver, facts: Facts) -> None:
        shape = facts.shape
        founded: set[int] = set()
        for x in each(facts.done):
            version = driver.rows[shape.members[x].id].version
            if version is not None:
                self._founded(driver, version, version, founded)

    def _founded(self, driver: Driver, version: Attempt, built: Attempt, founded: set[int]) -> None:
        """What a present output was computed from is present too, or could be computed again from what is. `founded`:
        the attempts (by `id`) of which that is known."""
        if id(built) in founded:
            return
        founded.add(id(built))
        for parent, read in built.versions.items():
            row = driver.rows.get(parent)
            if read.repeatable:
                present = row.version if row is not None else None
                if present is not None and present.output != read.output:
                    raise Violation(f"{version!r} was computed from {read!r}, but present is {present!r}")
                self._founded(driver, version, read, founded)
            elif row is None:
                self._founded(driver, version, read, founded)
            elif read.abandoned and row.version is not None and row.version.abandoned:
                continue  # it holds nothing; after a crash as before
            elif row.version is not read or parent in driver.appended.recovering:
                raise Violation(f"{version!r} was computed from {read!r}, but present is {row.version!r}")

    # The end

    def judge_finish(self, driver: Driver, finish: commands.Finish) -> None:
        """The run says that it is over: is the world as it must be, and the report true?"""
        facts = driver.facts()
        shape = facts.shape
        if driver.durable.finished != finish.status:
            raise Violation(f"{finish}, but the journal says {driver.durable.finished}")
        if driver.durable.recovering:
            raise Violation(f"{finish} in the middle of a recovery of {sorted(driver.durable.recovering)}")
        standing = shape.set_of(node for node in driver.world.undoable)
        match finish.status:
            case "succeeded":
                self._judge_success(driver)
            case "undone":
                self._judge_kept(driver, finish, facts, standing)
                if finish.kept:
                    raise Violation(f"{finish}: a run that keeps effects is not undone")
            case "cancelled":
                cancelled = driver.durable.cancelled
                if cancelled is None:
                    raise Violation(f"{finish}, but nobody cancelled")
                if cancelled.undo:
                    self._judge_kept(driver, finish, facts, standing)
                elif standing & ~facts.done:
                    raise Violation(f"{finish}, but unfinished {shape.names(standing & ~facts.done)} was not undone")
            case "failed":
                standing_failed = [node for node in finish.failed if node in driver.world.undoable]
                if not finish.failed:
                    raise Violation(f"{finish} does not say why")
                if standing_failed and any(driver.rows[node].version is None for node in standing_failed):
                    raise Violation(f"{finish}, but the failed {standing_failed} was not undone")
                cancelled = driver.durable.cancelled
                if driver.on_failure == "keep" and not (cancelled and cancelled.undo):
                    self._judge_groups(driver, finish, facts, standing)
                else:
                    self._judge_kept(driver, finish, facts, standing)
                    if not finish.kept:
                        raise Violation(f"{finish}: a run that keeps no effect is undone")
        self._judge_uncertain(driver, finish, facts)
        self._judge_staying(driver, finish)

    def _judge_staying(self, driver: Driver, finish: commands.Finish) -> None:
        """2.8: without undo, what was finished stays. (A crash may have taken what was not saved.)"""
        if finish.status in ("failed", "cancelled") and self._staying is not None:
            epoch, effects = self._staying
            gone = effects - driver.world.undoable.keys()
            if epoch == driver.epoch and gone:
                raise Violation(f"{finish}, but {sorted(gone)} was undone although nobody asked for it")

    def _judge_groups(self, driver: Driver, finish: commands.Finish, facts: Facts, standing: int) -> None:
        """2.8: a transaction in which something failed for good is taken back before the run ends."""
        shape = facts.shape
        groups = shape.set_of(
            {node for group in self._failed_groups(driver) for node in driver.structure.inside(group)}
        )
        staying = kept(facts) & groups
        if standing & groups & ~staying:
            raise Violation(f"{finish}, but {shape.names(standing & groups & ~staying)} was not undone")
        if set(finish.kept) != set(shape.names(staying)):
            raise Violation(f"{finish}, but the effects that stay are {shape.names(staying)}")

    def _judge_kept(self, driver: Driver, finish: commands.Finish, facts: Facts, standing: int) -> None:
        shape = facts.shape
        staying = kept(facts)
        if standing & ~staying:
            raise Violation(f"{finish}, but {shape.names(standing & ~staying)} was not undone")
        if staying & ~standing:
            raise Violation(f"{finish}, but {shape.names(staying & ~standing)} was undone below something irrevocable")
        if set(finish.kept) != set(shape.names(staying)):
            raise Violation(f"{finish}, but the effects that stay are {shape.names(staying)}")
        if saga(facts) & facts.done:
            raise Violation(f"{finish}, but {shape.names(saga(facts) & facts.done)} was not dropped")

    def _judge_uncertain(self, driver: Driver, finish: commands.Finish, facts: Facts) -> None:
        shape = facts.shape
        open_ends = shape.names(facts.begun & shape.irrevocable & ~facts.done)
        if finish.status != "succeeded" and not set(finish.uncertain) >= set(open_ends):
            raise Violation(f"{finish}, but {open_ends} may have happened")
        if finish.status != "succeeded" and set(finish.failed) != driver.durable.failed:
            raise Violation(f"{finish}, but what failed is {sorted(driver.durable.failed)}")
        wrong = [node for node in finish.uncertain if node not in shape.names(facts.begun & shape.irrevocable)]
        if wrong:
            raise Violation(f"{finish}, but {wrong} has not begun")

    def _judge_success(self, driver: Driver) -> None:
        facts = driver.facts_after_crash()
        shape = facts.shape
        result = shape.position.get(driver.structure.sink)
        if result is None or not facts.is_saved(result):
            raise Violation("the result is handed out, but it is not saved")
        if not quiet(facts) >> result & 1:
            raise Violation("the result is handed out, but it is not quiet")
        facts = driver.facts()
        shape = facts.shape
        if facts.done != shape.everyone:
            raise Violation(f"the run has succeeded, but {shape.names(shape.everyone & ~facts.done)} is not done")
        self._values_belong_together(driver, facts)
        for node, row in driver.rows.items():
            assert row.version is not None
            writes = row.version.task.options.writes and not _wrote_nothing(driver, node)
            if writes and node not in driver.durable.wrote:
                raise Violation(f"the run has succeeded, but what {node} wrote is not committed")
            if row.version.handled:
                self._judge_handled(driver, row.version)
            elif row.version.task.options.effect == "undoable":
                applied = driver.world.undoable.get(node)
                if applied is not row.version:
                    raise Violation(f"the run has succeeded with {row.version!r}, but in the world is {applied!r}")
            elif row.version.effectful and driver.world.irrevocable.get(node) != row.version.inputs:
                raise Violation(f"the effect of {node} does not belong to its final inputs")
        left = (driver.world.undoable.keys() | driver.world.irrevocable.keys()) - driver.rows.keys()
        if left:
            raise Violation(f"the run has succeeded, but effects of {sorted(left)} are left, which it does not have")

    def _judge_handled(self, driver: Driver, version: Attempt) -> None:
        """2.8: a failed attempt of an undoable task is undone before a handler goes on."""
        if version.reported and version.node in driver.world.undoable:
            raise Violation(f"a handler answered for {version!r}, but its effect was not taken back")


def _is_saved(driver: Driver, node: str) -> bool:
    """Whether the journal has all parts of its present output."""
    return len(driver.appended.saved.get(node, {})) == driver.version(node).every_part.bit_count()


def _finished_effects(driver: Driver) -> frozenset[str]:
    """The undoable tasks that are done and not about to be taken back anyway."""
    recovering = driver.appended.recovering
    return frozenset(
        node
        for node, row in driver.rows.items()
        if row.version is not None
        and node not in recovering
        and row.version.task.options.effect == "undoable"
        and not row.version.handled
    )


def _wrote_nothing(driver: Driver, writer: str) -> bool:
    """Whether a handler gave its output, or it was in a graph that has ended, so that what it has not saved as a whole
    never counts."""
    version = driver.rows[writer].version
    structure = driver.structure
    return (version is not None and version.handled) or any(
        writer in structure.inside(expander) and writer not in driver.appended.wrote
        for expander in structure.ended.values()
    )


def _is_begun(begun: Attempt | None, attempt: Attempt) -> bool:
    """Every undoable attempt has its own record; for an irrevocable task, which is repeated as it was, one will do."""
    return begun is attempt or (begun is not None and attempt.task.options.effect == "irrevocable")


def _taken_back(facts: Facts, again: int, afresh: int) -> str | None:
    """Why this set must not be undone and dropped. `afresh`: those that give the same again, although they count as
    nondeterministic."""
    shape = facts.shape
    begun = for_good(facts)
    for x in each(begun & again):
        changing = shape.ancestors[x] & again & ~shape.repeatable & ~afresh
        if changing:
            return f"{shape.members[x].id} has begun and would run again after {shape.names(changing)}"
    for x in each(undone_by(facts, again)):
        if shape.descendants[x] & begun:
            return (
                f"{shape.members[x].id} is undone, but below it {shape.names(shape.descendants[x] & begun)} has begun"
            )
    return None
