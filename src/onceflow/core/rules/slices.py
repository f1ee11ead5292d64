"""Runs over a part of a graph: which decisions are made elsewhere, and how the parts notify each other.

`Run(graph, members=…)` is about some nodes of a graph only. Those that the members read, and that are no members, are
**foreign**: others run them, and report with `Given` what that came to. What of the members is read outside is
**exported**: nothing here learns when its readers are settled, so unsaved it never is. If the output of a foreign row
is lost and needed, the run asks for it (`Need`), once for each loss.

The other rules know of this the two marks `Row.foreign` and `Row.exported`, and call `ask_for` where they would run a
row again.
"""

from __future__ import annotations

from collections.abc import Collection

from onceflow.core.model import commands, events
from onceflow.core.model.rows import Row, settled_mark
from onceflow.core.rules import outputs, settling, starting
from onceflow.core.rules.state import State
from onceflow.errors import IllegalEvent


def is_partial(run: State) -> bool:
    """Whether the run is about a part of its graph."""
    return run.members is not None


def cut(run: State, members: Collection[str]) -> None:
    """Leave the members, in a run that is new, and what they read."""
    rows = list(run.rows.values())
    for row in rows:
        if row.id not in members:
            row.foreign = True
            for parent, _ in row.parents:
                parent.exported = True
                parent.consumers = [edge for edge in parent.consumers if edge[0] is not row]
                parent.unsettled -= 1
            row.parents = []
            row.missing = row.unquiet = row.irreproducible = row.unretired = row.uncommitted = 0
    for row in rows:
        if not row.foreign:
            row.unsettled += row.exported
        elif not row.consumers:
            del run.rows[row.id]
    if rows[run.graph.sink].foreign:
        run.sink = None
        run.whole.ends_with(None)


def ends(run: State) -> list[Row]:
    """The rows that everything leads to: the sink, or rows without readers in this part of the graph."""
    if run.sink is not None:
        return [run.sink]
    return [row for row in run.rows.values() if not row.consumers]


def is_done(run: State) -> bool:
    """Whether all members are done, and what they read."""
    return not run.running and all(row.state == "done" for row in run.rows.values())


def ask_for(run: State, foreign: Row) -> None:
    """A member needs a lost output from outside. Asked once for each loss."""
    if not foreign.asked_for:
        foreign.asked_for = True
        run.emit(commands.Need(foreign.id))


def given(run: State, event: events.Given) -> None:
    """Others say what a foreign row has come to."""
    row = run.rows.get(event.node)
    if row is None or not row.foreign:
        raise IllegalEvent(f"{event.node!r} is not outside this part of the graph")
    if event.available:
        row.asked_for = False
        first_time = not row.visible
        row.move("done")
        row.visible = True
        outputs.gain(run, row, row.every_part, first_time)
        if not first_time:
            outputs.share(run, row)
    elif row.visible:
        outputs.lose(run, row, row.every_part, {})
    if event.quiet and not row.quiet:
        settling.set_quiet(run, row)
        settling.release_hindered(run, settled_mark(row))
        if row.writes:
            starting.show_writes(run, row)
    if event.reproducible and not row.reproducible:
        settling.set_reproducible(run, row)
