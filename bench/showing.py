"""What was measured, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench import threads
from bench.rows import Comparison, Line, Row, Spread


def show_rows(title: str, rows: Sequence[Row], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("measured", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("spread", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("limit", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        verdict = "" if not row.limit or row.value is None else "[green]held[/]" if row.ok else "[red]NOT HELD[/]"
        name = f"{row.name} ({row.note})" if row.note else row.name
        value = "not measured" if row.value is None else readable(row.value)
        spread = "" if row.low is None or row.high is None else f"{readable(row.low)} – {readable(row.high)}"
        table.add_row(escape(name), value, spread, escape(row.unit), escape(row.limit), verdict)
    console.print(table)


def show_comparison(title: str, comparison: Comparison, console: Console) -> None:
    """Notes stand below the table, where there is room for them."""
    ways = [way.name for way in comparison.ours]
    table = Table(title=f"{title}\n{comparison.what}; {comparison.rounds} rounds", title_justify="left")
    table.add_column("", overflow="fold")
    table.add_column(comparison.unit, justify="right", no_wrap=True)
    for way in ways:
        table.add_column(f"÷ {escape(way)}", justify="right", no_wrap=True)
    table.add_column("keeps", overflow="fold")
    for line in (*comparison.ours, *comparison.peers):
        table.add_row(*_cells(line, ways))
    if comparison.limits:
        table.add_section()
        table.add_row("[bold]limits[/]", "", *(f"[bold]{escape(way)} ÷[/]" for way in ways), "")
        for line in comparison.limits:
            table.add_row(*_cells(line, ways))
    console.print(table)
    for line in (*comparison.ours, *comparison.peers, *comparison.limits):
        if line.note:
            console.print(escape(f"  {line.name}: {line.note}"))


def _cells(line: Line, ways: Sequence[str]) -> list[str]:
    value = "not measured" if line.value is None else spread(line.value)
    return [
        escape(line.name),
        value,
        *(spread(line.ratios[way], " ×") if way in line.ratios else "" for way in ways),
        escape(line.keeps),
    ]


def spread(values: Spread, unit: str = "") -> str:
    """The median, and in parentheses the lowest and the highest."""
    return f"{readable(values.median)}{unit} ({readable(values.low)} – {readable(values.high)})"


def show_threads(sections: Sequence[threads.Section], console: Console) -> None:
    for section in sections:
        wall = section.seconds / section.count * 1e6
        table = Table(title=f"{section.name}: {readable(wall)} µs of time per {section.unit}", title_justify="left")
        for column in ("who", f"µs running per {section.unit}", "of the time", "in the kernel", "waiting for a core"):
            table.add_column(column, justify="left" if column == "who" else "right")
        table.add_column(f"wakes per {section.unit}", justify="right")
        for who, usage in sorted(section.usages.items(), key=lambda item: -item[1].running):
            table.add_row(
                escape(who),
                readable(usage.running / section.count * 1e6),
                f"{usage.running / section.seconds:.0%}",
                f"{usage.kernel:.0%}",
                f"{usage.waiting / section.seconds:.0%}",
                readable(usage.wakes / section.count),
            )
        console.print(table)


def readable(value: float) -> str:
    """Whole from 1,000 on, three significant digits below."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
