"""`onceflow demo --law`: the check before the run, and the rules under simulation.

An unsafe graph and what the check proposes; some thousand schedules of random graphs; and a start rule that looks
right, being caught.
"""

from __future__ import annotations

import inspect
from random import Random
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from onceflow import UnsafeGraph, check, task, workflow
from onceflow.testing.simulation import Caught, Settings, Tally, play, play_graph, shapes
from onceflow.testing.simulation.story import draw

SECONDS = 5.0
"""How long random schedules are played."""


def cancel_room(city: str, *, output: str | None, key: str) -> None: ...


def search(city: str) -> int:
    return 420


def book_room(city: str, cents: int) -> str:
    return f"a room in {city}"


def charge(user: str, cents: int, room: str) -> str:
    return f"{user} pays {cents}"


def trip(user: str, city: str, saved: bool) -> str:
    offer = task(effect="none", checkpoint=saved)(search).bind(city)
    room = task(rollback=cancel_room)(book_room).bind(city, offer)
    return task(charge).bind(user, offer, room)


def show(console: Console) -> bool:
    """Whether the wrong rule was caught. A violation of the right one is raised as `Caught`."""
    show_the_check(console)
    show_many_schedules(console)
    return show_a_wrong_rule(console)


def show_the_check(console: Console) -> None:
    """The check before the run, on a trip whose offer is not saved."""
    console.print("\n[bold]A graph is checked before it runs.[/bold]")
    console.print(Syntax(inspect.getsource(trip), "python", background_color="default"))
    book = workflow(trip)
    try:
        check(book.bind("ann", "Rome", False))
    except UnsafeGraph as unsafe:
        console.print(Panel(escape(str(unsafe)), title="saved=False: UnsafeGraph", border_style="red"))
    check(book.bind("ann", "Rome", True))
    console.print("saved=True: [green]safe[/green]")


def show_many_schedules(console: Console) -> None:
    """Random graphs under random schedules, with a counter that runs."""
    console.print("\n[bold]The rules hold for random graphs, under random interleavings and failures.[/bold]")
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


def _counter(tally: Tally, seconds: float) -> Group:
    ends = ", ".join(f"{count:,} {status}" for status, count in tally.statuses.most_common())
    return Group(
        Text(f"  {tally.schedules:,} schedules ({tally.schedules / seconds:,.0f} a second), {tally.steps:,} steps"),
        Text(f"  {tally.faults:,} faults, among them {tally.crashes:,} dead engines"),
        Text(f"  {ends}"),
        Text("  no effect lost, none doubled, none contradicted", style="green"),
    )


def show_a_wrong_rule(console: Console) -> bool:
    """The rule that only asks for consumers, on the graph that shows why it is wrong."""
    console.print("\n[bold]A rule that looks right is caught.[/bold]")
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
            console.print(f"\nIt lets {shape.waiting} start before {shape.until} has run. onceflow waits.")
            return True
    return False
