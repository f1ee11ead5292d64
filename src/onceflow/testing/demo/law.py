"""`onceflow demo --law`: the check before the run, and a crash at every moment of the run.

An unsafe graph and what the check proposes; then the safe one in memory, with an engine that dies at each of its
moments, and dies again while it recovers.
"""

from __future__ import annotations

import inspect

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.syntax import Syntax

from onceflow import UnsafeGraph, check, task, workflow
from onceflow.testing.kit.crashes import crash_everywhere
from onceflow.testing.kit.engine import MemoryEngine
from onceflow.testing.kit.ledger import Ledger

WORLD = Ledger()


def cancel_room(city: str, *, output: str | None, key: str) -> None:
    WORLD.take_back(key)


def search(city: str) -> int:
    return 420


def book_room(city: str, cents: int) -> str:
    WORLD.enter(f"a room in {city}")
    return f"a room in {city}"


def charge(user: str, cents: int, room: str) -> str:
    WORLD.enter(f"{cents} cents")
    return f"{user} pays {cents}"


def trip(user: str, city: str, saved: bool) -> str:
    offer = task(effect="none", checkpoint=saved)(search).bind(city)
    room = task(rollback=cancel_room)(book_room).bind(city, offer)
    return task(charge).bind(user, offer, room)


def show(console: Console) -> None:
    """Raises `AssertionError` if a crash left anything else than the trip."""
    show_the_check(console)
    show_every_crash(console)


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


def show_every_crash(console: Console) -> None:
    """The safe trip, once for every two moments at which its engine can die."""
    console.print("\n[bold]A safe graph survives a crash at every moment.[/bold]")
    book = workflow(trip)

    def scenario(engine: MemoryEngine) -> None:
        WORLD.clear()
        assert engine.run(book.bind("ann", "Rome", True)) == "ann pays 420"
        WORLD.assert_holds("a room in Rome", "420 cents")

    lives = crash_everywhere(scenario, crashes=2)
    console.print(f"  played {lives:,} times: a crash at each moment, and a second one at each later moment")
    console.print("  no effect lost, none doubled, none left behind", style="green")
