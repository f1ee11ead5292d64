"""The law, word for word: sections 2.2, 2.3, 2.5 and 2.8 of the design as functions over facts.

`Run`, which keeps the same states incrementally, is checked against this module. Nothing here is incremental: every
answer is computed from the bare facts by naive iteration, in the words of the design. `Run` asks it in validate mode,
and the simulation asks it after every step.

A `Shape` is what does not change while tasks run: members, edges, options. `Facts` is what does, also the refs that
outputs hold: to the law each is one more part of the output (`refs`). Sets of members are bit masks over the shape's
topological order (`Members`), because the simulation asks these questions millions of times; the parts of one output
are a bit mask as well, as in `graph.Edge`. `shape.names(members)` turns a set into ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from onceflow.core.model.effects import Effect
from onceflow.core.model.refs import RefPart

Members = int
"""A set of members: bit n stands for the n-th in the shape's order."""


@dataclass(slots=True)
class Member:
    """One node as the law sees it; it never changes. `parents` maps ids to the declared parts that are read; 0 is a
    control-only edge."""

    id: str
    parents: Mapping[str, int]
    effect: Effect = "none"
    deterministic: bool = False
    checkpoint: bool = False
    parts: int = 1
    expander: str | None = None
    """The node whose output is the graph that this one belongs to."""
    takes: Mapping[str, int] = field(default_factory=dict)
    """Ids of parents → the declared parts whose actors it takes for itself (2.7)."""
    writes: bool = False
    """It writes task variables."""
    joins: bool = False
    """It has been given the outcomes of members that stand aside, which are among its parents (2.11)."""
    forks: bool = False
    """Something stands aside in the graph that it returned (2.11)."""


class Shape:
    """Members in topological order, and the sets that follow from edges and options alone."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.members: tuple[Member, ...] = tuple(_in_topological_order({m.id: m for m in members}))
        self.position: dict[str, int] = {m.id: n for n, m in enumerate(self.members)}
        count = len(self.members)
        self.everyone: Members = (1 << count) - 1
        self.every_part: list[int] = [(1 << m.parts) - 1 for m in self.members]
        self.edges: list[list[tuple[int, int]]] = [
            [(self.position[parent], parts) for parent, parts in m.parents.items()] for m in self.members
        ]
        self.ancestors: list[Members] = [0] * count
        self.consumers: list[Members] = [0] * count
        self.descendants: list[Members] = [0] * count
        for x, edges in enumerate(self.edges):
            for parent, _ in edges:
                self.ancestors[x] |= 1 << parent | self.ancestors[parent]
                self.consumers[parent] |= 1 << x
        for x in reversed(range(count)):
            for parent, _ in self.edges[x]:
                self.descendants[parent] |= 1 << x | self.descendants[x]
        self.undoable: Members = 0
        self.irrevocable: Members = 0
        self.repeatable: Members = 0
        self.checkpoint: Members = 0
        self.writers: Members = 0
        self.joiners: Members = 0
        for x, m in enumerate(self.members):
            if m.effect == "undoable":
                self.undoable |= 1 << x
            elif m.effect == "irrevocable":
                self.irrevocable |= 1 << x
            if m.deterministic and m.effect != "undoable":
                self.repeatable |= 1 << x
            if m.checkpoint:
                self.checkpoint |= 1 << x
            if m.writes:
                self.writers |= 1 << x
            if m.joins:
                self.joiners |= 1 << x

    def writes_done_record(self, x: int) -> bool:
        """2.12: an effectful task that is not saved and that others only wait for."""
        if self.members[x].effect == "none" or self.checkpoint >> x & 1 or not self.consumers[x]:
            return False
        return not any(
            parent == x and parts for consumer in each(self.consumers[x]) for parent, parts in self.edges[consumer]
        )

    def set_of(self, ids: Iterable[str]) -> Members:
        """The set of the members with these ids."""
        found = 0
        for id in ids:
            found |= 1 << self.position[id]
        return found

    def names(self, members: Members) -> tuple[str, ...]:
        """The ids of a set, in topological order."""
        return tuple([self.members[x].id for x in each(members)])

    def below(self, members: Members) -> Members:
        """All descendants of a set."""
        found = 0
        for x in each(members):
            found |= self.descendants[x]
        return found


class Facts:
    """What is true of the members now. The lists hold one mask of parts for each position of the shape."""

    def __init__(
        self,
        shape: Shape,
        done: Members = 0,
        visible: Members = 0,
        begun: Members = 0,
        running: Members = 0,
        recorded: Members = 0,
        wrote: Members = 0,
        empty: Members = 0,
        memory: list[int] | None = None,
        saved: list[int] | None = None,
        refs: dict[int, Mapping[int, RefPart]] | None = None,
        given: dict[int, int] | None = None,
    ) -> None:
        self.shape = shape
        self.done = done
        """An attempt has finished, and the output has not been dropped since. It may have been lost."""
        self.visible = visible
        """A consumer may have read the output since it was last dropped."""
        self.begun = begun
        """Effectful tasks of which an attempt may have had an effect that no undo has taken back. Irrevocable: for
        ever."""
        self.running = running
        """An attempt is under way, and has not been stopped or lost."""
        self.recorded = recorded
        """Tasks with a durable *done* record, which counts as their save (2.12)."""
        self.wrote = wrote
        """Tasks whose writes to variables are committed (2.11)."""
        self.empty = empty
        """What counts as saved because its graph has ended (2.8), and is not."""
        self.given: dict[int, int] = {} if given is None else given
        """What was abandoned → what its graph has ended with."""
        self.memory: list[int] = memory or [0] * len(shape.members)
        """The parts that are in memory somewhere."""
        self.saved: list[int] = saved or [0] * len(shape.members)
        """The parts that are saved."""
        self.refs: dict[int, Mapping[int, RefPart]] = {} if refs is None else refs
        """Position → the refs in the output, by part. A member that has none, or of which nothing is known after a
        crash, is not here."""

    def every_part(self, x: int) -> int:
        """2.7: the declared parts, and each ref in the output."""
        parts = self.shape.every_part[x]
        if x in self.refs:
            for part in self.refs[x]:
                parts |= 1 << part
        return parts

    def has_part(self, x: int, part: int) -> bool:
        """Whether that is a part of its output, as far as is known."""
        return bool(self.shape.every_part[x] >> part & 1) or (x in self.refs and part in self.refs[x])

    def reads(self, x: int) -> Sequence[tuple[int, int]]:
        """2.7: the parents of x and what it reads of each. A reader of a declared part also reads the refs it holds."""
        if not self.refs:
            return self.shape.edges[x]
        found = []
        for parent, declared in self.shape.edges[x]:
            parts = declared
            if parent in self.refs:
                for part, ref in self.refs[parent].items():
                    if ref.holders & declared:
                        parts |= 1 << part
            found.append((parent, parts))
        return found

    def takes(self, x: int) -> Sequence[tuple[int, int]]:
        """2.7: the versions of actors that x takes: the node whose output holds them, and the part index."""
        taken = self.shape.members[x].takes
        if not taken:
            return ()
        found = []
        for parent, declared in taken.items():
            at = self.shape.position[parent]
            for part, ref in self.refs.get(at, _NO_REFS).items():
                if ref.actor and ref.holders & declared:
                    found.append((at, part))
        return found

    def is_saved(self, x: int) -> bool:
        """Saved as a whole, including every reference in it."""
        return self.saved[x] == self.every_part(x) or bool(self.recorded >> x & 1)

    def available(self, x: int) -> int:
        """The parts that can be read now. 2.7: a ref that came in shares the object with its origin."""
        parts = self.memory[x] | self.saved[x]
        if x not in self.refs:
            return parts
        for part in self.refs[x]:
            if parts >> part & 1:
                continue
            at: tuple[int, int] | None = (x, part)
            while at is not None and not (self.memory[at[0]] | self.saved[at[0]]) >> at[1] & 1:
                at = self.origin(at[0], at[1])
            if at is not None:
                parts |= 1 << part
        return parts

    def origin(self, x: int, part: int) -> tuple[int, int] | None:
        """2.7: the member and its part through which this ref came in. None if x made it; or if that cannot be found
        any more, because the graph of the parent is gone, or nothing is known of what the parent returned."""
        if x not in self.refs:
            return None
        ref = self.refs[x].get(part)
        if ref is None or ref.origin is None:
            return None
        parent = self.shape.position.get(ref.origin[0])
        if parent is None or not self.has_part(parent, ref.origin[1]):
            return None
        return parent, ref.origin[1]

    def maker(self, x: int, part: int) -> int:
        """2.5(a): the nodes that have to run again if this part of x is lost: its producer; for a ref the task that
        created it."""
        while (origin := self.origin(x, part)) is not None:
            x, part = origin
        return x

    def with_everything_unsaved_lost(self) -> Facts:
        """The facts after the worst possible loss."""
        return Facts(
            self.shape,
            self.done,
            self.visible,
            self.begun,
            self.running,
            self.recorded,
            self.wrote,
            self.empty,
            saved=self.saved,
            refs=self.refs,
            given=self.given,
        )


def settled(facts: Facts) -> Members:
    """2.2: the greatest set S of done nodes in which every x (i) is saved, or has consumers and all of them are in S,
    and (ii) has all its non-repeatable ancestors in S. 2.11: what writes task variables has to be saved."""
    shape = facts.shape
    inside = facts.done
    saved = sum([1 << x for x in each(inside) if facts.is_saved(x)])
    while True:
        expelled = 0
        outside = ~inside
        changing = outside & ~shape.repeatable
        for x in each(inside):
            held = saved >> x & 1 and (x not in facts.given or inside >> facts.given[x] & 1)
            if not held and not shape.writers >> x & 1:
                consumers = shape.consumers[x]
                held = consumers != 0 and consumers & outside == 0
            founded = shape.ancestors[x] & changing == 0
            if not (held and founded):
                expelled |= 1 << x
        if not expelled:
            return inside
        inside &= ~expelled


def quiet(facts: Facts) -> Members:
    """2.2: x and every ancestor of x is repeatable or settled."""
    shape = facts.shape
    firm = shape.repeatable | settled(facts)
    return sum([1 << x for x in each(firm) if shape.ancestors[x] & ~firm == 0])


def reproducible(facts: Facts) -> Members:
    """2.2: saved(x), or x is repeatable and all its parents are reproducible."""
    shape = facts.shape
    found = 0
    for x, edges in enumerate(shape.edges):
        again = shape.repeatable >> x & 1 and all(found >> parent & 1 for parent, _ in edges)
        if again or (facts.is_saved(x) and not facts.empty >> x & 1):
            found |= 1 << x
    return found


def why_not_start(facts: Facts, node: str) -> str | None:
    """2.3, 2.9 for members of nested graphs and 2.11 for task variables: what keeps this task from starting, or None
    if it may start."""
    shape = facts.shape
    x = shape.position[node]
    member = shape.members[x]
    for parent, parts in facts.reads(x):
        if parts & ~facts.available(parent):
            return f"the output of {shape.members[parent].id} is not available"
        if not parts and not facts.done >> parent & 1:
            return f"{shape.members[parent].id} is not done"
    for parent, part in facts.takes(x):
        for reader in each(shape.consumers[parent] & ~(1 << x)):
            if (parent, part) in facts.takes(reader) or not any(
                other == parent and parts >> part & 1 for other, parts in facts.reads(reader)
            ):
                continue
            if facts.running >> reader & 1:
                return f"{shape.members[reader].id} reads the actor that it takes"
            yet_to_read = not (facts.done >> reader & 1 or shape.checkpoint >> parent & 1)
            if yet_to_read and not shape.ancestors[reader] >> x & 1:
                return f"{shape.members[reader].id} has yet to read the actor that it takes"
    if member.effect == "undoable":
        found = reproducible(facts)
        for parent, _ in shape.edges[x]:
            if not found >> parent & 1:
                return f"{shape.members[parent].id} is not reproducible"
    for parent, _ in shape.edges[x]:
        if shape.writers >> parent & 1 and not facts.is_saved(parent):
            return f"what {shape.members[parent].id} wrote is not committed"
        if shape.joiners >> parent & 1 and not facts.is_saved(parent):
            return f"what {shape.members[parent].id} has joined is not saved"
    if member.effect == "irrevocable" or member.writes:
        calm = quiet(facts)
        for parent, _ in shape.edges[x]:
            if not calm >> parent & 1:
                return f"{shape.members[parent].id} is not quiet"
    if member.expander is not None:
        expander = shape.position[member.expander]
        if shape.members[expander].forks and not facts.saved[expander] & 1:
            return f"something stands aside in the graph that {member.expander} returned, which is not saved"
        if (member.effect != "none" or member.writes) and not facts.is_saved(expander):
            return f"the graph that {member.expander} returned is not saved"
    return None


def may_start(facts: Facts, node: str) -> bool:
    """2.3: may this task start if it is not done?"""
    return why_not_start(facts, node) is None


def blocked(shape: Shape) -> Members:
    """2.4, and 2.9 for nested graphs: a dry run. With nothing done, let every task that may start be done, and saved at
    once if it has `checkpoint=True`; repeat. What never gets done is blocked; a graph is safe if nothing is. 2.7: a
    part that another node takes is assumed to be an actor, and is gone if it is not saved and could not be made
    again."""
    facts = Facts(shape)
    while True:
        before = facts.done
        for x in each(shape.everyone & ~facts.done):
            if not may_start(facts, shape.members[x].id):
                continue
            for parent, part in facts.takes(x):
                if not reproducible(facts) >> parent & 1:
                    facts.memory[parent] &= ~(1 << part)
            facts.done |= 1 << x
            facts.visible |= 1 << x
            taken = _taken_of(shape, x)
            if taken:
                actors = [RefPart(1 << part, actor=True) for part in each(taken)]
                facts.refs[x] = dict(enumerate(actors, shape.members[x].parts))
            facts.memory[x] = facts.every_part(x)
            if shape.checkpoint >> x & 1:
                facts.saved[x] = facts.every_part(x)
            elif shape.writes_done_record(x):
                facts.recorded |= 1 << x
        if facts.done == before:
            return shape.everyone & ~facts.done


def _taken_of(shape: Shape, x: int) -> int:
    """The declared parts of x that another node takes."""
    taken = 0
    for consumer in each(shape.consumers[x]):
        taken |= shape.members[consumer].takes.get(shape.members[x].id, 0)
    return taken


def rerun(facts: Facts, failed: Members) -> Members:
    """2.5: the least set R that contains the failed tasks and (a) the producer of every unavailable input, and the
    creator of every unavailable ref, of a member, (b) all descendants of every non-repeatable member that had been
    visible, (c) every `checkpoint=True` node that is not settled and whose output was lost before it was saved (if
    that is a ref that came in, its creator)."""
    shape = facts.shape
    again = failed
    for x in each(shape.checkpoint & facts.done & ~settled(facts)):
        again |= makers_of(facts, x, facts.every_part(x))
    new = again
    while new:
        grown = 0
        for x in each(new):
            for parent, parts in facts.reads(x):
                grown |= makers_of(facts, parent, parts)
            if facts.visible & ~shape.repeatable & 1 << x:
                grown |= shape.descendants[x]
        new = grown & ~again
        again |= new
    return again


def makers_of(facts: Facts, x: int, parts: int) -> Members:
    """The nodes that have to run again for those of these parts of x that are not available."""
    found = 0
    lost = parts & ~facts.available(x) if parts else 0
    if lost:
        for part in each(lost):
            found |= 1 << facts.maker(x, part)
    return found


def undone_by(facts: Facts, again: Members) -> Members:
    """2.5: the members of R whose effect is taken back."""
    return again & facts.begun & facts.shape.undoable


def for_good(facts: Facts) -> Members:
    """What can never be taken back: begun irrevocable tasks, and (2.11) those whose writes are committed."""
    return facts.begun & facts.shape.irrevocable | facts.wrote


def stood_on(facts: Facts) -> Members:
    """2.8: what begun irrevocable tasks stand on: the least set that contains their ancestors, the consumers of every
    member that is not reproducible, and the ancestors of every member."""
    shape = facts.shape
    again = reproducible(facts)
    found = _ancestors_of(shape, for_good(facts))
    while True:
        grown = found | _ancestors_of(shape, found)
        for x in each(found & ~again):
            grown |= shape.consumers[x]
        if grown == found:
            return found
        found = grown


def kept(facts: Facts) -> Members:
    """2.8: the undoable effects that stay because something irrevocable stands on them."""
    return facts.begun & facts.shape.undoable & stood_on(facts)


def saga(facts: Facts) -> Members:
    """2.8: every begun undoable task that nothing irrevocable stands on, plus all their descendants."""
    taken_back = facts.begun & facts.shape.undoable & ~kept(facts)
    return taken_back | facts.shape.below(taken_back)


def group_saga(facts: Facts, group: Members) -> Members:
    """2.8: the same for a transaction: every begun undoable task of the group that nothing irrevocable stands on, plus
    all their descendants."""
    taken_back = facts.begun & facts.shape.undoable & group & ~kept(facts)
    return taken_back | facts.shape.below(taken_back)


def worst_case(facts: Facts) -> str | None:
    """6.1: if everything unsaved were lost now, would R hold a begun irrevocable task together with a non-repeatable
    ancestor of it, or undo a task below which an irrevocable one has begun? Says which, or None."""
    shape = facts.shape
    begun = for_good(facts)
    if not _ancestors_of(shape, begun) & ~shape.repeatable:
        return None  # nothing above them can change or be undone, whatever R is
    again = rerun(facts.with_everything_unsaved_lost(), failed=shape.everyone & ~facts.done)
    for x in each(begun & again):
        changing = shape.ancestors[x] & again & ~shape.repeatable
        if changing:
            return f"{shape.members[x].id} has begun and would run again after {', '.join(shape.names(changing))}"
    for x in each(undone_by(facts, again)):
        below = shape.descendants[x] & begun
        if below:
            return f"{shape.members[x].id} would be undone, but below it {', '.join(shape.names(below))} has begun"
    return None


@lru_cache(maxsize=65_536)
def each(members: Members) -> tuple[int, ...]:
    """The positions in a set, in topological order. The same small sets are asked for all the time."""
    found = []
    while members:
        lowest = members & -members
        found.append(lowest.bit_length() - 1)
        members ^= lowest
    return tuple(found)


_NO_REFS: Mapping[int, RefPart] = {}


def _ancestors_of(shape: Shape, members: Members) -> Members:
    found = 0
    for x in each(members):
        found |= shape.ancestors[x]
    return found


def _in_topological_order(members: Mapping[str, Member]) -> Iterator[Member]:
    """Parents first; otherwise as given. Without recursion, because a shape may be a long chain."""
    placed: set[str] = set()
    for first in members:
        waiting = [first]
        while waiting:
            id = waiting[-1]
            missing = [parent for parent in members[id].parents if parent not in placed]
            if id in placed or not missing:
                waiting.pop()
                if id not in placed:
                    placed.add(id)
                    yield members[id]
            else:
                waiting.extend(missing)
