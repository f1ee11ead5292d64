"""`make demo`: what onceflow does, to watch, in less than half a minute.

An unsafe graph and what the check proposes; one trip that is booked while its engine is killed again and again; some
thousand schedules of random graphs; and a start rule that looks right, being caught.
"""

from __future__ import annotations

import inspect
import sys
from random import Random
from time import monotonic

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from onceflow import UnsafeGraph, check, task, workflow
from onceflow.authoring.building import build_graph
from onceflow.core import commands, events
from onceflow.core.graph import Graph
from onceflow.core.state import EPOCH_BITS
from onceflow.testing.simulation import Caught, Settings, Simulation, Tally, play, play_graph, shapes
from onceflow.testing.simulation.attempts import Attempt
from onceflow.testing.simulation.story import draw

SECONDS = 6.0
"""How long random schedules are played."""
CALM = 12
"""The seed of a schedule in which nothing fails by itself."""


def cancel_room(city: str, *, output: str | None, key: str) -> None: ...


def cancel_flight(city: str, *, output: str | None, key: str) -> None: ...


def search(city: str) -> int:
    return 420


def book_room(city: str, cents: int) -> str:
    return f"a room in {city}"


def book_flight(city: str, cents: int) -> str:
    return f"a flight to {city}"


def charge(user: str, cents: int, room: str, flight: str) -> str:
    return f"{user} pays {cents}"


def trip(user: str, city: str, saved: bool) -> str:
    offer = task(can_rollback=True, checkpoint=saved)(search).bind(city)
    room = task(rollback=cancel_room)(book_room).bind(city, offer)
    flight = task(rollback=cancel_flight)(book_flight).bind(city, offer)
    return task(charge).bind(user, offer, room, flight)


def main() -> int:
    """Exit code 0 if everything went as it should, 130 after Ctrl-C."""
    console = Console(width=110)
    try:
        show_the_check(console)
        show_a_trip(console)
        show_many_schedules(console)
        show_a_wrong_rule(console)
    except KeyboardInterrupt:
        return 130
    return 0


def show_the_check(console: Console) -> None:
    """The check before the run, on a trip whose offer is not saved."""
    console.rule("[bold]1. A graph is checked before it runs")
    console.print(Syntax(inspect.getsource(trip), "python", background_color="default"))
    book = workflow(trip)
    try:
        check(book.bind("ann", "Rome", False))
    except UnsafeGraph as unsafe:
        console.print(Panel(escape(str(unsafe)), title="saved=False: UnsafeGraph", border_style="red"))
    check(book.bind("ann", "Rome", True))
    console.print("saved=True: [green]safe[/green]\n")


def show_a_trip(console: Console) -> None:
    """One run of the trip, whose engine is killed whenever something happens outside for the first time, at the worst
    moment: the journal does not know it yet."""
    console.rule("[bold]2. A trip is booked, and its engine is killed whenever something new happens outside")
    built = build_graph(workflow(trip).bind("ann", "Rome", True))
    graph = Graph([msgspec.structs.replace(node, call=None) for node in built.nodes], built.sink)
    simulation = Simulation(graph, Random(CALM), faults=0)
    simulation.stubborn = simulation.repeats = 0
    simulation.begin()
    told = 0
    happened: set[tuple[str, str]] = set()
    going = True
    while going:
        going = simulation.step()
        kind, what = simulation.driver.story.entries[-1]
        if kind == "lands" and isinstance(what, Attempt) and (what.kind, what.node) not in happened:
            happened.add((what.kind, what.node))
            simulation.crash()
        for entry in simulation.driver.story.entries[told:]:
            _tell(console, *entry)
        told = len(simulation.driver.story.entries)
    console.print(_ledger(simulation))


def _tell(console: Console, kind: str, what: object) -> None:
    match kind, what:
        case "crash", epoch:
            console.print(f"  [red]✗ engine {epoch} is killed: memory and everything not yet committed is gone[/red]")
        case "lands", Attempt(kind="undo") as undo:
            console.print(f"    [yellow]{undo.node} is taken back[/yellow]")
        case "lands", Attempt() as attempt:
            console.print(f"    [cyan]{attempt.node} happens outside[/cyan] (attempt {_number(attempt.number)})")
        case "command", commands.Append(record=record):
            told = {name: _value(getattr(record, name)) for name in record.__struct_fields__ if name != "graph"}
            console.print(f"      [dim]journal: {type(record).__name__} {' '.join(told.values())}[/dim]")
        case "event", events.Finished(node=node):
            console.print(f"    {node} has finished")
        case "load", stragglers:
            alive = f"; {_value(stragglers)} may still be alive" if stragglers else ""
            console.print(f"  [green]✓ another engine reads the journal and goes on[/green]{alive}")


def _value(value: object) -> str:
    match value:
        case int():
            return _number(value)
        case tuple():
            return escape(f"({' '.join(_value(item) for item in value)})") if value else ""
    return str(value)


def _number(attempt: int) -> str:
    """An attempt as people read it: the epoch, and its number in it."""
    epoch, number = attempt >> EPOCH_BITS, attempt & ((1 << EPOCH_BITS) - 1)
    return f"{epoch}.{number}" if epoch else str(number)


def _ledger(simulation: Simulation) -> Table:
    driver = simulation.driver
    table = Table(title=f"{driver.run.status} after {driver.epoch} engines", title_style="bold green")
    for column in ("task", "effect", "attempts", "undone", "there in the end"):
        table.add_column(column)
    for node in driver.graph.nodes:
        attempts = [attempt for attempt in driver.of_node[node.id] if attempt.launched]
        undone = sum(attempt.kind == "undo" for attempt in attempts)
        there = "once" if driver.world.has_effect_of(node.id) else "nothing to see"
        table.add_row(node.id, node.options.effect, str(len(attempts) - undone), str(undone), there)
    return table


def show_many_schedules(console: Console) -> None:
    """Random graphs under random schedules, with a counter that runs."""
    console.rule("[bold]3. Random graphs, random interleavings, random failures")
    tally = Tally()
    began = monotonic()
    seed = 0
    with Live(console=console, refresh_per_second=8) as live:
        while monotonic() - began < SECONDS:
            tally.add(play(seed))
            seed += 1
            if seed % 50 == 0:
                live.update(_counter(tally, monotonic() - began))
        live.update(_counter(tally, monotonic() - began))
    console.print()


def _counter(tally: Tally, seconds: float) -> Group:
    ends = ", ".join(f"{count:,} {status}" for status, count in tally.statuses.most_common())
    return Group(
        Text(f"  {tally.schedules:,} schedules ({tally.schedules / seconds:,.0f} a second), {tally.steps:,} steps"),
        Text(f"  {tally.faults:,} faults, among them {tally.crashes:,} dead engines"),
        Text(f"  {ends}"),
        Text("  no effect lost, none doubled, none contradicted", style="green"),
    )


def show_a_wrong_rule(console: Console) -> None:
    """The rule that only asks for consumers, on the graph that shows why it is wrong."""
    console.rule("[bold]4. A rule that looks right is caught")
    shape = shapes.dropped_neighbour()
    console.print(
        "An irrevocable task starts when all above it is saved, or has only consumers that are. Is that enough?\n"
    )
    console.print(escape(draw(shape.graph)), highlight=False)
    for seed in range(10_000):
        try:
            play_graph(shape.graph, Random(seed), Settings(rule="consumers"))
        except Caught as caught:
            console.print(Panel(escape(caught.reason), title=f"caught in schedule {seed + 1}", border_style="red"))
            last = caught.story.splitlines()[-8:]
            console.print(escape("\n".join(last)), highlight=False, style="dim")
            break
    console.print(f"\nIt lets {shape.waiting} start before {shape.until} has run. onceflow waits.")


if __name__ == "__main__":
    sys.exit(main())
