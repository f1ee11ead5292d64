"""Which rows are settled, quiet, reproducible (design 2.2), and which can be forgotten (2.10).

What is settled is kept up to date as rows become done and saved:

    settled(x)      done, parents all quiet, and (saved, or it has consumers and all of them are settled)
    quiet(x)        settled, or repeatable with all parents quiet
    reproducible(x) saved, or repeatable with all parents reproducible

Counters do nearly all the work: `unquiet`, `irreproducible` and `unsettled` say how many neighbours are in the way, and
a saved row whose parents are quiet is settled at once, in O(1).

What counters cannot see is that *settled* is a **greatest** fixed point. Take `a` (nondeterministic, not saved) read by
`s` (saved): `a` is settled if `s` is, and `s` is settled if `a` is. Each waits for the other, and the law says: both
are. Such groups become complete only when some member is saved (or when something outside that a member waited for is
settled), so that is when we look: assume the row settled, assume whatever that requires, and so on, until nothing more
is required (all that was assumed holds) or something is met that cannot hold (whatever relied on it is refuted).

To look only when it can help, a refuted claim remembers **one witness** (`Mark.why`): a claim that it requires and that
does not hold. It is looked at again only when that witness comes to hold. Witnesses form chains that end at a row which
is not done, or at a claim that was never examined; a chain that leads back into what is being assumed proves nothing,
and the claim is examined anew.

Nothing here is ever taken back, except `reproducible` of rows that are dropped: the law lets no settled row be dropped.

**Retiring.** A row and all its consumers settled: no task will ever read it again, so its output is released. The row
itself leaves memory too, unless an undo may still come by:

- A begun undoable row may be undone until it is **covered**: until something irrevocable that has begun stands on it.
  So it stays, and what lies below it (which would be dropped with it) stays as well.
- An undo reads what the attempt read. What is not carried in the *begun* record and not saved would have to be made
  again, so the rows that can make it are **pinned**.
- If a row could not be made again, none of its readers may be dropped once something irrevocable stands on it. So it
  stays as long as something undoable would be stood on with it; and when it goes as a covered row, its readers become
  covered.

"Stands on" is the least set that contains the ancestors of begun irrevocable tasks, the consumers of every member that
is not reproducible, and the ancestors of every member.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceflow.core.model import commands, walks
from onceflow.core.model.effects import Options
from onceflow.core.model.graph import Node
from onceflow.core.model.rows import Mark, Row, Scope, new_row, quiet_mark, settled_mark
from onceflow.core.rules.state import State

Assumed = dict[Mark, list[Mark]]
"""What is assumed to hold → the assumed marks that rely on it."""


def note_saved(run: State, row: Row) -> None:
    """All parts of a done row are saved (or its done record is)."""
    if not row.reproducible and not row.is_empty:
        set_reproducible(run, row)
    if row.settled:
        run.retirable.append(row)
    elif row.unquiet == 0 and not row.abandoned:
        _settle(run, row)
    else:
        mark = settled_mark(row)
        mark.why = None  # whatever kept it out before, what it requires now is something else
        run.explore.append(mark)


def note_done(run: State, row: Row) -> None:
    """The row became done, and is not saved yet."""
    if row.repeatable:
        if row.unquiet == 0 and not row.quiet:
            set_quiet(run, row)
        if row.irreproducible == 0 and not row.reproducible:
            set_reproducible(run, row)
    if row.unsettled == 0 and row.consumers and not row.settled and not row.writes:
        _settle(run, row)
    for mark in (row.settling, row.quieting):
        if mark is not None and mark.hinders:
            run.explore.append(mark)  # rows that wait for it need to know for what


def work_off_marks(run: State) -> None:
    reconsider, explore = run.reconsider, run.explore
    while reconsider or explore:
        while reconsider:
            _reconsider_row(run, reconsider.pop())
        if explore:
            mark = explore.pop()
            if mark.open and not mark.holds:
                _explore_from(run, mark)


def _reconsider_row(run: State, row: Row) -> None:
    if row.doomed:
        return
    if row.repeatable and row.visible:
        if row.unquiet == 0 and not row.quiet:
            set_quiet(run, row)
        if row.irreproducible == 0 and not row.reproducible:
            set_reproducible(run, row)
    if row.state == "done":
        if row.settled:
            run.retirable.append(row)
        elif (
            row.unquiet == 0
            and (row.saved == row.every_part or (row.unsettled == 0 and row.consumers and not row.writes))
            and not row.abandoned  # it may have to wait for what its graph has ended with
        ):
            _settle(run, row)
    else:
        run.ready.append(row)


def set_reproducible(run: State, row: Row) -> None:
    row.reproducible = True
    for consumer, _, _ in row.consumers:
        consumer.irreproducible -= 1
        if consumer.irreproducible == 0:
            run.reconsider.append(consumer)


def set_quiet(run: State, row: Row) -> None:
    row.quiet = True
    for consumer, _, _ in row.consumers:
        consumer.unquiet -= 1
        if consumer.unquiet == 0:
            run.reconsider.append(consumer)
    if row.quieting is not None:
        release_hindered(run, row.quieting)


def _settle(run: State, row: Row) -> None:
    row.settled = True
    if row.node.aside:
        run.aside.pop(row, None)
    if not row.quiet:
        set_quiet(run, row)
    if row.settling is not None:
        release_hindered(run, row.settling)
    for parent, _ in row.parents:
        parent.unsettled -= 1
        if parent.unsettled == 0:
            if parent.settled:
                run.retirable.append(parent)
            else:
                run.reconsider.append(parent)
    run.retirable.append(row)


def release_hindered(run: State, mark: Mark) -> None:
    hindered, mark.hinders = mark.hinders, []
    run.explore.extend(other for other in hindered if other.why is mark)


def forget_mark(run: State, mark: Mark) -> None:
    """Its row is there no more: it is the witness of no other."""
    hindered, mark.hinders = mark.hinders, []
    for other in hindered:
        if other.why is mark:
            other.why = None
            run.explore.append(other)


# -- groups that are settled together ----------------------------------------------------------------------------------


def _explore_from(run: State, start: Mark) -> None:
    assumed: Assumed = {start: []}
    stack = [start]
    run.no_way_back = not start.hinders and not run.explore
    run.verdicts = {}
    while stack:
        mark = stack.pop()
        if mark in assumed:
            obstacle = _examine(run, mark, assumed, stack)
            if obstacle is not None:
                _refute(run, mark, obstacle, assumed)
    for mark in assumed:
        mark.why = None
        row = mark.row
        if mark.about_quiet:
            if not row.quiet:
                set_quiet(run, row)
        elif not row.settled:
            _settle(run, row)


def _examine(run: State, mark: Mark, assumed: Assumed, stack: list[Mark]) -> Mark | None:
    """Assume everything that the mark requires, or name what it requires and cannot have."""
    row = mark.row
    if not mark.about_quiet:
        end = walks.end_of(row) if row.abandoned else None
        if end is not None and _consult(run, settled_mark(end), mark, assumed, stack):
            return settled_mark(end)
        if row.saved != row.every_part:
            obstacle = _examine_consumers(run, mark, assumed, stack)
            if obstacle is not None:
                return obstacle
        if row.repeatable:
            if row.quiet:
                return None
            return quiet_mark(row) if _consult(run, quiet_mark(row), mark, assumed, stack) else None
    if row.unquiet:
        parents = row.parents
        while parents[mark.parent][0].quiet:
            mark.parent += 1
        for position in range(mark.parent, len(parents)):
            parent = parents[position][0]
            if not parent.quiet and _consult(run, quiet_mark(parent), mark, assumed, stack):
                return quiet_mark(parent)
    return None


def _examine_consumers(run: State, mark: Mark, assumed: Assumed, stack: list[Mark]) -> Mark | None:
    """An unsaved row is settled only with all its consumers. Look first for one that plainly is not, so that a row
    with many consumers is not gone through again each time one of them is saved."""
    row = mark.row
    if row.exported or not row.consumers or row.writes:
        return NEVER
    plain = _plain_obstacle(mark)
    if plain is not None:
        if plain.row.state != "done" or run.verdicts.get(plain):
            return plain
        if plain.why is not None and _stands(run, plain.why, assumed):
            return plain
        deeper = _plain_obstacle(plain) if plain.row.consumers else NEVER
        if deeper is not None and deeper.row.state != "done" and plain not in assumed:
            _blame(plain, deeper)
            return plain
    for consumer, _, _ in row.consumers:
        if not consumer.settled and _consult(run, settled_mark(consumer), mark, assumed, stack):
            return settled_mark(consumer)
    return None


def _consult(run: State, mark: Mark, relying: Mark, assumed: Assumed, stack: list[Mark]) -> bool:
    """True if the mark cannot hold; otherwise it holds or is assumed to."""
    if mark in assumed:
        assumed[mark].append(relying)
        return False
    if not mark.open or mark.row.foreign or run.verdicts.get(mark):
        return True
    if mark.why is not None and _stands(run, mark.why, assumed):
        return True
    assumed[mark] = [relying]
    stack.append(mark)
    return False


def _stands(run: State, witness: Mark | None, assumed: Assumed) -> bool:
    """Does this chain of witnesses end at something that cannot hold, without passing what is assumed?"""
    if run.no_way_back:
        return True
    verdicts = run.verdicts
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


def _refute(run: State, mark: Mark, obstacle: Mark, assumed: Assumed) -> None:
    refuted = [(mark, obstacle)]
    while refuted:
        mark, obstacle = refuted.pop()
        relying = assumed.pop(mark, None)
        if relying is not None:
            _blame(mark, obstacle)
            run.verdicts[mark] = True
            refuted.extend((other, mark) for other in relying)


def _plain_obstacle(mark: Mark) -> Mark | None:
    """The first consumer that is not settled and not done-and-saved."""
    row = mark.row
    consumers = row.consumers
    while mark.consumer < len(consumers):
        consumer = consumers[mark.consumer][0]
        if not consumer.settled and consumer.saved != consumer.every_part:
            return settled_mark(consumer)
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


# -- released and forgotten --------------------------------------------------------------------------------------------


def retire_rows(run: State) -> None:
    """Work off the agenda of rows that became settled together with all their consumers."""
    if run.retained:
        _let_go_of_groups(run)
    safe: set[Row] = set()
    for row in run.retirable:  # grows while it is worked off
        if not row.settled or row.unsettled or not row.consumers:
            continue
        scope = (row if row.nested is None else row.nested.rows[0]).scope  # where it may be read once more
        if scope.group is not None and (group := scope.unsettled_group) is not None:
            run.retained.setdefault(group, []).append(row)
            continue
        if not _release(run, row):
            continue
        if _may_be_forgotten(run, row, safe):
            _forget(run, row)
    run.retirable.clear()


def _let_go_of_groups(run: State) -> None:
    """A transaction that may fail takes back what is settled in it, and starts it afresh: until it is done, nothing
    of it is released or forgotten."""
    for group in list(run.retained):
        sink = group.sink
        if sink is None or sink.settled:
            run.retirable += run.retained.pop(group)
        elif run.rows.get(sink.id) is not sink:  # dropped as a whole
            del run.retained[group]


def _release(run: State, row: Row) -> bool:
    """Free the output, if no save and no undo may read it."""
    if row.checkpoint and row.saved != row.every_part and row.available == row.every_part:
        return False  # the save that is on its way reads it
    if row.pins:
        return False
    if not row.released:
        row.released = True
        run.saving -= row.saving.bit_count()  # of parts whose siblings are lost
        row.saving = 0
        if row.recorded:
            row.attempt = 0
        run.emit(commands.Release(row.id))
    return True


def _may_be_forgotten(run: State, row: Row, safe: set[Row]) -> bool:
    if row.covered:
        if row.reproducible:
            return True
        if row.repeatable and row.unretired:
            return False  # it may yet become reproducible, when a parent is saved
        run.retirable += cover(run, [consumer for consumer, _, _ in row.consumers])
        return True
    if row.effect == "undoable" and row.begun:
        return False
    if not run.exposed:
        return True  # all above it is done, and none of that can be undone: none of its readers is dropped for that
    if row.unretired:
        return False
    if row.reproducible:
        return True
    undoable = _exposed_with(row, safe)
    if undoable is not None:
        run.lingering.setdefault(undoable, {})[row] = None
    return undoable is None


def _forget(run: State, row: Row) -> None:
    row.retired = True
    if row.effect == "undoable" and row.begun:
        run.kept[row.id] = row.scope
    for consumer, _, _ in row.consumers:
        consumer.unretired -= 1
        if consumer.unretired == 0:
            run.retirable.append(consumer)
            if consumer.effect == "none" and consumer.fully_saved:
                consumer.parents = []  # it never runs again, and may have read very many
    row.parents = []
    row.consumers = []
    row.joined = ()
    row.expander = row.nested = row.settling = row.quieting = None  # its refs stay: an undo below may read them
    del run.rows[row.id]


def cover(run: State, rows: Iterable[Row]) -> list[Row]:
    """Begun irrevocable tasks stand on these rows and on all above them. Returns those of which that is news."""
    news = [row for row in rows if not row.covered]
    for row in news:
        row.covered = True
    for row in news:
        if row.effect == "undoable" and row.begun:
            no_longer_exposed(run, row)
        unpin(run, row)
        for parent, _ in row.parents:
            if not parent.covered:
                parent.covered = True
                news.append(parent)
    return news


def no_longer_exposed(run: State, row: Row) -> None:
    """An undoable row is covered, or undone: the rows that stay because of it may go."""
    run.exposed -= 1
    run.retirable += run.lingering.pop(row, ())


def cover_readers(run: State) -> None:
    """Extend what is covered to what is stood on: the readers of covered rows that could not be made again."""
    rows = [row for row in run.rows.values() if row.covered]
    for row in rows:
        if not row.reproducible:
            rows += cover(run, [consumer for consumer, _, _ in row.consumers])


def pin(run: State, row: Row) -> None:
    """An undo of this row reads what it read."""
    run.exposed += 1
    carried = set(row.carried)
    read = [
        parent
        for parent, mask in row.parents
        if not parent.fully_saved
        and not carried.issuperset((parent.id, part) for part in range(mask.bit_length()) if mask >> part & 1)
    ]
    row.pinned = list(dict.fromkeys([*read, *walks.reach(read, walks.unsaved_parents)]))
    for parent in row.pinned:
        parent.pins += 1


def pin_nested(run: State, expander: Row, rows: list[Row]) -> None:
    """A graph that a crash took is there again: what was read of its expander are its rows now."""
    if expander.pins:
        for row in run.rows.values():
            if row.pinned is not None and expander in row.pinned:
                row.pinned += rows
                for other in rows:
                    other.pins += 1


def unpin(run: State, row: Row) -> None:
    pinned, row.pinned = row.pinned, None
    for parent in pinned or ():
        parent.pins -= 1
        if not parent.pins:
            run.retirable.append(parent)


def _exposed_with(row: Row, safe: set[Row]) -> Row | None:
    """A begun undoable row that is not covered, and would be stood on if this one were. `safe` are rows for which there
    is none."""
    found = [row]
    seen = set(found)
    while found:
        row = found.pop()
        if row.covered or row in safe:
            continue
        if row.effect == "undoable" and row.begun:
            return row
        more = [other for other in walks.stood_on_with(row) if other not in seen]
        found += more
        seen.update(more)
    safe |= seen
    return None
