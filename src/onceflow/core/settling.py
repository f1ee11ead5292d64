"""Which rows are settled, quiet, reproducible (design 2.2), kept up to date as rows become done and saved.

    settled(x)      done, parents all quiet, and (saved, or it has consumers and all of them are settled)
    quiet(x)        settled, or repeatable with all parents quiet
    reproducible(x) saved, or repeatable with all parents reproducible

Counters do nearly all the work: `unquiet`, `irreproducible` and `unsettled` say how many neighbours are in the way,
and a saved row whose parents are quiet is settled at once, in O(1).

What counters cannot see is that *settled* is a **greatest** fixed point. Take `a` (nondeterministic, not saved) read
by `s` (saved): `a` is settled if `s` is, and `s` is settled if `a` is. Each waits for the other, and the law says:
both are. Such groups become complete only when some member is saved (or when something outside that a member waited
for is settled), so that is when we look: assume the row settled, assume whatever that requires, and so on, until
nothing more is required (all that was assumed holds) or something is met that cannot hold (whatever relied on it is
refuted).

To look only when it can help, a refuted claim remembers **one witness** (`Mark.why`): a claim that it requires and
that does not hold. It is looked at again only when that witness comes to hold. Witnesses form chains that end at a
row which is not done, or at a claim that was never examined; a chain that leads back into what is being assumed
proves nothing, and the claim is examined anew.

Nothing here is ever taken back, except `reproducible` of rows that are dropped: the law lets no settled row be dropped.
"""

from __future__ import annotations

from onceflow.core.effects import Options
from onceflow.core.graph import Node
from onceflow.core.rows import Mark, Row, Scope, new_row
from onceflow.core.state import RunState

Assumed = dict[Mark, list[Mark]]
"""What is assumed to hold → the assumed marks that rely on it."""


class Settling(RunState):
    """Keeps `settled`, `quiet`, `reproducible` of every row."""

    _no_way_back: bool = False
    """Nobody's witness is what is being assumed, so no chain of witnesses can lead back to it."""
    _verdicts: dict[Mark, bool] = {}
    """What is known in this exploration of chains of witnesses: does the one that begins here stand?"""

    def _note_saved(self, row: Row) -> None:
        """All parts of a done row are saved (or its done record is)."""
        if not row.reproducible and not row.is_empty:
            self._set_reproducible(row)
        if row.settled:
            self._retirable.append(row)
        elif row.unquiet == 0 and not row.abandoned:
            self._settle(row)
        else:
            mark = settling(row)
            mark.why = None  # whatever kept it out before, what it requires now is something else
            self._explore.append(mark)

    def _note_done(self, row: Row) -> None:
        """The row became done, and is not saved yet."""
        if row.repeatable:
            if row.unquiet == 0 and not row.quiet:
                self._set_quiet(row)
            if row.irreproducible == 0 and not row.reproducible:
                self._set_reproducible(row)
        if row.unsettled == 0 and row.consumers and not row.settled and not row.writes:
            self._settle(row)
        for mark in (row.settling, row.quieting):
            if mark is not None and mark.hinders:
                self._explore.append(mark)  # whoever waits for it needs to know for what

    def _work_off_marks(self) -> None:
        reconsider, explore = self._reconsider, self._explore
        while reconsider or explore:
            while reconsider:
                self._reconsider_row(reconsider.pop())
            if explore:
                mark = explore.pop()
                if mark.open and not mark.holds:
                    self._explore_from(mark)

    def _reconsider_row(self, row: Row) -> None:
        if row.doomed:
            return
        if row.repeatable and row.visible:
            if row.unquiet == 0 and not row.quiet:
                self._set_quiet(row)
            if row.irreproducible == 0 and not row.reproducible:
                self._set_reproducible(row)
        if row.state == "done":
            if row.settled:
                self._retirable.append(row)
            elif (
                row.unquiet == 0
                and (row.saved == row.every_part or (row.unsettled == 0 and row.consumers and not row.writes))
                and not row.abandoned  # it may have to wait for what its graph has ended with
            ):
                self._settle(row)
        else:
            self._ready.append(row)

    def _set_reproducible(self, row: Row) -> None:
        row.reproducible = True
        for consumer, _, _ in row.consumers:
            consumer.irreproducible -= 1
            if consumer.irreproducible == 0:
                self._reconsider.append(consumer)

    def _set_quiet(self, row: Row) -> None:
        row.quiet = True
        for consumer, _, _ in row.consumers:
            consumer.unquiet -= 1
            if consumer.unquiet == 0:
                self._reconsider.append(consumer)
        if row.quieting is not None:
            self._release_hindered(row.quieting)

    def _settle(self, row: Row) -> None:
        row.settled = True
        if row.node.aside:
            self._aside.pop(row, None)
        if not row.quiet:
            self._set_quiet(row)
        if row.settling is not None:
            self._release_hindered(row.settling)
        for parent, _ in row.parents:
            parent.unsettled -= 1
            if parent.unsettled == 0:
                if parent.settled:
                    self._retirable.append(parent)
                else:
                    self._reconsider.append(parent)
        self._retirable.append(row)

    def _release_hindered(self, mark: Mark) -> None:
        hindered, mark.hinders = mark.hinders, []
        self._explore.extend(other for other in hindered if other.why is mark)

    def _forget_mark(self, mark: Mark) -> None:
        """Its row is there no more: it is the witness of no other."""
        hindered, mark.hinders = mark.hinders, []
        for other in hindered:
            if other.why is mark:
                other.why = None
                self._explore.append(other)

    # -- groups that are settled together ------------------------------------------------------------------------------

    def _explore_from(self, start: Mark) -> None:
        assumed: Assumed = {start: []}
        stack = [start]
        self._no_way_back = not start.hinders and not self._explore
        self._verdicts = {}
        while stack:
            mark = stack.pop()
            if mark in assumed:
                obstacle = self._examine(mark, assumed, stack)
                if obstacle is not None:
                    self._refute(mark, obstacle, assumed)
        for mark in assumed:
            mark.why = None
            row = mark.row
            if mark.about_quiet:
                if not row.quiet:
                    self._set_quiet(row)
            elif not row.settled:
                self._settle(row)

    def _examine(self, mark: Mark, assumed: Assumed, stack: list[Mark]) -> Mark | None:
        """Assume everything that the mark requires, or name what it requires and cannot have."""
        row = mark.row
        if not mark.about_quiet:
            end = end_of(row) if row.abandoned else None
            if end is not None and self._consult(settling(end), mark, assumed, stack):
                return settling(end)
            if row.saved != row.every_part:
                obstacle = self._examine_consumers(mark, assumed, stack)
                if obstacle is not None:
                    return obstacle
            if row.repeatable:
                if row.quiet:
                    return None
                return quieting(row) if self._consult(quieting(row), mark, assumed, stack) else None
        if row.unquiet:
            parents = row.parents
            while parents[mark.parent][0].quiet:
                mark.parent += 1
            for position in range(mark.parent, len(parents)):
                parent = parents[position][0]
                if not parent.quiet and self._consult(quieting(parent), mark, assumed, stack):
                    return quieting(parent)
        return None

    def _examine_consumers(self, mark: Mark, assumed: Assumed, stack: list[Mark]) -> Mark | None:
        """An unsaved row is settled only with all its consumers. Look first for one that plainly is not, so that a row
        with many consumers is not gone through again each time one of them is saved."""
        row = mark.row
        if row.exported or not row.consumers or row.writes:
            return NEVER
        plain = _plain_obstacle(mark)
        if plain is not None:
            if plain.row.state != "done" or self._verdicts.get(plain):
                return plain
            if plain.why is not None and self._stands(plain.why, assumed):
                return plain
            deeper = _plain_obstacle(plain) if plain.row.consumers else NEVER
            if deeper is not None and deeper.row.state != "done" and plain not in assumed:
                _blame(plain, deeper)
                return plain
        for consumer, _, _ in row.consumers:
            if not consumer.settled and self._consult(settling(consumer), mark, assumed, stack):
                return settling(consumer)
        return None

    def _consult(self, mark: Mark, relying: Mark, assumed: Assumed, stack: list[Mark]) -> bool:
        """True if the mark cannot hold; otherwise it holds or is assumed to."""
        if mark in assumed:
            assumed[mark].append(relying)
            return False
        if not mark.open or mark.row.foreign or self._verdicts.get(mark):
            return True
        if mark.why is not None and self._stands(mark.why, assumed):
            return True
        assumed[mark] = [relying]
        stack.append(mark)
        return False

    def _stands(self, witness: Mark | None, assumed: Assumed) -> bool:
        """Does this chain of witnesses end at something that cannot hold, without passing what is assumed?"""
        if self._no_way_back:
            return True
        verdicts = self._verdicts
        passed: list[Mark] = []
        verdict = False
        while witness is not None and witness not in assumed and not witness.holds:
            if not witness.open or witness.row.foreign:
                verdict = True
                break
            if witness in verdicts:
                verdict = verdicts[witness]
                break
            passed.append(witness)
            verdicts[witness] = False  # a chain that comes back to itself proves nothing
            witness = witness.why
        verdicts.update(dict.fromkeys(passed, verdict))
        return verdict

    def _refute(self, mark: Mark, obstacle: Mark, assumed: Assumed) -> None:
        refuted = [(mark, obstacle)]
        while refuted:
            mark, obstacle = refuted.pop()
            relying = assumed.pop(mark, None)
            if relying is not None:
                _blame(mark, obstacle)
                self._verdicts[mark] = True
                refuted.extend((other, mark) for other in relying)


def end_of(row: Row) -> Row | None:
    """For what was abandoned: what its graph has ended with, if that is not settled: it may be taken back, and then the
    row starts afresh."""
    scope: Scope | None = row.scope if row.is_empty else None
    while scope is not None:
        if scope.given is not None:
            return None if scope.given.settled else scope.given
        scope = scope.outer
    return None


def settling(row: Row) -> Mark:
    """The claim that the row is settled."""
    if row.settling is None:
        row.settling = Mark(row, about_quiet=False)
    return row.settling


def quieting(row: Row) -> Mark:
    """The claim that the row is quiet, which is the claim that it is settled if it is not repeatable."""
    if not row.repeatable:
        return settling(row)
    if row.quieting is None:
        row.quieting = Mark(row, about_quiet=True)
    return row.quieting


def _plain_obstacle(mark: Mark) -> Mark | None:
    """The first consumer that is not settled and not done-and-saved."""
    row = mark.row
    consumers = row.consumers
    while mark.consumer < len(consumers):
        consumer = consumers[mark.consumer][0]
        if not consumer.settled and consumer.saved != consumer.every_part:
            return settling(consumer)
        mark.consumer += 1
    return None


def _blame(mark: Mark, obstacle: Mark) -> None:
    """Remember the obstacle, or better what it waits for itself if it will always wait for that: what a repeatable or a
    saved row requires of its parents never changes, so the chain can be shortened there. (Not at a row that is about to
    be dropped: what it waited for is not what keeps it now.)"""
    while (
        obstacle.why is not None
        and obstacle.open
        and (obstacle.about_quiet or obstacle.row.saved == obstacle.row.every_part)
    ):
        obstacle = obstacle.why
    mark.why = obstacle
    if obstacle is not NEVER:
        obstacle.hinders.append(mark)


NEVER = Mark(new_row("", Node(id="", task="", options=Options()), Scope()), about_quiet=False)
"""The obstacle of an unsaved row that no consumer can settle: only its own save can help, which looks again by
itself."""
