"""The display of the demo: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from onceflow.testing.demo.ledger import Ledger
from onceflow.testing.demo.points import Point
from onceflow.testing.demo.trips import EFFECTS

FRAMES = 12
"""A second."""

MARKS = {
    "started": ("▸", "cyan"),
    "finished": ("✓", "green"),
    "failed": ("!", "bold yellow"),
    "lost": ("✗", "bold red"),
    "undoing": ("↶", "cyan"),
    "undone": ("↶", "yellow"),
    "undo failed": ("!", "bold yellow"),
}
"""Kind of event → how it looks."""
LEGEND = "▸ runs   ✓ done   ↶ taken back   ! refused   ✗ killed   blank: not run again"
UNDER_WAY = ("started", "undoing")


class Screen(Protocol):
    """What is shown of one trip."""

    def process_started(self) -> None: ...

    def happened(self, kind: str, task: str) -> None: ...

    def killed(self, point: Point) -> None: ...


@contextlib.contextmanager
def open_screen(console: Console, ledger: Ledger, trip: str) -> Iterator[Screen]:
    if not console.is_terminal:
        yield _Lines(console, ledger, trip)
        return
    picture = _Picture(ledger, trip)
    with Live(get_renderable=picture.draw, console=console, refresh_per_second=FRAMES):
        yield picture


class _Lines:
    def __init__(self, console: Console, ledger: Ledger, trip: str) -> None:
        self._console = console
        self._ledger = ledger
        self._trip = trip
        self._processes = 0
        self._told = 0

    def process_started(self) -> None:
        self._processes += 1
        self._print(f"process {self._processes} starts")

    def happened(self, kind: str, task: str) -> None:
        self._tell_requests()
        if task in EFFECTS:
            self._print(f"  {task}: {kind}")

    def killed(self, point: Point) -> None:
        self._tell_requests()
        self._print(f"SIGKILL to process {self._processes} and its workers: {point.story}")

    def _tell_requests(self) -> None:
        for request in self._ledger.requests(self._trip, self._told):
            what = "takes back" if request.undo else "enters"
            reply = "" if request.changed else ": nothing to take back" if request.undo else ": it has that already"
            self._print(f"      the ledger {what} {short(request.key)}{reply}")
            self._told = request.number

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


class _Picture:
    """Tasks × processes, and the ledger below. Drawn from the thread of `Live`."""

    def __init__(self, ledger: Ledger, trip: str) -> None:
        self._ledger = ledger
        self._trip = trip
        self._processes: list[dict[str, list[str]]] = []
        """For each process, the kinds of events of each task."""
        self._kills: list[Point] = []

    def process_started(self) -> None:
        self._processes.append({})

    def happened(self, kind: str, task: str) -> None:
        if task in EFFECTS:
            kinds = self._processes[-1].setdefault(task, [])
            if kinds and kinds[-1] in UNDER_WAY:
                kinds.pop()
            kinds.append(kind)

    def killed(self, point: Point) -> None:
        for kinds in self._processes[-1].values():
            if kinds[-1] in UNDER_WAY:
                kinds[-1:] = [*(["undone"] if kinds[-1] == "undoing" else []), "lost"]
        self._kills.append(point)

    def draw(self) -> RenderableType:
        below: list[RenderableType] = [Text(LEGEND, style="dim")]
        if self._kills:
            last = Text(f"✗ SIGKILL {len(self._kills)}: ", style="bold red", no_wrap=True, overflow="ellipsis")
            below.append(last.append(self._kills[-1].story, style="not bold"))
        return Group(self._tasks(), *below, Text(), ledger_table(self._ledger, self._trip))

    def _tasks(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False)
        table.add_column(f"the trip of {self._trip}", no_wrap=True)
        table.add_column("effect", style="dim", no_wrap=True)
        for number in range(len(self._processes)):
            killed = number < len(self._kills)
            table.add_column(Text(f"{number + 1}{'✗' * killed}", style="bold red" if killed else "bold"), min_width=3)
        for task, effect in EFFECTS.items():
            cells = []
            for process in list(self._processes):
                cell = Text()
                for kind in list(process.get(task, ())):
                    cell.append(*MARKS[kind])
                cells.append(cell)
            table.add_row(task, effect, *cells)
        return table


def ledger_table(ledger: Ledger, trip: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for column in ("the ledger outside", "what", "asked", "there"):
        table.add_column(column, no_wrap=True)
    for entry in ledger.entries(trip):
        there = Text("taken back", style="yellow") if entry.taken_back else Text("✓", style="green")
        style = "dim" if entry.taken_back else ""
        table.add_row(Text(short(entry.key), style), Text(entry.what, style), f"{entry.asked}×", there)
    return table


def short(key: str) -> str:
    """A key without the run."""
    return key.partition("/")[2]
